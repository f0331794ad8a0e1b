package qdisc

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrSpec is returned for a discipline's parameter that is missing or out of
// bounds.
var ErrSpec = errors.New("queueing discipline")

// Spec describes a discipline and its parameters. Its JSON is that of the traces'
// scenario line. Which parameters a discipline has, and the defaults of those that
// are zero, are said at each.
type Spec struct {
	Kind Kind `json:"kind"`
	// RateBps is the rate in bits per second, of which whole bytes count: of tbf
	// (needed), of netem (0: none), of each flow of fq (0: no limit).
	RateBps int64 `json:"rate_bps,omitempty"`
	// Delay is netem's.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// Limit is the longest queue: bytes for tbf (needed), packets for the others:
	// pfifo_fast 1000, fq 10000 (since 6.7 of each band), fq_codel 10240, netem 1000.
	Limit int64 `json:"limit,omitempty"`
	// Burst is the size of tbf's bucket in bytes (needed).
	Burst int64 `json:"burst,omitempty"`
	// Drop lists packets that netem loses, by their number from 1 in the order in
	// which they come; a packet of many segments is one.
	Drop []uint64 `json:"drop,omitempty"`

	FQ    FQSpec    `json:"fq,omitzero"`
	Codel CodelSpec `json:"fq_codel,omitzero"`

	// Rings makes pfifo_fast the one since 4.16, with a limit for each band.
	Rings bool `json:"rings,omitempty"`
	// MTU is the device's, 1500 by default: fq and fq_codel have parameters that
	// depend on it.
	MTU int `json:"mtu,omitempty"`
	// HZ is the kernel's ticks per second, 250 by default.
	HZ int `json:"hz,omitempty"`
}

// FQSpec is what only fq has. Defaults are those of v6.1 and v6.12.
type FQSpec struct {
	FlowLimit      int           `json:"flow_limit,omitempty"`      // packets of a flow; 100
	Quantum        int64         `json:"quantum,omitempty"`         // bytes; two frames of the MTU
	InitialQuantum int64         `json:"initial_quantum,omitempty"` // bytes; ten frames
	Refill         time.Duration `json:"refill_delay_ns,omitempty"` // 40 ms
	LowRateBps     int64         `json:"low_rate_bps,omitempty"`    // bits per second; 550000
	Slack          time.Duration `json:"timer_slack_ns,omitempty"`  // of the watchdog; 10 µs, negative: none
	Horizon        time.Duration `json:"horizon_ns,omitempty"`      // 10 s
	CEThreshold    time.Duration `json:"ce_threshold_ns,omitempty"` // packets this late are marked; 4294.967295 s
	Buckets        int           `json:"buckets,omitempty"`         // a power of two; 1024
	HorizonCap     bool          `json:"horizon_cap,omitempty"`     // bring packets back to the horizon, do not drop them
	NoPacing       bool          `json:"nopacing,omitempty"`        // do not space packets without a time
	Bands          bool          `json:"bands,omitempty"`           // three bands and a fast path: since 6.7
	ByHash         bool          `json:"by_hash,omitempty"`         // packets belong to no local socket: a router
}

// CodelSpec is what only fq_codel has. Defaults are those of v6.1 and v6.12.
type CodelSpec struct {
	Target      time.Duration `json:"target_ns,omitempty"`       // 5 ms
	Interval    time.Duration `json:"interval_ns,omitempty"`     // 100 ms
	CEThreshold time.Duration `json:"ce_threshold_ns,omitempty"` // packets that waited longer are marked; 0: none
	Quantum     int64         `json:"quantum,omitempty"`         // bytes; one frame of the MTU
	Flows       int           `json:"flows,omitempty"`           // 1024
	DropBatch   int           `json:"drop_batch,omitempty"`      // packets; 64
	MemoryLimit int64         `json:"memory_limit,omitempty"`    // bytes; 32 MiB
	NoECN       bool          `json:"noecn,omitempty"`           // drop packets that could be marked
}

// For returns the spec with the switches of a kernel release: fq's bands and fast
// path since 6.7, pfifo_fast's rings since 4.16.
func (s Spec) For(major, minor int) Spec {
	v := major<<8 | minor
	s.FQ.Bands = v >= 6<<8|7
	s.Rings = v >= 4<<8|16
	return s
}

// Validate returns an error that wraps ErrSpec and names the parameter and what
// would be right, or nil.
func (s Spec) Validate() error {
	_, err := s.withDefaults()
	return err
}

// withDefaults returns the spec with every parameter that its discipline has.
func (s Spec) withDefaults() (Spec, error) {
	if int(s.Kind) >= len(kindNames) {
		return s, fmt.Errorf("%w %d", ErrUnknownKind, s.Kind)
	}
	preset(&s.MTU, 1500)
	preset(&s.HZ, 250)
	s.FQ.preset(s.MTU)
	s.Codel.preset(s.MTU)
	if l := defaultLimits[s.Kind]; l != 0 {
		preset(&s.Limit, l)
	}
	s.Drop = slices.Sorted(slices.Values(s.Drop))
	return s, s.check()
}

var defaultLimits = [...]int64{PFIFOFast: DefaultLimit, FQ: 10000, FQCodel: 10240, Netem: 1000}

