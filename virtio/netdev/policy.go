package netdev

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxHoldPackets and MaxHoldTime bound the parameters of the hold policy.
const (
	MaxHoldPackets = 32768
	MaxHoldTime    = 10 * time.Second
)

// Policy is a TX completion policy: when a chain that the wire is done with
// goes back to the guest as a used entry. It delays only the used entry; the
// packet itself left when the port said so. The zero value is "none": at once.
type Policy struct {
	// HoldPackets is the number of finished packets that are enough to publish
	// all of them; 0 is no such number, HoldTime alone decides.
	HoldPackets int
	// HoldTime is the longest that a finished packet waits for others, counted
	// from its done time; 0 switches holding off.
	HoldTime time.Duration
}

// PolicyForms lists what ParsePolicy accepts, for help texts.
func PolicyForms() []string {
	return []string{"none", "hold:packets=N,time=T", "hold:time=T"}
}

// Holding reports whether the policy delays used entries at all.
func (p Policy) Holding() bool { return p.HoldTime > 0 }

// String writes the policy as ParsePolicy reads it.
func (p Policy) String() string {
	if !p.Holding() {
		return "none"
	}
	if p.HoldPackets == 0 {
		return "hold:time=" + p.HoldTime.String()
	}
	return fmt.Sprintf("hold:packets=%d,time=%v", p.HoldPackets, p.HoldTime)
}

// ParsePolicy reads a policy: "none", or "hold:" with time=T (a Go duration
// such as 50us) and optionally packets=N. Policies are joined by "+"; since
// this package has one that does anything, a join may hold it only once. The
// time is required: without a deadline the last packets before a pause would
// never be completed. Errors wrap ErrPolicy and name the form that is right.
func ParsePolicy(s string) (Policy, error) {
	var p Policy
	for part := range strings.SplitSeq(s, "+") {
		name, args, _ := strings.Cut(strings.TrimSpace(part), ":")
		switch {
		case name == "none" && args == "":
		case name == "none":
			return Policy{}, fmt.Errorf("%w: none takes no parameters, got %q", ErrPolicy, args)
		case name == "hold" && p.Holding():
			return Policy{}, fmt.Errorf("%w %q: hold is given twice", ErrPolicy, s)
		case name == "hold":
			if err := p.parseHold(args); err != nil {
				return Policy{}, err
			}
		default:
			return Policy{}, fmt.Errorf("%w: unknown policy %q, want one of: %s", ErrPolicy, name, strings.Join(PolicyForms(), "; "))
		}
	}
	return p, nil
}

func (p *Policy) parseHold(args string) error {
	for arg := range strings.SplitSeq(args, ",") {
		key, val, _ := strings.Cut(arg, "=")
		var err error
		switch strings.TrimSpace(key) {
		case "packets":
			p.HoldPackets, err = parsePackets(val)
		case "time":
			p.HoldTime, err = parseHoldTime(val)
		default:
			err = fmt.Errorf("%w: hold has no parameter %q, want packets=N and time=T", ErrPolicy, arg)
		}
		if err != nil {
			return err
		}
	}
	if !p.Holding() {
		return fmt.Errorf("%w: hold needs time=T, such as hold:packets=32,time=50us", ErrPolicy)
	}
	return nil
}

func parsePackets(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 1 || n > MaxHoldPackets {
		return 0, fmt.Errorf("%w: packets=%s is not a number in 1..%d", ErrPolicy, s, MaxHoldPackets)
	}
	return n, nil
}

func parseHoldTime(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || d <= 0 || d > MaxHoldTime {
		return 0, fmt.Errorf("%w: time=%s is not a duration such as 50us, up to %v", ErrPolicy, s, MaxHoldTime)
	}
	return d, nil
}

func (p Policy) validate() error {
	if p.HoldPackets < 0 || p.HoldPackets > MaxHoldPackets {
		return fmt.Errorf("%w: HoldPackets %d is not in 0..%d", ErrPolicy, p.HoldPackets, MaxHoldPackets)
	}
	if p.HoldTime < 0 || p.HoldTime > MaxHoldTime {
		return fmt.Errorf("%w: HoldTime %v is not in 0..%v", ErrPolicy, p.HoldTime, MaxHoldTime)
	}
	if p.HoldPackets > 0 && p.HoldTime == 0 {
		return fmt.Errorf("%w: HoldPackets %d needs a HoldTime", ErrPolicy, p.HoldPackets)
	}
	return nil
}
