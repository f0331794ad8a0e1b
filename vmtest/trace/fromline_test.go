package trace_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

func scenario(t *testing.T, name string) (vmtest.Scenario, trace.Experiment) {
	t.Helper()
	h, err := trace.ReadHeaderFile("testdata/open/" + name + ".tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	s, x, err := trace.FromLine(h.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	return s, x
}

func TestFromLineOpenTraces(t *testing.T) {
	for _, path := range openTraces(t) {
		h, err := trace.ReadHeaderFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, x, err := trace.ScenarioOf(h)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if s.Name != h.Name || !strings.HasPrefix(x.Version, s.Kernel+".") || s.GuestCPU != "uml" || x.HZ != 100 || x.MaxTCPHeader != 192 {
			t.Errorf("%s: %+v\n%+v", path, s, x)
		}
		if s.Duration == 0 {
			s.Duration = time.Second // what ends it is its bytes
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestFromLineVeth(t *testing.T) {
	s, x := scenario(t, "o08_defer_eta_1100us_20ms.612")
	want := vmtest.Default()
	want.Name, want.Kernel, want.CC, want.GuestCPU, want.VCPUs = "trace", "6.12", "cubic", "uml", 1
	want.Qdisc, want.Trace.At, want.Link, want.WarmUp, want.Duration = "noqueue", "qdisc", vmtest.LinkConfig{}, 0, 0
	want.Flows, want.PerFlow = 1, []vmtest.FlowConfig{{CPU: -1, Queue: -1}}
	want.Write, want.Total, want.NoDelay = 200000, 200000, true
	want.MSS, want.Receiver.Rmem = 1448, 33554432
	want.Sysctl = map[string]string{"tcp_tso_rtt_log": "15", "tcp_rmem": "4096 6291456 33554432", "tcp_wmem": "4096 65536 33554432"}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("scenario (-want +got)\n%s", d)
	}
	wantX := trace.Experiment{
		Version: "6.12.117", Topology: trace.TopologyVeth, Capture: "qdisc", HZ: 100, ClockReadCost: 256, MaxTCPHeader: 192,
		Sender: trace.Qdisc{Kind: "noqueue"}, Forward: trace.Qdisc{Kind: "noqueue"},
		Reverse: trace.Qdisc{Kind: "netem", Delay: 20 * time.Millisecond, Limit: 1000},
		RMem:    [3]vmtest.Bytes{4096, 6291456, 33554432}, WMem: [3]vmtest.Bytes{4096, 65536, 33554432},
		Flows: []trace.Handshake{{ID: 0}}, PreGap: 1100 * time.Microsecond, PreGap2: 450 * time.Microsecond, UsedBatch: 1,
	}
	if d := cmp.Diff(wantX, x); d != "" {
		t.Errorf("experiment (-want +got)\n%s", d)
	}
}

func TestFromLineVirtio(t *testing.T) {
	s, x := scenario(t, "o11_virtio_w1024_n0_q2.61")
	got := []any{s.Release, s.QueuePairs, s.Ring.Size, *s.Host.Wake, *s.Host.TxBase, *s.Host.TxPerKB, *s.Host.Rx, s.Link.Delay,
		s.Qdisc, s.Think, s.Duration, s.PerFlow[0], s.PerFlow[1], x.MQ, x.Separate, x.Sender, x.Flows, s.Trace.At}
	us := time.Microsecond
	want := []any{"orphan", 2, 256, 3 * us, 2 * us, 100 * time.Nanosecond, 800 * time.Nanosecond, 2 * us,
		"pfifo_fast", 2 * us, 12 * time.Millisecond, vmtest.FlowConfig{CPU: -1, Queue: 0, Start: 512}, vmtest.FlowConfig{CPU: -1, Queue: 1},
		true, true, trace.Qdisc{Kind: "pfifo_fast"}, []trace.Handshake{{ID: 1}, {ID: 0, SYN: 512}}, "host"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if s, _ := scenario(t, "o12_virtio_w1024_n1_q1.612"); s.Release != "napi" || s.PerFlow[1].Queue != -1 {
		t.Errorf("release %q, queue %d", s.Release, s.PerFlow[1].Queue)
	}
}

func TestFromLineQdiscs(t *testing.T) {
	_, x := scenario(t, "o09_tsq_tbf200m.61")
	if d := cmp.Diff(trace.Qdisc{Kind: "tbf", RateBps: 200e6, Burst: 71680, Limit: 20971520}, x.Sender); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	_, x = scenario(t, "o07_bbr_100m_10ms.61")
	if d := cmp.Diff(trace.Qdisc{Kind: "netem", RateBps: 100e6, Delay: 5 * time.Millisecond, Limit: 1000}, x.Forward); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestFromLineErrors changes one key of a good line each.
func TestFromLineErrors(t *testing.T) {
	for _, c := range []struct {
		trace, key, value, want string // an empty value removes the key
	}{
		{"o01_lock_big.61", "kernel", `"5.10.1"`, `key "kernel": "5.10.1": want a version of one of the releases 3.8,`},
		{"o01_lock_big.61", "kernel", `6`, `key "kernel": bad scenario line: "6": want a text`},
		{"o01_lock_big.61", "pacing_bps", `1`, `unknown key "pacing_bps"; the nearest is "pacing_Bps"`},
		{"o01_lock_big.61", "mss", ``, `key "mss" is missing`},
		{"o01_lock_big.61", "mtu", `"1500"`, `key "mtu": bad scenario line: "\"1500\"": want a whole number from 576 to 65535`},
		{"o01_lock_big.61", "write", `1.5`, `key "write": bad scenario line: "1.5": want a whole number`},
		{"o01_lock_big.61", "ip", `5`, `key "ip": 5: want 4 or 6`},
		{"o01_lock_big.61", "nodelay", `"no"`, `want true, false, 1 or 0`},
		{"o01_lock_big.61", "bytes", `0`, `"bytes" and "duration_ns" are both 0`},
		{"o01_lock_big.61", "topology", `"veht"`, `want one of veth, virtio`},
		{"o01_lock_big.61", "fwd", ``, `key "fwd" is missing, which topology veth needs`},
		{"o01_lock_big.61", "ring", `256`, `key "ring" belongs to topology virtio`},
		{"o01_lock_big.61", "pregap2_ns", `1`, `it needs a pregap_ns`},
		{"o01_lock_big.61", "rev", `{"kind":"nettem"}`, `key "qdisc.kind": bad scenario line: "\"nettem\"": want one of noqueue, pfifo_fast, fq`},
		{"o01_lock_big.61", "rev", `{"kind":"tbf"}`, `key "qdisc.rate_bps" is missing, which tbf needs`},
		{"o01_lock_big.61", "rev", `{}`, `key "qdisc.kind" is missing`},
		{"o01_lock_big.61", "rev", `[]`, `qdisc: "[]" is no JSON object`},
		{"o01_lock_big.61", "sender_qdisc", `{"kind":"fq","delay":1}`, `unknown key "sender_qdisc.delay"; the nearest is "sender_qdisc.delay_ns"`},
		{"o01_lock_big.61", "flows", `[]`, `want a list of 1 to 10000 objects`},
		{"o01_lock_big.61", "flows", `[{"id":0}]`, `key "flows.0.syn_ns" is missing`},
		{"o01_lock_big.61", "flows", `[{"id":0,"syn_ns":0},{"id":0,"syn_ns":0}]`, `flows.1.id: 0 stands twice`},
		{"o01_lock_big.61", "tcp_rmem", `[3,2,1]`, `want [least, start, most] in bytes`},
		{"o01_lock_big.61", "sysctl", `{"net.ipv4.tcp_tso_rtt_lag":1}`, `the nearest is "sysctl.tcp_tso_rtt_log"`},
		{"o01_lock_big.61", "sysctl", `3`, `want an object of sysctls`},
		{"o10_virtio_w1024_n0_q1.61", "host", `{"wake_ns":1}`, `key "host.tx_base_ns" is missing`},
		{"o10_virtio_w1024_n0_q1.61", "link", `{}`, `key "link.one_way_ns" is missing`},
		{"o10_virtio_w1024_n0_q1.61", "napi_tx", ``, `key "napi_tx" is missing, which topology virtio needs`},
		{"o10_virtio_w1024_n0_q1.61", "rev", `{"kind":"fq"}`, `key "rev" belongs to topology veth`},
	} {
		m := map[string]json.RawMessage{}
		if err := json.Unmarshal(load(t, c.trace).Scenario, &m); err != nil {
			t.Fatal(err)
		}
		m[c.key] = json.RawMessage(c.value)
		if c.value == "" {
			delete(m, c.key)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = trace.FromLine(b)
		if !errors.Is(err, trace.ErrScenario) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.key, c.value, err, c.want)
		}
	}
}

func TestFromLineSyntax(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                       `is no JSON object`,
		``:                         `is no JSON object`,
		`{"cc":"bbr"`:              `the object has no end`,
		`{"cc":"bbr"} {}`:          `text stands behind the object`,
		`{"cc":"bbr","cc":"reno"}`: `key "cc" stands twice`,
		`{"cc":}`:                  `key "cc": the value is not JSON`,
		`{1:2}`:                    `want a key in double quotes`,
	} {
		if _, _, err := trace.FromLine([]byte(text)); !errors.Is(err, trace.ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, _, err := trace.FromLine([]byte(`{"colour":1}`)); !errors.Is(err, vmtest.ErrUnknownKey) {
		t.Errorf("%v, want ErrUnknownKey", err)
	}
	if _, _, err := trace.ScenarioOf(&trace.Header{}); !errors.Is(err, trace.ErrScenario) {
		t.Errorf("%v, want ErrScenario", err)
	}
}

// TestFromLineNumbers: a whole number may be written as a float, and a flag as
// a number.
func TestFromLineNumbers(t *testing.T) {
	raw := string(load(t, "o01_lock_big.61").Scenario)
	raw = strings.Replace(raw, `"pacing_Bps": 85700000`, `"pacing_Bps": 8.57e7`, 1)
	raw = strings.Replace(raw, `"nodelay": false`, `"nodelay": 1`, 1)
	s, _, err := trace.FromLine([]byte(raw))
	if err != nil || s.Pacing != 85700000 || !s.NoDelay {
		t.Errorf("%v: pacing %d, nodelay %v", err, s.Pacing, s.NoDelay)
	}
}
