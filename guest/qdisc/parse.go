package qdisc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// param is a parameter in a spec's text: where it is kept and how it is read.
type param struct {
	name  string
	field any // *int, *int64, *time.Duration, *bool, *[]uint64 or one of the types below
}

type (
	rateField  struct{ bps *int64 }       // bits per second
	delayField struct{ d *time.Duration } // a time that may be zero
	slackField struct{ d *time.Duration } // likewise, but zero is kept as -1
)

// params are the parameters of the spec's discipline that its text may set.
func (s *Spec) params() []param {
	limit := param{"limit", &s.Limit}
	switch s.Kind {
	case PFIFOFast:
		return []param{limit}
	case TBF:
		return []param{{"rate", rateField{&s.RateBps}}, {"burst", &s.Burst}, limit}
	case Netem:
		return []param{{"delay", delayField{&s.Delay}}, {"rate", rateField{&s.RateBps}}, limit, {"drop", &s.Drop}}
	case FQ:
		f := &s.FQ
		return []param{
			limit, {"maxrate", rateField{&s.RateBps}}, {"flow_limit", &f.FlowLimit}, {"quantum", &f.Quantum},
			{"initial_quantum", &f.InitialQuantum}, {"refill_delay", &f.Refill},
			{"low_rate_threshold", rateField{&f.LowRateBps}}, {"timer_slack", slackField{&f.Slack}}, {"horizon", &f.Horizon},
			{"ce_threshold", &f.CEThreshold}, {"buckets", &f.Buckets}, {"horizon_cap", &f.HorizonCap},
			{"nopacing", &f.NoPacing},
		}
	case FQCodel:
		k := &s.Codel
		return []param{
			limit, {"target", &k.Target}, {"interval", &k.Interval}, {"ce_threshold", &k.CEThreshold},
			{"quantum", &k.Quantum}, {"flows", &k.Flows}, {"drop_batch", &k.DropBatch},
			{"memory_limit", &k.MemoryLimit}, {"noecn", &k.NoECN},
		}
	}
	return nil
}

// ParseSpec reads a discipline with its parameters, such as
//
//	pfifo_fast
//	fq:maxrate=1G,timer_slack=0s
//	fq_codel:target=1ms,noecn
//	tbf:rate=200M,burst=71680,limit=20971520
//	netem:delay=5ms,rate=100M,limit=1000,drop=3;17
//
// with tc(8)'s names. Rates are in bits per second with k, M, G or T for powers of
// 1000; sizes are plain bytes; times have a unit. A parameter without a value is a
// switch. A leading "mq " makes no difference, see Kind.UnmarshalText. An error wraps ErrUnknownKind or ErrSpec and says what would be right.
func ParseSpec(text string) (Spec, error) {
	name, rest, more := strings.Cut(text, ":")
	var s Spec
	if err := s.Kind.UnmarshalText([]byte(name)); err != nil {
		return s, err
	}
	if more {
		params := s.params()
		for word := range strings.SplitSeq(rest, ",") {
			if err := set(params, word); err != nil {
				return Spec{}, fmt.Errorf("%w %s: %w", ErrSpec, s.Kind, err)
			}
		}
	}
	if err := s.Validate(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// set sets the parameter that word names.
func set(params []param, word string) error {
	name, value, _ := strings.Cut(word, "=")
	i := slices.IndexFunc(params, func(p param) bool { return p.name == name })
	if i >= 0 {
		if err := scan(params[i].field, value); err != nil {
			return fmt.Errorf("%s %q: %w", name, value, err)
		}
		return nil
	}
	if len(params) == 0 {
		return fmt.Errorf("unknown parameter %q: it has none", name)
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.name
	}
	return fmt.Errorf("unknown parameter %q%s: it has %s", name, didYouMean(name, names), strings.Join(names, ", "))
}

// What a parameter's value needs to be. Zero is refused where it would mean the
// default.
var (
	errNumber   = errors.New("needs a whole number above 0, as in 1000")
	errNumbers  = errors.New("needs numbers of packets from 1, as in 3;17")
	errDuration = errors.New("needs a time above 0 with a unit, as in 5ms")
	errDelay    = errors.New("needs a time with a unit, as in 5ms")
	errRate     = errors.New("needs bits per second, up to 10T, as in 100M")
	errSwitch   = errors.New("takes no value")
)

// scan reads a parameter's value.
func scan(field any, value string) (err error) {
	switch f := field.(type) {
	case *int:
		if *f, err = strconv.Atoi(value); err != nil || *f <= 0 {
			return errNumber
		}
	case *int64:
		if *f, err = strconv.ParseInt(value, 10, 64); err != nil || *f <= 0 {
			return errNumber
		}
	case *[]uint64:
		*f, err = parseNumbers(value)
	case *bool:
		if *f = true; value != "" {
			return errSwitch
		}
	case rateField:
		*f.bps, err = parseRate(value)
	default:
		return scanTime(field, value)
	}
	return err
}

func scanTime(field any, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return errDelay
	}
	switch f := field.(type) {
	case *time.Duration:
		if *f = d; d == 0 {
			return errDuration
		}
	case delayField:
		*f.d = d
	case slackField:
		if *f.d = d; d == 0 {
			*f.d = -1
		}
	}
	return nil
}

func parseRate(s string) (int64, error) {
	unit := int64(1)
	if i := strings.IndexByte("kMGT", last(s)); i >= 0 {
		s = s[:len(s)-1]
		for range i + 1 {
			unit *= 1000
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || n > rateMax/unit {
		return 0, errRate
	}
	return n * unit, nil
}

// last is the last byte of a string, 0 if it is empty.
func last(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

func parseNumbers(s string) (list []uint64, err error) {
	for w := range strings.SplitSeq(s, ";") {
		n, err := strconv.ParseUint(w, 10, 63)
		if err != nil || n == 0 {
			return nil, errNumbers
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list, nil
}

// didYouMean proposes the name nearest to one that does not exist, if any is near.
func didYouMean(name string, names []string) string {
	best, near := len(name)/2+2, ""
	for _, n := range names {
		if d := distance(name, n); d < best {
			best, near = d, n
		}
	}
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", near)
}

// distance is how many characters must be inserted, deleted or changed to make b
// out of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, diag+1)
		}
	}
	return row[len(b)]
}
