package vmtest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest"
)

func TestSetAndGetEveryKey(t *testing.T) {
	values := map[string]string{
		"kernel": "6.1", "release": "napi", "remedies": "win-divisor-1", "vcpus": "4", "queue_pairs": "2",
		"ring": "packed", "in_order": "on", "ring_size": "512", "event_idx": "off", "indirect": "off", "tso": "off", "gso": "off",
		"qdisc": "noqueue", "cc": "reno", "guest_cpu": "free", "flows": "3", "write": "64k", "think": "2µs", "work": "300ns",
		"bytes": "1M", "more": "on", "nodelay": "on", "pacing": "85700kB/s", "duration": "5ms", "warmup": "1ms",
		"seed": "7", "drain": "on", "pregap": "1.1ms", "pregap2": "450µs", "hz": "100", "bbr_phase": "3", "clock_phase": "80", "max_tcp_header": "192", "topology": "veth",
		"router.fwd": "netem:delay=5ms", "router.rev": "noqueue", "ip": "6", "mtu": "9000", "mss": "4096", "spread": "on", "gso_max_size": "181000", "gso_max_segs": "2",
		"nic.tso_max_size": "524280", "policy": "hold:packets=4,time=20us", "host": "med2", "host.wake": "3µs",
		"host.tx_base": "2µs", "host.tx_per_kb": "100ns", "host.rx": "800ns", "link.rate": "10G", "link.delay": "2µs",
		"link.queue": "1M", "link.loss": "0.01", "receiver.rmem": "32M", "receiver.gro": "off", "receiver.mtu": "9000",
		"receiver.kernel": "6.12", "receiver.kind": "kernel", "trace.at": "host", "trace.rules": "on",
		"guests.senders": "3", "guests.receivers": "2",
	}
	for _, k := range vmtest.Keys() {
		if strings.Contains(k.Name, "NAME") || strings.Contains(k.Name, "KEY") {
			continue
		}
		v, ok := values[k.Name]
		if !ok {
			t.Errorf("key %s has no value in this test", k.Name)
			continue
		}
		s := vmtest.Default()
		if err := s.Set(k.Name, v); err != nil {
			t.Errorf("Set(%s, %s): %v", k.Name, v, err)
		}
		if got := k.Get(&s); got != v {
			t.Errorf("%s: set %q, read back %q", k.Name, v, got)
		}
		if k.Doc == "" {
			t.Errorf("key %s has no description", k.Name)
		}
	}
}

func TestSetNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"queue_pair", "2", `the nearest is "queue_pairs"`},
		{"queue_pairs", "0", "1 to 128"},
		{"queue_pairs", "two", "1 to 128"},
		{"write", "1kB", "64k"},
		{"release", "nappy", `the nearest is "napi"`},
		{"remedies", "win-divisor", `the nearest is "win-divisor-1"`},
		{"pacing", "85.7M", "MB/s"},
		{"link.loss", "2", "0 to 1"},
		{"sysctl.tcp_limit_output_byte", "1", `the nearest is "sysctl.tcp_limit_output_bytes"`},
		{"tcp_autocorking", "maybe", "tcp_autocorking"},
		{"tcp.gro", "on", `the nearest is "tcp.grow"`},
		{"guest.tcp_xmits", "1us", `the nearest is "guest.tcp_xmit"`},
		{"guest.kick", "1", "1"},
		{"flow.x.write", "1", "flow.N.KEY"},
		{"flow.0.writes", "1", `the nearest is "flow.0.write"`},
		{"ip", "5", "neither 4 nor 6"},
	} {
		s := vmtest.Default()
		err := s.Set(c.key, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Set(%s, %s) = %v, want an error that says %q", c.key, c.value, err, c.want)
		}
	}
}

func TestDecode(t *testing.T) {
	s, err := vmtest.Decode(vmtest.Default(), "f.toml", []byte(`
kernel = "6.1"
queue_pairs = 2
write = "64k"
tcp_autocorking = 0
[host]
model = "med2"
wake = "5us"
[link]
delay = "10us"
[tcp]
grow = "on"
[[flow]]
cpu = 1
[[flow]]
write = 256
`))
	if err != nil {
		t.Fatal(err)
	}
	wake := 5 * time.Microsecond
	want := vmtest.Default()
	want.Kernel, want.QueuePairs, want.Write = "6.1", 2, 65536
	want.Sysctl["tcp_autocorking"], want.TCP["grow"] = "0", "on"
	want.Host.Model, want.Host.Wake, want.Link.Delay = "med2", &wake, 10*time.Microsecond
	want.PerFlow = []vmtest.FlowConfig{{CPU: 1, Queue: -1}, {CPU: -1, Queue: -1, Write: 256}}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"queues = 2", "f.toml: unknown key"},
		{"write = [1, 2]", "write"},
		{"write = ", "f.toml"},
		{"write = -1", "write"},
	} {
		_, err := vmtest.Decode(vmtest.Default(), "f.toml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Decode(%q) = %v, want an error that says %q", c.text, err, c.want)
		}
	}
	_, err := vmtest.Decode(vmtest.Default(), "f.toml", []byte("queues = 2"))
	if !errors.Is(err, vmtest.ErrUnknownKey) {
		t.Errorf("%v does not wrap ErrUnknownKey", err)
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"ring_size", "100", "64"},
		{"mss", "1460", "mtu"},
		{"duration", "0", "duration"},
		{"pregap2", "1ms", "pregap"},
		{"vcpus", "1", ""},
		{"flow.5.write", "1", "flow.5"},
		{"flow.0.cpu", "9", "flow.0.cpu"},
		{"flow.0.queue", "1", "flow.0.queue"},
	} {
		s := vmtest.Default()
		if err := s.Set(c.key, c.value); err != nil {
			t.Fatal(err)
		}
		err := s.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s=%s: Validate() = %v, want %q", c.key, c.value, err, c.want)
		}
	}
}

func TestGuestCosts(t *testing.T) {
	s := vmtest.Default()
	if err := s.Set("guest.tcp_xmit", "16.8us"); err != nil || s.GuestCosts["tcp_xmit"] != "16.8us" {
		t.Errorf("costs %v, %v", s.GuestCosts, err)
	}
}

func TestFlowOverrides(t *testing.T) {
	s := vmtest.Default()
	for _, kv := range [][2]string{{"flow.1.write", "256"}, {"flow.1.cc", "reno"}, {"vcpus", "2"}, {"flows", "4"}} {
		if err := s.Set(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	if f := s.Flow(1); f.Write != 256 || f.CC != "reno" || f.CPU != 1 || f.Queue != -1 {
		t.Errorf("flow 1 is %+v", f)
	}
	if f := s.Flow(2); f.Write != 1024 || f.CC != "cubic" || f.CPU != 0 {
		t.Errorf("flow 2 is %+v", f)
	}
}

func TestNearest(t *testing.T) {
	if got := vmtest.Nearest("mq-smal-packets", []string{"tso-leftover", "mq-small-packets"}); got != "mq-small-packets" {
		t.Errorf("Nearest = %q", got)
	}
	if got := vmtest.Nearest("x", nil); got != "" {
		t.Errorf("Nearest of nothing = %q", got)
	}
}
