package tcp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/tcp/cc"
)

// TestReleases: what the named kernels are, by the decisions that tell them apart.
func TestReleases(t *testing.T) {
	for _, c := range []struct{ kernel, switches string }{
		{"3.8", "size_goal=half_limit tsq=fixed defer=d0 half_cwnd=off keep_tail=off autosize=off autocork=off rtt_us=off pacing_rate=none linear=all stretch_ack=off tlp=off"},
		{"3.12", "size_goal=paced_limit tsq=dynamic defer=d2 pacing_rate=jiffies tlp=on"},
		{"3.14", "size_goal=paced keep_tail=on minshall_tail=on autocork=queue stretch_ack=slow_start"},
		{"4.1", "size_goal=max tsq=min defer=d4 half_cwnd=on autosize=rate pacing_rate=fixed rtt_us=on stretch_ack=all cwnd_limited=write"},
		{"4.15", "autosize=rate autocork=rtx tsq_pass=empty pace=timer always_gso=off clock_cache=on pacing_rate=ratio"},
		{"4.16", "autosize=rate always_gso=off"},
		{"4.17", "autosize=rate always_gso=on pace=timer defer=d4"},
		{"5.0", "pace=edt defer=d5 tsq=unpaced psh_tso=off linear=first gso_presub=off"},
		{"5.18", "psh_tso=on linear=never autosize=rtt gso_presub=on hystart=late cwnd_limited=write"},
		{"6.1", "defer=d6 grow=off tsq_pass=one cwnd_limited=usage hystart=round"},
		{"6.9", "defer=d5 grow=off tsq_pass=one small_head=on hystart=late"},
		{"6.10", "defer=d5 grow=on pcount_always=on fin_quota=off"},
		{"6.12", "defer=d6 grow=on tsq=unpaced hystart=round"},
		{"6.18", "defer=d6 tsq=always"},
	} {
		k, err := tcp.Release(c.kernel)
		if err != nil {
			t.Fatal(err)
		}
		for kv := range strings.FieldsSeq(c.switches) {
			name, want, _ := strings.Cut(kv, "=")
			if got := k.Switches.Get(name); got != want {
				t.Errorf("%s: %s is %s, want %s", c.kernel, name, got, want)
			}
		}
	}
	limits := map[string]int64{"3.8": 131072, "4.1": 131072, "4.16": 262144, "5.0": 1 << 20, "6.12": 1 << 20, "6.18": 4 << 20}
	for name, want := range limits {
		if k, _ := tcp.Release(name); k.Sysctl.LimitOutputBytes != want {
			t.Errorf("%s: limit_output_bytes %d, want %d", name, k.Sysctl.LimitOutputBytes, want)
		}
	}
	if _, err := tcp.Release("2.6"); !errors.Is(err, tcp.ErrRelease) || !strings.Contains(err.Error(), "6.12") {
		t.Errorf("2.6: %v", err)
	}
}

// TestSwitches: every value of every switch can be set, on every release, with
// and without the scenario's prefix, and changes nothing else.
func TestSwitches(t *testing.T) {
	for _, rel := range tcp.Releases() {
		for _, name := range tcp.SwitchNames() {
			for _, v := range tcp.SwitchValues(name) {
				k, _ := tcp.Release(rel)
				before := k.Switches
				if err := k.Switches.Set("tcp."+name, v); err != nil {
					t.Fatal(err)
				}
				if k.Switches.Get(name) != v {
					t.Errorf("%s=%s reads %s", name, v, k.Switches.Get(name))
				}
				if err := k.Switches.Set(name, before.Get(name)); err != nil || k.Switches != before {
					t.Errorf("%s: setting %s back: %v", rel, name, err)
				}
			}
		}
	}
	var s tcp.Switches
	if err := s.Set("growth", "on"); !errors.Is(err, tcp.ErrSwitch) || !strings.Contains(err.Error(), "grow") {
		t.Errorf("unknown switch: %v", err)
	}
	if err := s.Set("defer", "d9"); !errors.Is(err, tcp.ErrSwitch) || !strings.Contains(err.Error(), "d6") {
		t.Errorf("unknown value: %v", err)
	}
	if s.Get("growth") != "" || tcp.SwitchValues("growth") != nil {
		t.Error("an unknown switch has a value")
	}
}

