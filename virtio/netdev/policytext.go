package netdev

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// policyKind is one single policy as text: its name and parameters.
type policyKind struct {
	name, form, doc string
	on              func(*Policy) bool
	params          []policyParam
	need            string        // the parameter that must be given
	set             func(*Policy) // for a kind without parameters
}

// policyParam is a parameter: a duration or a count.
type policyParam struct {
	name string
	time func(*Policy) *time.Duration
	n    func(*Policy) *int
	most int // of n
}

func timeParam(name string, f func(*Policy) *time.Duration) policyParam {
	return policyParam{name: name, time: f}
}

func countParam(name string, most int, f func(*Policy) *int) policyParam {
	return policyParam{name: name, n: f, most: most}
}

// policyKinds are in the order in which String writes them.
var policyKinds = []policyKind{
	{name: "hold", form: "hold:time=T[,packets=N]", need: "time", doc: "publish used entries T after the first packet of a batch was done, or when N are",
		on: func(p *Policy) bool { return p.HoldTime > 0 }, params: []policyParam{
			countParam("packets", MaxHoldPackets, func(p *Policy) *int { return &p.HoldPackets }),
			timeParam("time", func(p *Policy) *time.Duration { return &p.HoldTime })}},
	{name: "thin-acks", form: "thin-acks:time=T", need: "time", doc: "deliver pure ACKs together T after the first, the newest of each flow only",
		on: func(p *Policy) bool { return p.ThinTime > 0 }, params: []policyParam{
			timeParam("time", func(p *Policy) *time.Duration { return &p.ThinTime })}},
	{name: "coalesce-calls", form: "coalesce-calls:time=T[,packets=N]", need: "time", doc: "call the guest T after the first used entry that needs it, or when N are published (NOTF_COAL)",
		on: func(p *Policy) bool { return p.CallTime > 0 }, params: []policyParam{
			countParam("packets", MaxHoldPackets, func(p *Policy) *int { return &p.CallPackets }),
			timeParam("time", func(p *Policy) *time.Duration { return &p.CallTime })}},
	{name: "poll", form: "poll:time=T[,every=T]", need: "time", doc: "look at the transmit ring by itself for a time after work, with kicks suppressed",
		on: func(p *Policy) bool { return p.PollTime > 0 }, params: []policyParam{
			timeParam("time", func(p *Policy) *time.Duration { return &p.PollTime }),
			timeParam("every", func(p *Policy) *time.Duration { return &p.PollEvery })}},
	{name: "delay-service", form: "delay-service:time=T[,packets=N]", need: "time", doc: "let packets wait in an empty ring for T, or until there are N, before they are taken",
		on: func(p *Policy) bool { return p.DelayTime > 0 }, params: []policyParam{
			countParam("packets", MaxHoldPackets, func(p *Policy) *int { return &p.DelayPackets }),
			timeParam("time", func(p *Policy) *time.Duration { return &p.DelayTime })}},
	{name: "share-worker", form: "share-worker:pairs=N", need: "pairs", doc: "one worker serves N queue pairs",
		on: func(p *Policy) bool { return p.SharePairs > 0 }, params: []policyParam{
			countParam("pairs", MaxSharePairs, func(p *Policy) *int { return &p.SharePairs })}},
	{name: "merge", form: "merge", doc: "join consecutive segments of a flow that are in the ring together into one GSO packet",
		on: func(p *Policy) bool { return p.Merge }, set: func(p *Policy) { p.Merge = true }},
	{name: "adaptive", form: "adaptive", doc: "choose by what each flow does which of these to apply, and how strongly",
		on: func(p *Policy) bool { return p.Adaptive }, set: func(p *Policy) { p.Adaptive = true }},
}

// PolicyForms lists what ParsePolicy accepts, for help texts.
func PolicyForms() []string {
	forms := []string{"none"}
	for _, k := range policyKinds {
		forms = append(forms, k.form)
	}
	return forms
}

