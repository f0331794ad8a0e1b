package tcp

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is a named release: its switches and the defaults of its sysctls.
type Kernel struct {
	Name     string
	Switches Switches
	Sysctl   Sysctl
	MaxHdr   uint32 // MAX_TCP_HEADER of a distribution's build
}

// Config returns a configuration with the defaults of the release: CUBIC,
// IPv4, MSS 1448, a device with GSO, and nobody who paces.
func (k Kernel) Config() Config {
	return Config{Switches: k.Switches, Sysctl: k.Sysctl, MaxHdr: k.MaxHdr, CanGSO: true}.withDefaults()
}

// releaseNames are the releases that scenarios can name. 6.1 and 6.12 are
// Debian's 6.1.192 and 6.12.117, with their backports; the others are the
// first version of their line.
var releaseNames = []string{
	"3.8", "3.12", "3.14", "4.1", "4.15", "4.16", "4.17", "5.0", "5.18", "6.1", "6.9", "6.10",
	"6.12", "6.18",
}

// Releases returns the names of the kernel releases, oldest first.
func Releases() []string { return slices.Clone(releaseNames) }

// Release returns the named kernel release. The error wraps ErrRelease and
// says which exist.
func Release(name string) (Kernel, error) {
	if !slices.Contains(releaseNames, name) {
		return Kernel{}, fmt.Errorf("%w %q: have %s", ErrRelease, name, strings.Join(releaseNames, ", "))
	}
	k := Kernel{Name: name, Switches: base38(), Sysctl: sysctl38(), MaxHdr: 304}
	v := version(name)
	for i := range history {
		if version(history[i].since) <= v {
			history[i].apply(&k)
		}
	}
	if name == "6.1" || name == "6.12" {
		debian(&k)
	}
	return k, nil
}

// version makes a release name comparable.
func version(name string) int {
	var major, minor int
	_, _ = fmt.Sscanf(name, "%d.%d", &major, &minor)
	return major*1000 + minor
}

// base38 is Linux 3.8, the kernel of report 002.
func base38() Switches {
	return Switches{FINQuota: true, DeferFull: true, DeferOpen: true, CubicRatio: true}
}

// debian puts on what the stable kernels of Debian's 6.1.192 and 6.12.117
// carry beyond their release: the ACK distance test of TSO deferral, the TSQ
// exception for one entry in the retransmit queue, HyStart's rounds, and the
// margin of timers in microseconds.
func debian(k *Kernel) {
	k.Switches.Defer = DeferD6
	k.Switches.TSQPass = PassOne
	k.Switches.Hystart = HystartRound
	k.Switches.TimeoutUs = true
}