func preset[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// frameLen is the length of a frame without segments (psched_mtu, v6.1).
func frameLen(mtu int) int64 { return int64(mtu) + 14 }

func (f *FQSpec) preset(mtu int) {
	preset(&f.FlowLimit, 100)
	preset(&f.Quantum, min(2*frameLen(mtu), 1<<20))
	preset(&f.InitialQuantum, min(10*frameLen(mtu), 1<<20))
	preset(&f.Refill, 40*time.Millisecond)
	preset(&f.LowRateBps, 550000)
	preset(&f.Slack, 10*time.Microsecond)
	f.Slack = max(f.Slack, 0)
	preset(&f.Horizon, 10*time.Second)
	preset(&f.CEThreshold, math.MaxUint32*time.Microsecond)
	preset(&f.Buckets, 1024)
}

func (k *CodelSpec) preset(mtu int) {
	preset(&k.Target, 5*time.Millisecond)
	preset(&k.Interval, 100*time.Millisecond)
	preset(&k.Quantum, max(frameLen(mtu), 256))
	preset(&k.Flows, 1024)
	preset(&k.DropBatch, 64)
	preset(&k.MemoryLimit, 32<<20)
}

// rateMax is the highest rate in bits per second.
const rateMax = 10_000_000_000_000

const tbfExample = "tbf:rate=200M,burst=71680,limit=20971520"

// bound is a parameter with what it may be.
type bound struct {
	name     string
	v        int64
	min, max int64
}

func (s *Spec) check() error {
	bounds := []bound{
		{"mtu", int64(s.MTU), 68, 1 << 20},
		{"hz", int64(s.HZ), 24, 1000},
	}
	switch s.Kind {
	case PFIFOFast:
		bounds = append(bounds, bound{"limit", s.Limit, 1, 1 << 31})
	case FQ:
		bounds = append(bounds, s.fqBounds()...)
	case FQCodel:
		bounds = append(bounds, s.codelBounds()...)
	case TBF:
		bounds = append(bounds, bound{"rate", s.RateBps, 8, rateMax}, bound{"burst", s.Burst, 1, 1 << 31},
			bound{"limit", s.Limit, 1, math.MaxUint32})
	case Netem:
		bounds = append(bounds, bound{"rate", orNone(s.RateBps), 8, rateMax},
			bound{"delay", int64(s.Delay), 0, int64(time.Hour)}, bound{"limit", s.Limit, 1, 1 << 31})
	}
	for _, b := range bounds {
		if b.v == 0 && s.Kind == TBF {
			return fmt.Errorf("%w tbf: %s is missing; it needs three, as in %s", ErrSpec, b.name, tbfExample)
		}
		if b.v < b.min || b.v > b.max {
			return fmt.Errorf("%w %s: %s is %d, needs %d to %d", ErrSpec, s.Kind, b.name, b.v, b.min, b.max)
		}
	}
	return s.checkSets()
}

// orNone makes a rate of 0, which means none, pass a lower bound.
func orNone(bps int64) int64 {
	if bps == 0 {
		return 8
	}
	return bps
}

func (s *Spec) fqBounds() []bound {
	f := &s.FQ
	return []bound{
		{"limit", s.Limit, 1, 1 << 31},
		{"rate", orNone(s.RateBps), 8, rateMax},
		{"flow_limit", int64(f.FlowLimit), 1, 1 << 31},
		{"quantum", f.Quantum, 256, 1 << 20},
		{"initial_quantum", f.InitialQuantum, 1, 1 << 20},
		{"refill_delay", int64(f.Refill), 1, int64(time.Hour)},
		{"low_rate", f.LowRateBps, 1, rateMax},
		{"timer_slack", int64(f.Slack), 0, math.MaxUint32},
		{"horizon", int64(f.Horizon), 1, math.MaxUint32 * 1000},
		{"ce_threshold", int64(f.CEThreshold), 1, math.MaxUint32 * 1000},
		{"buckets", int64(f.Buckets), 1, 1 << 18},
	}
}

func (s *Spec) codelBounds() []bound {
	k := &s.Codel
	return []bound{
		{"limit", s.Limit, 1, 1 << 31},
		{"target", int64(k.Target), 0, math.MaxUint32 * 1000},
		{"interval", int64(k.Interval), 1024, math.MaxUint32 * 1000},
		{"ce_threshold", int64(k.CEThreshold), 0, math.MaxUint32 * 1000},
		{"quantum", k.Quantum, 256, 1 << 20},
		{"flows", int64(k.Flows), 1, 65536},
		{"drop_batch", int64(k.DropBatch), 1, 1 << 31},
		{"memory_limit", k.MemoryLimit, 1, 1 << 31},
	}
}

// checkSets checks what is not a range.
func (s *Spec) checkSets() error {
	if s.Kind == FQ && s.FQ.Buckets&(s.FQ.Buckets-1) != 0 {
		return fmt.Errorf("%w fq: buckets is %d, needs a power of two", ErrSpec, s.FQ.Buckets)
	}
	for i, n := range s.Drop {
		if n == 0 || i > 0 && n == s.Drop[i-1] {
			return fmt.Errorf("%w %s: drop lists %d, needs different numbers from 1", ErrSpec, s.Kind, n)
		}
	}
	return nil
}
