package driver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Errors of the release table.
var (
	ErrRelease = errors.New("unknown kernel release")
	ErrSwitch  = errors.New("unknown driver switch")
)

// Steering is how the kernel chooses a packet's transmit queue.
type Steering uint8

// The ways to choose a queue.
const (
	SteerIndex   Steering = iota // the driver's table of CPUs (v3.8 to v3.12)
	SteerXPS                     // XPS if every CPU has its pair, else by flow hash (v3.13)
	SteerStriped                 // XPS with the CPUs dealt out over the pairs (between v4.16 and v6.1)
)

// Switches is what the driver of a kernel release does, decision by decision.
// Each can be set alone. The zero value is v3.8; use Release.
type Switches struct {
	InlineHeader bool     // the net header goes in front of the frame's headers, not into a descriptor of its own (v3.12)
	XmitMore     bool     // one kick for a batch, not one per packet (v3.18)
	HasNAPI      bool     // napi_tx exists (v4.12)
	ZeroEvent    bool     // disabling calls writes 0 to used_event (v5.13)
	CleanRxCalls bool     // the receive poll reaps TX with calls off and re-arms them by three quarters (v5.14)
	RefillEarly  bool     // receive buffers are replaced when half a poll's are gone, not half the ring's (after v4.16)
	BQL          bool     // byte queue limits with napi release (v6.11)
	LazyClean    bool     // start_xmit reaps nothing and re-arms after the kick, with napi release (v6.15)
	Steering     Steering // choice of the transmit queue
}

// releaseNames are the releases that scenarios can name.
var releaseNames = []string{
	"3.8", "3.12", "3.14", "4.1", "4.15", "4.16", "4.17", "5.0", "5.18", "6.1", "6.9", "6.10",
	"6.12", "6.18",
}

// history is what changed, and in which release.
//
// CleanRxCalls and BQL are in the releases named; LazyClean is commit
// e13b6da7045f of 2025-02. RefillEarly and SteerStriped lie between the trees
// of 4.16 and 6.1, and are put at 5.0.
var history = []struct {
	since string
	apply func(*Switches)
}{
	{"3.12", func(s *Switches) { s.InlineHeader = true }},
	{"3.13", func(s *Switches) { s.Steering = SteerXPS }},
	{"3.18", func(s *Switches) { s.XmitMore = true }},
	{"4.12", func(s *Switches) { s.HasNAPI = true }},
	{"5.0", func(s *Switches) { s.RefillEarly, s.Steering = true, SteerStriped }},
	{"5.13", func(s *Switches) { s.ZeroEvent = true }},
	{"5.14", func(s *Switches) { s.CleanRxCalls = true }},
	{"6.11", func(s *Switches) { s.BQL = true }},
	{"6.15", func(s *Switches) { s.LazyClean = true }},
}

// Release returns the switches of the named kernel release. The error wraps
// ErrRelease and says which exist.
func Release(name string) (Switches, error) {
	var s Switches
	if !slices.Contains(releaseNames, name) {
		return s, fmt.Errorf("%w %q: have %s", ErrRelease, name, strings.Join(releaseNames, ", "))
	}
	v := version(name)
	for i := range history {
		if version(history[i].since) <= v {
			history[i].apply(&s)
		}
	}
	return s, nil
}

// Releases returns the names of the kernel releases, oldest first.
func Releases() []string { return slices.Clone(releaseNames) }

// version makes a release name comparable.
func version(name string) int {
	var major, minor int
	_, _ = fmt.Sscanf(name, "%d.%d", &major, &minor)
	return major*1000 + minor
}

var steeringNames = []string{"index", "xps", "striped"}

// boolSwitches are the switches that are on or off.
var boolSwitches = []struct {
	name  string
	field func(*Switches) *bool
}{
	{"inline_header", func(s *Switches) *bool { return &s.InlineHeader }},
	{"xmit_more", func(s *Switches) *bool { return &s.XmitMore }},
	{"has_napi", func(s *Switches) *bool { return &s.HasNAPI }},
	{"zero_event", func(s *Switches) *bool { return &s.ZeroEvent }},
	{"clean_rx_calls", func(s *Switches) *bool { return &s.CleanRxCalls }},
	{"refill_early", func(s *Switches) *bool { return &s.RefillEarly }},
	{"bql", func(s *Switches) *bool { return &s.BQL }},
	{"lazy_clean", func(s *Switches) *bool { return &s.LazyClean }},
}

// SwitchNames returns the names of all switches. A scenario writes them with
// the prefix "driver.".
func SwitchNames() []string {
	var names []string
	for _, b := range boolSwitches {
		names = append(names, b.name)
	}
	return append(names, "steering")
}

// SwitchValues returns the values that the named switch takes, or nil.
func SwitchValues(name string) []string {
	name = strings.TrimPrefix(name, "driver.")
	switch {
	case name == "steering":
		return slices.Clone(steeringNames)
	case slices.Contains(SwitchNames(), name):
		return []string{"off", "on"}
	}
	return nil
}

// Set changes one switch. The name may have the prefix "driver.". The error
// wraps ErrSwitch and says what exists.
func (s *Switches) Set(name, value string) error {
	values := SwitchValues(name)
	if values == nil {
		return fmt.Errorf("%w %q: have %s", ErrSwitch, name, strings.Join(SwitchNames(), ", "))
	}
	i := slices.Index(values, value)
	if i < 0 {
		return fmt.Errorf("%w value %s=%q: want one of %s", ErrSwitch, name, value, strings.Join(values, ", "))
	}
	if p := s.boolean(name); p != nil {
		*p = i == 1
		return nil
	}
	s.Steering = Steering(i)
	return nil
}

// Get returns the value of a switch, or "" if there is none of that name.
func (s *Switches) Get(name string) string {
	values := SwitchValues(name)
	switch p := s.boolean(name); {
	case p != nil && *p:
		return values[1]
	case p != nil:
		return values[0]
	case values != nil:
		return values[s.Steering]
	}
	return ""
}

// boolean returns the field of an on/off switch, or nil.
func (s *Switches) boolean(name string) *bool {
	name = strings.TrimPrefix(name, "driver.")
	for _, b := range boolSwitches {
		if b.name == name {
			return b.field(s)
		}
	}
	return nil
}