// history is what changed, and in which release.
var history = []struct {
	since string
	apply func(*Kernel)
}{
	{"3.9", func(k *Kernel) { k.Switches.Defer = DeferD1 }},
	{"3.10", func(k *Kernel) { k.Switches.TLP, k.Sysctl.EarlyRetrans = true, 3 }},
	{"3.12", func(k *Kernel) {
		k.Switches.Goal, k.Switches.Rate = GoalPacedLimit, RateJiffies
		k.Switches.TSQ, k.Switches.Defer, k.Switches.TSQNagle = TSQDynamic, DeferD2, true
	}},
	{"3.13", func(k *Kernel) { k.Switches.Goal, k.Switches.Stretch = GoalPaced, StretchSlowStart }},
	{"3.14", func(k *Kernel) {
		k.Switches.Autocork, k.Switches.KeepTail, k.Switches.MinshallTail = CorkQueue, true, true
	}},
	{"3.15", func(k *Kernel) { k.Switches.RTTUs, k.Switches.Rate = true, RateFixed }},
	{"3.16", func(k *Kernel) { k.Switches.Limited = LimitedWrite }},
	{"3.19", func(k *Kernel) {
		k.Switches.Goal, k.Switches.Autosize, k.Switches.HalfCwnd = GoalMax, AutosizeRate, true
		k.Switches.TSQ, k.Switches.Defer = TSQMin, DeferD3
	}},
	{"4.0", func(k *Kernel) { k.Switches.Stretch, k.Switches.CubicRatio = StretchAll, false }},
	{"4.1", func(k *Kernel) { k.Switches.Defer, k.Switches.Linear = DeferD4, LinearFirst }},
	{"4.2", func(k *Kernel) {
		k.Switches.GSOOneSeg, k.Switches.DeferOpen = true, false
		k.Sysctl.LimitOutputBytes = 262144
	}},
	{"4.3", func(k *Kernel) {
		k.Switches.Rate, k.Switches.IdleEntail, k.Switches.CubicIdle = RateRatio, true, true
	}},
	{"4.7", func(k *Kernel) { k.Switches.EORMarks, k.Switches.Flush = true, FlushEach }},
	{"4.8", func(k *Kernel) { k.Switches.TimerWheel = true }},
	{"4.9", func(k *Kernel) { k.Switches.BBR = true }},
	{"4.10", func(k *Kernel) { k.Switches.TSQPass = PassTwo }},
	{"4.13", func(k *Kernel) { k.Switches.Pace, k.Switches.ClockCache = PaceTimer, true }},
	{"4.15", func(k *Kernel) { k.Switches.TSQPass, k.Switches.Autocork = PassEmpty, CorkRtx }},
	{"4.16", func(k *Kernel) { k.Switches.BBRGSOUnaware = true }},
	{"4.17", func(k *Kernel) { k.Switches.AlwaysGSO, k.Switches.BBRGoal = true, BBRGoalHook }},
	{"4.18", func(k *Kernel) { k.Switches.BBRRTTStrict, k.Switches.Loss = true, LossRACK }},
	{"4.19", func(k *Kernel) { k.Switches.BBRIdleExit = true }},
	{"4.20", func(k *Kernel) { k.Switches.Pace, k.Switches.BBREDT = PaceEDT, true }},
	{"5.0", func(k *Kernel) {
		k.Switches.Defer, k.Switches.TSQ, k.Switches.BacklogMerge = DeferD5, TSQUnpaced, true
		k.Switches.BBRPlusTwo = true
		k.Sysctl.LimitOutputBytes = 1 << 20
	}},
	{"5.1", func(k *Kernel) { k.Switches.BBRAggregate = true }},
	{"5.4", func(k *Kernel) { k.Switches.PSHTSO = true }},
	{"5.6", func(k *Kernel) { k.Switches.Hystart = HystartUs }},
	{"5.10", func(k *Kernel) { k.MaxHdr = 320 }},
	{"5.15", func(k *Kernel) {
		k.Switches.Linear, k.Switches.Flush = LinearNever, FlushSome
		k.Switches.StopEmptySKB, k.Switches.LimitedSend, k.Switches.AutocorkEOR = true, true, true
	}},
	{"5.16", func(k *Kernel) { k.Switches.Hystart = HystartLate }},
	{"5.18", func(k *Kernel) { k.Switches.Autosize, k.Switches.GSOPresub = AutosizeRTT, true }},
	{"6.1", func(k *Kernel) { k.Switches.Limited = LimitedUsage }},
	{"6.3", func(k *Kernel) { k.Switches.SmallHead = true }},
	{"6.6", func(k *Kernel) { k.Switches.TimeoutUs = true }},
	{"6.7", func(k *Kernel) { k.Switches.OOOAcked, k.Switches.FlushRelease = true, true }},
	{"6.8", func(k *Kernel) { k.Switches.TSQPass = PassOne }},
	{"6.10", func(k *Kernel) {
		k.Switches.FINQuota, k.Switches.PcountAlways, k.Switches.Grow = false, true, true
	}},
	{"6.14", func(k *Kernel) { k.Switches.Hystart = HystartRound }},
	{"6.16", func(k *Kernel) { k.Switches.TSQ, k.Sysctl.LimitOutputBytes = TSQAlways, 4<<20 }},
	{"6.18", func(k *Kernel) { k.Switches.Defer = DeferD6 }},
}
