package vmtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The constructors of keys by the kind of their value.

func text(name, doc string, p func(*Scenario) *string) Key {
	return oneOf(name, doc, p)
}

// oneOf is a word out of a list; with no list any word is taken.
func oneOf(name, doc string, p func(*Scenario) *string, valid ...string) Key {
	set := func(s *Scenario, v string) error {
		if len(valid) > 0 && !contains(valid, v) {
			return fmt.Errorf("%q is not one of %s; the nearest is %q", v, strings.Join(valid, ", "), Nearest(v, valid))
		}
		*p(s) = v
		if name == "release" && v == "default" {
			*p(s) = ""
		}
		return nil
	}
	return Key{name, doc, set, func(s *Scenario) string { return *p(s) }}
}

func releasePtr(s *Scenario) *string { return &s.Release }

func pattern(name, doc string) Key {
	return Key{name, doc, nil, func(*Scenario) string { return "" }}
}

func number32(name, doc string, lo, hi int, p func(*Scenario) *int) Key {
	return Key{name, doc,
		func(s *Scenario, v string) error { return intInto(p(s), v, lo, hi) },
		func(s *Scenario) string { return strconv.Itoa(*p(s)) }}
}

func onOff(name, doc string, p func(*Scenario) *bool) Key {
	return Key{name, doc + ": on or off",
		func(s *Scenario, v string) error { return into(p(s), v, parseOnOff) },
		func(s *Scenario) string {
			if *p(s) {
				return "on"
			}
			return "off"
		}}
}

func size(name, doc string, lo Bytes, p func(*Scenario) *Bytes) Key {
	set := func(s *Scenario, v string) error {
		b, err := ParseBytes(v)
		if err == nil && b < lo {
			err = fmt.Errorf("%s is less than %d", v, lo)
		}
		if err == nil {
			*p(s) = b
		}
		return err
	}
	return Key{name, doc, set, func(s *Scenario) string { return p(s).String() }}
}

func duration(name, doc string, p func(*Scenario) *time.Duration) Key {
	return Key{name, doc,
		func(s *Scenario, v string) error { return into(p(s), v, ParseDuration) },
		func(s *Scenario) string { return p(s).String() }}
}

func optDuration(name, doc string, p func(*Scenario) **time.Duration) Key {
	set := func(s *Scenario, v string) error {
		d, err := ParseDuration(v)
		if err == nil {
			*p(s) = &d
		}
		return err
	}
	get := func(s *Scenario) string {
		if d := *p(s); d != nil {
			return d.String()
		}
		return ""
	}
	return Key{name, doc + "; unset: the model's", set, get}
}

func bitRate(name, doc string, p func(*Scenario) *BitRate) Key {
	return Key{name, doc,
		func(s *Scenario, v string) error { return into(p(s), v, ParseBitRate) },
		func(s *Scenario) string { return p(s).String() }}
}

func byteRate(name, doc string, p func(*Scenario) *ByteRate) Key {
	return Key{name, doc,
		func(s *Scenario, v string) error { return into(p(s), v, ParseByteRate) },
		func(s *Scenario) string { return p(s).String() }}
}

func into[T any](p *T, v string, parse func(string) (T, error)) error {
	t, err := parse(v)
	if err == nil {
		*p = t
	}
	return err
}

func intInto(p *int, v string, lo, hi int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < lo || n > hi {
		return fmt.Errorf("%q is not a number from %d to %d", v, lo, hi)
	}
	*p = n
	return nil
}

func parseOnOff(v string) (bool, error) {
	switch v {
	case "on", "true", "1":
		return true, nil
	case "off", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither on nor off", v)
}

func setSeed(s *Scenario, v string) error {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a seed: write a whole number from 0", v)
	}
	s.Seed = n
	return nil
}

func setIP(s *Scenario, v string) error {
	if v != "4" && v != "6" {
		return fmt.Errorf("%q is neither 4 nor 6", v)
	}
	s.IP = int(v[0] - '0')
	return nil
}

func setLoss(s *Scenario, v string) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not a share from 0 to 1", v)
	}
	s.Link.Loss = f
	return nil
}

func contains(list []string, v string) bool {
	return slices.Contains(list, v)
}
