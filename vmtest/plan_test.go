package vmtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest"
)

func labels(t *testing.T, settings ...string) []string {
	t.Helper()
	return planLabels(t, nil, settings...)
}

func planLabels(t *testing.T, g vmtest.Guest, settings ...string) []string {
	t.Helper()
	p, err := vmtest.PlanByName("mq-small-packets")
	if err != nil {
		t.Fatal(err)
	}
	var list []vmtest.Setting
	for _, s := range settings {
		st, err := vmtest.ParseSetting(s)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, st)
	}
	if err := p.Set(list); err != nil {
		t.Fatal(err)
	}
	if g != nil {
		p.Fit(g)
	}
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range runs {
		out = append(out, r.Label)
	}
	return out
}

func TestDefaultPlanOrder(t *testing.T) {
	want := []string{
		"3.8-orphan-1q", "3.8-orphan-2q",
		"3.8-orphan-win-divisor-1+no-full-size-test-1q", "3.8-orphan-win-divisor-1+no-full-size-test-2q",
		"6.12-napi-1q", "6.12-napi-2q",
	}
	if d := cmp.Diff(want, labels(t)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestPlanSettings(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want []string
	}{
		{[]string{"kernel=3.8"}, []string{"3.8-1q", "3.8-2q"}},
		{[]string{"kernel=6.1,6.12", "queue_pairs=2"}, []string{"6.1-2q", "6.12-2q"}},
		{[]string{"queue_pairs=1"}, []string{"3.8-orphan-1q", "6.12-napi-1q"}},
		{[]string{"kernel=6.12", "release=orphan,napi", "queue_pairs=1"}, []string{"6.12-orphan-1q", "6.12-napi-1q"}},
		{[]string{"release=orphan", "kernel=6.1", "queue_pairs=1"}, []string{"6.1-orphan-1q"}},
		{[]string{"kernel=3.8", "remedies=none,win-divisor-1", "queue_pairs=1"}, []string{"3.8-1q", "3.8-win-divisor-1-1q"}},
		{[]string{"kernel=6.12", "queue_pairs=1", "policy=none,hold:packets=4,time=20us"},
			[]string{"6.12-1q-policy=none", "6.12-1q-policy=hold_packets=4,time=20us"}},
		{[]string{"write=256,1k", "kernel=3.8", "queue_pairs=1"}, []string{"3.8-1q-write=256", "3.8-1q-write=1k"}},
	} {
		got := labels(t, c.set...)
		for i := range c.want {
			if i >= len(got) || !sameParts(got[i], c.want[i]) {
				t.Errorf("%v: runs %v, want %v", c.set, got, c.want)
				break
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%v: runs %v, want %v", c.set, got, c.want)
		}
	}
}

// sameParts compares labels without regard to the order of their axes.
func sameParts(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for p := range strings.SplitSeq(b, "-") {
		if !strings.Contains(a, p) {
			return false
		}
	}
	return true
}

func TestSettingAKeyThatIsNoAxis(t *testing.T) {
	if got := labels(t, "tso=off", "gso=off"); len(got) != 6 {
		t.Errorf("runs %v, want all six", got)
	}
	p, _ := vmtest.PlanByName("mq-small-packets")
	err := p.Set([]vmtest.Setting{{Key: "duration", Value: "1ms,2ms"}})
	if err == nil || !strings.Contains(err.Error(), "duration") {
		t.Errorf("a list for duration: %v", err)
	}
}

func TestUnknownPlan(t *testing.T) {
	_, err := vmtest.PlanByName("mq-small-packet")
	if err == nil || !strings.Contains(err.Error(), "mq-small-packets") {
		t.Errorf("%v does not offer mq-small-packets", err)
	}
}

// realGuest stands for a guest with kernels of its own.
type realGuest struct{ vmtest.Guest }

func (realGuest) Name() string                    { return "qemu" }
func (realGuest) Kernels() []string               { return []string{"6.1", "6.12"} }
func (realGuest) Check(vmtest.Scenario) error     { return nil }
func (realGuest) Environment() vmtest.Environment { return vmtest.Environment{} }
func (realGuest) Run(context.Context, vmtest.Scenario, vmtest.Options) (*vmtest.Run, error) {
	return nil, nil
}

func TestFitToRealKernels(t *testing.T) {
	want := []string{"6.1-orphan-1q", "6.1-orphan-2q", "6.1-napi-1q", "6.1-napi-2q"}
	if d := cmp.Diff(want, planLabels(t, realGuest{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want = []string{"6.12-orphan-2q", "6.12-napi-2q"}
	if d := cmp.Diff(want, planLabels(t, realGuest{}, "kernel=6.12", "queue_pairs=2")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	p, _ := vmtest.PlanByName("mq-small-packets")
	p.Fit(realGuest{})
	if len(p.Notes) != 3 || !strings.Contains(p.Notes[0], "6.1") || !strings.Contains(p.Notes[1], "no-full-size-test") {
		t.Errorf("notes %q", p.Notes)
	}
}

func TestFitGivesRealTime(t *testing.T) {
	named, _ := vmtest.PlanByName("mq-small-packets")
	set, _ := vmtest.PlanByName("mq-small-packets")
	if err := set.Set([]vmtest.Setting{{Key: "duration", Value: "300ms"}}); err != nil {
		t.Fatal(err)
	}
	file := vmtest.FilePlan(vmtest.Default())
	for _, c := range []struct {
		plan             vmtest.Plan
		duration, warmUp time.Duration
	}{
		{named, 2 * time.Second, 500 * time.Millisecond},
		{set, 300 * time.Millisecond, named.Base.WarmUp},
		{file, file.Base.Duration, file.Base.WarmUp},
	} {
		c.plan.Fit(realGuest{})
		if s := c.plan.Base; s.Duration != c.duration || s.WarmUp != c.warmUp {
			t.Errorf("%s: %v after %v, want %v after %v", s.Name, s.Duration, s.WarmUp, c.duration, c.warmUp)
		}
	}
}

func TestRemediesApply(t *testing.T) {
	s := vmtest.Default()
	s.Remedies = []string{"win-divisor-1", "no-full-size-test"}
	got, err := s.Applied()
	if err != nil || got.Sysctl["tcp_tso_win_divisor"] != "1" || got.TCP["defer_full_size_test"] != "off" {
		t.Errorf("applied %v %v, %v", got.Sysctl, got.TCP, err)
	}
	if len(s.Sysctl)+len(s.TCP) != 0 {
		t.Error("Applied changed the scenario it was called on")
	}
}