func TestSysctls(t *testing.T) {
	k, _ := tcp.Release("6.12")
	for _, name := range tcp.SysctlNames() {
		v := "1"
		if name == "tcp_wmem" || name == "tcp_rmem" {
			v = "4096 50000 4194304"
		}
		if err := k.Sysctl.Set(name, v); err != nil {
			t.Error(err)
		}
	}
	if k.Sysctl.TSOWinDivisor != 1 || k.Sysctl.Wmem != [3]int64{4096, 50000, 4 << 20} {
		t.Errorf("%+v", k.Sysctl)
	}
	for name, v := range map[string]string{"tcp_wmem": "1 2", "tcp_rmem": "1 2 x", "tcp_autocorking": "2",
		"tcp_min_tso_segs": "none", "tcp_nothing": "1"} {
		if err := k.Sysctl.Set(name, v); !errors.Is(err, tcp.ErrSysctl) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: %v", name, v, err)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for field, mod := range map[string]func(*tcp.Config){
		"mss":          func(c *tcp.Config) { c.MSS = 20 },
		"hz":           func(c *tcp.Config) { c.HZ = 1 << 20 },
		"gso_max_size": func(c *tcp.Config) { c.GSOMaxSize = 600000 },
		"gso_max_segs": func(c *tcp.Config) { c.GSOMaxSegs = 65536 },
		"arena pages":  func(c *tcp.Config) { c.ArenaPages = 1 },
		"pacing":       func(c *tcp.Config) { c.Pacing = 9 },
	} {
		k, _ := tcp.Release("6.12")
		cfg := k.Config()
		mod(&cfg)
		if _, err := tcp.NewSock(0, cfg, nil, new(skb.Pool)); !errors.Is(err, tcp.ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	k, _ := tcp.Release("6.12")
	cfg := k.Config()
	cfg.CC = "vegas"
	if _, err := tcp.NewSock(0, cfg, nil, new(skb.Pool)); !errors.Is(err, cc.ErrUnknown) {
		t.Errorf("vegas: %v", err)
	}
}

func TestNames(t *testing.T) {
	for r := tcp.Rule(0); r <= tcp.NumRules; r++ {
		if (r.String() == "unknown") != (r == tcp.NumRules) {
			t.Errorf("rule %d is %q", r, r)
		}
	}
	for s := tcp.Stop(0); s <= tcp.NumStops; s++ {
		if (s.String() == "unknown") != (s == tcp.NumStops) {
			t.Errorf("stop %d is %q", s, s)
		}
	}
}

// TestRecoveryReleases: which kernels find losses by time, wheel their timers,
// and what of BBR they have.
func TestRecoveryReleases(t *testing.T) {
	for kernel, want := range map[string]string{
		"3.8":  "loss_detection=dupack timer_wheel=off timeout_us=off bbr=off ooo_acked=off",
		"4.15": "loss_detection=dupack timer_wheel=on bbr=on bbr_goal=stored bbr_gso_unaware=off bbr_rtt_strict=off bbr_edt=off",
		"4.16": "bbr_goal=stored bbr_gso_unaware=on bbr_idle_exit=off",
		"4.17": "bbr_goal=hook bbr_rtt_strict=off loss_detection=dupack",
		"5.0":  "loss_detection=rack bbr_rtt_strict=on bbr_idle_exit=on bbr_edt=on bbr_plus_two=on bbr_aggregate=off",
		"5.18": "bbr_aggregate=on timeout_us=off",
		"6.1":  "timeout_us=on ooo_acked=off bbr_aggregate=on",
		"6.9":  "timeout_us=on ooo_acked=on",
		"6.12": "timeout_us=on ooo_acked=on loss_detection=rack",
	} {
		k, err := tcp.Release(kernel)
		if err != nil {
			t.Fatal(err)
		}
		for kv := range strings.FieldsSeq(want) {
			name, value, _ := strings.Cut(kv, "=")
			if got := k.Switches.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %s", kernel, name, got, value)
			}
		}
	}
}
