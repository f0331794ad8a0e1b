package tcp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sysctl is the knobs of the model, by the names of net.ipv4 (and net.core for
// MaxSKBFrags). Those of the receiving side are here so that one set describes
// a kernel; a sender does not read them.
//
// Those that a sender looks at for every packet come first: they are on one line
// of the cache.
type Sysctl struct {
	LimitOutputBytes int64 // tcp_limit_output_bytes: TSQ's bound, bytes
	TSOWinDivisor    int64 // tcp_tso_win_divisor: deferral sends at this share of the window; 0: at 3 segments
	MinTSOSegs       int64 // tcp_min_tso_segs: least segments of an autosized packet
	TSORTTLog        int64 // tcp_tso_rtt_log: shift of the minimum round trip, µs
	NotsentLowat     int64 // tcp_notsent_lowat: unsent bytes at which a writer waits
	MinRTTWlen       int64 // tcp_min_rtt_wlen: window of the minimum round trip, s
	MaxSKBFrags      int64 // max_skb_frags: payload fragments of a queue entry, 1 to 17
	Autocorking      int64 // tcp_autocorking: 0 or 1

	PacingSSRatio      int64    // tcp_pacing_ss_ratio: percent of the window per round trip in slow start
	PacingCARatio      int64    // tcp_pacing_ca_ratio: percent of it in congestion avoidance
	SlowStartAfterIdle int64    // tcp_slow_start_after_idle: 0 or 1
	Wmem               [3]int64 // tcp_wmem: send buffer minimum, start, maximum, bytes
	EarlyRetrans       int64    // tcp_early_retrans: 3 and 4 allow tail loss probes
	Reordering         int64    // tcp_reordering: duplicate ACKs that mean a loss
	MaxReordering      int64    // tcp_max_reordering: bound of what that grows to
	FRTO               int64    // tcp_frto: 0 does not look whether a timeout was a mistake

	Rmem           [3]int64 // tcp_rmem: receive buffer minimum, start, maximum, bytes
	ModerateRcvbuf int64    // tcp_moderate_rcvbuf: 0 or 1
	AdvWinScale    int64    // tcp_adv_win_scale: share of the receive buffer that is window
	CompSackDelay  int64    // tcp_comp_sack_delay_ns
	CompSackNr     int64    // tcp_comp_sack_nr
	CompSackSlack  int64    // tcp_comp_sack_slack_ns
	CompSackRTT    int64    // tcp_comp_sack_rtt_percent
}

// sysctl38 is the defaults of v3.8; later releases change them in history.
func sysctl38() Sysctl {
	return Sysctl{
		LimitOutputBytes: 131072, TSOWinDivisor: 3, MinTSOSegs: 2, TSORTTLog: 9, Autocorking: 1,
		PacingSSRatio: 200, PacingCARatio: 120, MinRTTWlen: 300, SlowStartAfterIdle: 1,
		NotsentLowat: 1<<32 - 1, Wmem: [3]int64{4096, 16384, 4 << 20}, EarlyRetrans: 2, Reordering: 3,
		MaxReordering: 300, FRTO: 2,
		MaxSKBFrags: 17, Rmem: [3]int64{4096, 131072, 6 << 20}, ModerateRcvbuf: 1, AdvWinScale: 1,
		CompSackDelay: 1e6, CompSackNr: 44, CompSackSlack: 1e5, CompSackRTT: 5,
	}
}

type sysctlDef struct {
	name   string
	lo, hi int64
	field  func(*Sysctl) *int64
}

var sysctlDefs = []sysctlDef{
	{"tcp_adv_win_scale", -31, 31, func(s *Sysctl) *int64 { return &s.AdvWinScale }},
	{"tcp_autocorking", 0, 1, func(s *Sysctl) *int64 { return &s.Autocorking }},
	{"tcp_comp_sack_delay_ns", 0, 1 << 40, func(s *Sysctl) *int64 { return &s.CompSackDelay }},
	{"tcp_comp_sack_nr", 0, 255, func(s *Sysctl) *int64 { return &s.CompSackNr }},
	{"tcp_comp_sack_rtt_percent", 1, 1000, func(s *Sysctl) *int64 { return &s.CompSackRTT }},
	{"tcp_comp_sack_slack_ns", 0, 1 << 40, func(s *Sysctl) *int64 { return &s.CompSackSlack }},
	{"tcp_early_retrans", 0, 4, func(s *Sysctl) *int64 { return &s.EarlyRetrans }},
	{"tcp_frto", 0, 2, func(s *Sysctl) *int64 { return &s.FRTO }},
	{"tcp_limit_output_bytes", 0, 1<<31 - 1, func(s *Sysctl) *int64 { return &s.LimitOutputBytes }},
	{"tcp_max_reordering", 1, 300, func(s *Sysctl) *int64 { return &s.MaxReordering }},
	{"tcp_min_rtt_wlen", 0, 86400, func(s *Sysctl) *int64 { return &s.MinRTTWlen }},
	{"tcp_min_tso_segs", 1, 65535, func(s *Sysctl) *int64 { return &s.MinTSOSegs }},
	{"tcp_moderate_rcvbuf", 0, 1, func(s *Sysctl) *int64 { return &s.ModerateRcvbuf }},
	{"tcp_notsent_lowat", 0, 1<<32 - 1, func(s *Sysctl) *int64 { return &s.NotsentLowat }},
	{"tcp_pacing_ca_ratio", 0, 1000, func(s *Sysctl) *int64 { return &s.PacingCARatio }},
	{"tcp_pacing_ss_ratio", 0, 1000, func(s *Sysctl) *int64 { return &s.PacingSSRatio }},
	{"tcp_reordering", 1, 300, func(s *Sysctl) *int64 { return &s.Reordering }},
	{"tcp_slow_start_after_idle", 0, 1, func(s *Sysctl) *int64 { return &s.SlowStartAfterIdle }},
	{"tcp_tso_rtt_log", 0, 31, func(s *Sysctl) *int64 { return &s.TSORTTLog }},
	{"tcp_tso_win_divisor", 0, 1<<31 - 1, func(s *Sysctl) *int64 { return &s.TSOWinDivisor }},
	{"max_skb_frags", 1, 17, func(s *Sysctl) *int64 { return &s.MaxSKBFrags }},
}

// SysctlNames returns the names that Set takes, sorted.
func SysctlNames() []string {
	names := []string{"tcp_rmem", "tcp_wmem"}
	for i := range sysctlDefs {
		names = append(names, sysctlDefs[i].name)
	}
	slices.Sort(names)
	return names
}

// Set changes one sysctl: an integer, or three of them separated by blanks for
// tcp_rmem and tcp_wmem. The error wraps ErrSysctl and names the bounds.
func (s *Sysctl) Set(name, value string) error {
	switch name {
	case "tcp_rmem":
		return setTriple(name, value, &s.Rmem)
	case "tcp_wmem":
		return setTriple(name, value, &s.Wmem)
	}
	for i := range sysctlDefs {
		d := &sysctlDefs[i]
		if d.name != name {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || v < d.lo || v > d.hi {
			return fmt.Errorf("%w: %s is %q, want %d to %d", ErrSysctl, name, value, d.lo, d.hi)
		}
		*d.field(s) = v
		return nil
	}
	return fmt.Errorf("%w: no sysctl %q: have %s", ErrSysctl, name, strings.Join(SysctlNames(), ", "))
}

func setTriple(name, value string, dst *[3]int64) error {
	f := strings.Fields(value)
	if len(f) != 3 {
		return fmt.Errorf("%w: %s is %q, want three numbers", ErrSysctl, name, value)
	}
	var t [3]int64
	for i := range f {
		v, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil || v < 1 || v > 1<<31-1 {
			return fmt.Errorf("%w: %s is %q, want numbers from 1 to %d", ErrSysctl, name, value, 1<<31-1)
		}
		t[i] = v
	}
	*dst = t
	return nil
}