// PolicyDocs explains the forms of PolicyForms, a line each.
func PolicyDocs() []string {
	docs := []string{"serve the rings and do nothing else"}
	for _, k := range policyKinds {
		docs = append(docs, k.doc)
	}
	return docs
}

// String writes the policy as ParsePolicy reads it.
func (p Policy) String() string {
	var parts []string
	for _, k := range policyKinds {
		if k.on(&p) {
			parts = append(parts, k.text(&p))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "+")
}

func (k *policyKind) text(p *Policy) string {
	var args []string
	for _, a := range k.params {
		switch {
		case a.time != nil && *a.time(p) > 0:
			args = append(args, a.name+"="+a.time(p).String())
		case a.n != nil && *a.n(p) > 0:
			args = append(args, a.name+"="+strconv.Itoa(*a.n(p)))
		}
	}
	if len(args) == 0 {
		return k.name
	}
	return k.name + ":" + strings.Join(args, ",")
}

// ParsePolicy reads a policy: "none", or NAME[:key=value,...] joined by "+", as
// PolicyForms lists them. Times are Go durations such as 50us. The time of a
// policy that keeps something is required: without a deadline the last packets
// before a pause would be kept for ever. Errors wrap ErrPolicy and name the form
// that is right.
func ParsePolicy(s string) (Policy, error) {
	var p Policy
	for part := range strings.SplitSeq(s, "+") {
		name, args, given := strings.Cut(strings.TrimSpace(part), ":")
		if name == "none" {
			if given {
				return Policy{}, fmt.Errorf("%w: none takes no parameters, got %q", ErrPolicy, args)
			}
			continue
		}
		k, err := policyKindOf(name)
		if err == nil && k.on(&p) {
			err = fmt.Errorf("%w %q: %s is given twice", ErrPolicy, s, name)
		}
		if err == nil {
			err = k.parse(&p, args, given)
		}
		if err != nil {
			return Policy{}, err
		}
	}
	return p, p.validate()
}

func policyKindOf(name string) (*policyKind, error) {
	for i := range policyKinds {
		if policyKinds[i].name == name {
			return &policyKinds[i], nil
		}
	}
	return nil, fmt.Errorf("%w: unknown policy %q, want one of: %s", ErrPolicy, name, strings.Join(PolicyForms(), "; "))
}

func (k *policyKind) parse(p *Policy, args string, given bool) error {
	if k.set != nil {
		if given {
			return fmt.Errorf("%w: %s takes no parameters, got %q", ErrPolicy, k.name, args)
		}
		k.set(p)
		return nil
	}
	for arg := range strings.SplitSeq(args, ",") {
		key, val, _ := strings.Cut(arg, "=")
		if err := k.param(p, strings.TrimSpace(key), strings.TrimSpace(val), arg); err != nil {
			return err
		}
	}
	if !k.on(p) {
		return fmt.Errorf("%w: %s needs %s=, as in %s", ErrPolicy, k.name, k.need, k.form)
	}
	return nil
}

func (k *policyKind) param(p *Policy, key, val, arg string) (err error) {
	for _, a := range k.params {
		if a.name != key {
			continue
		}
		if a.time != nil {
			*a.time(p), err = parsePolicyTime(key, val)
			return err
		}
		*a.n(p), err = parsePolicyCount(key, val, a.most)
		return err
	}
	return fmt.Errorf("%w: %s has no parameter %q, want %s", ErrPolicy, k.name, arg, k.form)
}

func parsePolicyCount(key, s string, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%w: %s=%s is not a number in 1..%d", ErrPolicy, key, s, most)
	}
	return n, nil
}

func parsePolicyTime(key, s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > MaxHoldTime {
		return 0, fmt.Errorf("%w: %s=%s is not a duration such as 50us, up to %v", ErrPolicy, key, s, MaxHoldTime)
	}
	return d, nil
}
