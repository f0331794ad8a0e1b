package qdisc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/qdisc"
)

func TestParseSpec(t *testing.T) {
	for text, want := range map[string]qdisc.Spec{
		"pfifo_fast":          {},
		"pfifo_fast:limit=50": {Limit: 50},
		"noqueue":             {Kind: qdisc.NoQueue},
		"mq pfifo_fast":       {},
		"fq":                  {Kind: qdisc.FQ},
		"fq:maxrate=1G,timer_slack=0s,horizon_cap,buckets=64,low_rate_threshold=500k": {
			Kind: qdisc.FQ, RateBps: 1e9,
			FQ: qdisc.FQSpec{Slack: -1, HorizonCap: true, Buckets: 64, LowRateBps: 500_000},
		},
		"fq_codel:target=1ms,noecn,limit=9": {
			Kind: qdisc.FQCodel, Limit: 9, Codel: qdisc.CodelSpec{Target: time.Millisecond, NoECN: true},
		},
		"tbf:rate=200M,burst=71680,limit=20971520": {Kind: qdisc.TBF, RateBps: 200e6, Burst: 71680, Limit: 20971520},
		"netem:delay=5ms,rate=100M,limit=1000,drop=17;3": {
			Kind: qdisc.Netem, Delay: 5 * time.Millisecond, RateBps: 100e6, Limit: 1000, Drop: []uint64{3, 17},
		},
		"netem:delay=0s": {Kind: qdisc.Netem},
		"netem:rate=8":   {Kind: qdisc.Netem, RateBps: 8},
	} {
		got, err := qdisc.ParseSpec(text)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", text, err, d)
		}
	}
}

// TestParseSpecSaysWhatIsRight: the errors of texts that are wrong.
func TestParseSpecSaysWhatIsRight(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `unknown queueing discipline "": there are pfifo_fast, noqueue, fq, fq_codel, tbf, netem`,
		"fq_codle":                "did you mean fq_codel?",
		"netem:":                  `unknown parameter "": it has delay, rate, limit, drop`,
		"noqueue:x":               `queueing discipline noqueue: unknown parameter "x": it has none`,
		"netem:dely=":             `unknown parameter "dely" (did you mean delay?): it has delay, rate, limit, drop`,
		"tbf:delay=5ms":           `unknown parameter "delay"`,
		"tbf:rate=1M":             "tbf: burst is missing; it needs three, as in tbf:rate=200M,burst=71680,limit=20971520",
		"tbf":                     "tbf: rate is missing",
		"netem:delay=5":           `delay "5": needs a time with a unit, as in 5ms`,
		"netem:delay=-5ms":        `needs a time with a unit`,
		"netem:delay=9999h":       "delay is 35996400000000000, needs 0 to 3600000000000",
		"netem:rate=ten":          `rate "ten": needs bits per second, up to 10T, as in 100M`,
		"netem:rate=11T":          "up to 10T",
		"netem:rate=7":            "rate is 7, needs 8 to 10000000000000",
		"netem:limit=0":           "needs a whole number above 0",
		"netem:drop=0":            "needs numbers of packets from 1, as in 3;17",
		"netem:drop=3;;4":         "needs numbers of packets",
		"netem:drop=3;3":          "drop lists 3, needs different numbers from 1",
		"fq:horizon=0s":           "needs a time above 0 with a unit",
		"fq:nopacing=1":           `nopacing "1": takes no value`,
		"fq:buckets=100":          "buckets is 100, needs a power of two",
		"fq:quantum=2000000":      "quantum is 2000000, needs 256 to 1048576",
		"fq_codel:flows=70000":    "flows is 70000, needs 1 to 65536",
		"fq_codel:quantum=1":      "quantum is 1, needs 256 to 1048576",
		"pfifo_fast:limit=-1":     "needs a whole number above 0",
		"fq_codel:interval=1ns":   "interval is 1, needs 1024 to",
		"netem:rate=1M,rate=1m":   `rate "1m"`,
		"netem:drop=-1":           "needs numbers of packets",
		"fq_codel:drop_batch=1e3": "needs a whole number",
	} {
		_, err := qdisc.ParseSpec(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
		if !errors.Is(err, qdisc.ErrSpec) && !errors.Is(err, qdisc.ErrUnknownKind) {
			t.Errorf("%q: error %v wraps no cause", text, err)
		}
	}
}

// TestSpecJSON: the scenario line of a trace describes disciplines like this.
func TestSpecJSON(t *testing.T) {
	for text, want := range map[string]qdisc.Spec{
		`{"kind": "noqueue"}`:       {Kind: qdisc.NoQueue},
		`{"kind": "mq pfifo_fast"}`: {},
		`{"kind": "netem", "rate_bps": 100000000, "delay_ns": 5000000, "limit": 1000}`: mustParse(t,
			"netem:delay=5ms,rate=100M,limit=1000"),
		`{"kind": "tbf", "rate_bps": 200000000, "burst": 71680, "limit": 20971520}`: mustParse(t,
			"tbf:rate=200M,burst=71680,limit=20971520"),
		`{"kind": "fq", "fq": {"timer_slack_ns": -1}}`: mustParse(t, "fq:timer_slack=0s"),
	} {
		var got qdisc.Spec
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", text, d)
		}
		back, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var again qdisc.Spec
		if err := json.Unmarshal(back, &again); err != nil || !cmp.Equal(got, again) {
			t.Errorf("%s does not come back: %s, %v", text, back, err)
		}
	}
	var s qdisc.Spec
	if err := json.Unmarshal([]byte(`{"kind": "htb"}`), &s); !errors.Is(err, qdisc.ErrUnknownKind) {
		t.Errorf("htb: %v", err)
	}
}

// TestSpecFor: the switches of kernel releases.
func TestSpecFor(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		bands, rings bool
	}{{3, 12, false, false}, {4, 15, false, false}, {4, 16, false, true}, {6, 1, false, true}, {6, 7, true, true}, {6, 12, true, true}} {
		s := qdisc.Spec{}.For(c.major, c.minor)
		if s.FQ.Bands != c.bands || s.Rings != c.rings {
			t.Errorf("%d.%d: bands %v, rings %v", c.major, c.minor, s.FQ.Bands, s.Rings)
		}
	}
}

// TestNewDiscRefuses what ParseSpec would.
func TestNewDiscRefuses(t *testing.T) {
	for _, s := range []qdisc.Spec{{Kind: 99}, {Kind: qdisc.TBF}, {Kind: qdisc.Netem, Drop: []uint64{0}}, {MTU: 7}, {HZ: -1}} {
		if _, err := qdisc.NewDisc(s, nil, nil); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if _, err := qdisc.NewFrom(&keeper{}, new(counts), nil, qdisc.Config{}, qdisc.Spec{Kind: qdisc.TBF}); !errors.Is(err, qdisc.ErrSpec) {
		t.Error(err)
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{
		"fq:maxrate=1G", "netem:delay=5ms,drop=3;17", "tbf:rate=200M,burst=71680,limit=20971520", "fq_codel:noecn", "mq", ":",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := qdisc.ParseSpec(text)
		if err != nil {
			return
		}
		if _, err := qdisc.NewDisc(s, nil, nil); err != nil {
			t.Errorf("%q is a spec, but %v", text, err)
		}
	})
}
