package guest

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// newTestControl is a control line to nobody.
func newTestControl(t *testing.T) *control {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	return &control{tty: null, replies: make(chan proto.Message), stop: make(chan struct{})}
}

// receiver counts what arrives on a port of this machine.
func receiver(t *testing.T) (port int, got *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n := int64(1)
				for buf := make([]byte, 64<<10); n > 0; got.Add(n) {
					k, err := c.Read(buf)
					if n = int64(k); err == io.EOF {
						n = 0
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, got
}

func testConfig(port int, flows ...proto.Flow) *proto.Config {
	return &proto.Config{
		Addr: "127.0.0.1/8", Peer: "127.0.0.1", Port: port, FromPort: 0, Flows: flows,
		WarmUp: 20 * time.Millisecond, Duration: 50 * time.Millisecond, Sample: 5 * time.Millisecond,
	}
}

// TestSender sends over the loopback: after each period everything that was
// written is acknowledged, and nothing is written between periods.
func TestSender(t *testing.T) {
	port, got := receiver(t)
	s, err := newSender(testConfig(port, proto.Flow{Write: 1000, CC: "reno", NoDelay: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctl := newTestControl(t)
	if err := s.warmUp(ctl); err != nil {
		t.Fatal(err)
	}
	first := s.written()[0]
	if first == 0 || first%1000 != 0 {
		t.Errorf("the warm-up wrote %d bytes, want whole writes of 1000", first)
	}
	time.Sleep(20 * time.Millisecond)
	if now := s.written()[0]; now != first {
		t.Errorf("wrote %d bytes while at rest", now-first)
	}
	if err := s.measured(ctl); err != nil {
		t.Fatal(err)
	}
	var r proto.Report
	if err := s.finish(&r); err != nil {
		t.Fatal(err)
	}
	f := r.Flows[0]
	if f.Written <= first || f.Cwnd == 0 || f.CC != "reno" || f.MSS == 0 {
		t.Errorf("report %+v", f)
	}
	for end := time.Now().Add(5 * time.Second); got.Load() != f.Written; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes written, %d arrived", f.Written, got.Load())
		}
	}
}

// TestSenderTotal: a flow with a total ends by itself, and so does the period.
func TestSenderTotal(t *testing.T) {
	port, _ := receiver(t)
	cfg := testConfig(port, proto.Flow{Write: 1000, Total: 12_345, Think: 100 * time.Microsecond, Start: 5 * time.Millisecond})
	cfg.WarmUp, cfg.Duration, cfg.More = 0, 30*time.Second, true
	s, err := newSender(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	begin := time.Now()
	if err := s.measured(newTestControl(t)); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); s.written()[0] != 12_345 || d > 10*time.Second || d < 5*time.Millisecond {
		t.Errorf("%d bytes in %v", s.written()[0], d)
	}
}

// TestSenderStop: the host's stop ends a period.
func TestSenderStop(t *testing.T) {
	port, _ := receiver(t)
	cfg := testConfig(port, proto.Flow{Write: 10})
	cfg.Duration = time.Minute
	s, err := newSender(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctl := newTestControl(t)
	time.AfterFunc(20*time.Millisecond, ctl.halt)
	begin := time.Now()
	if err := s.measured(ctl); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("went on for %v", d)
	}
}

func TestSenderErrors(t *testing.T) {
	port, _ := receiver(t)
	for name, change := range map[string]func(*proto.Config){
		"no such congestion control": func(c *proto.Config) { c.Flows[0].CC = "vegan" },
		"nobody listens":             func(c *proto.Config) { c.Port = 1 },
		"bad address":                func(c *proto.Config) { c.Addr = "here" },
		"bad peer":                   func(c *proto.Config) { c.Peer = "there" },
	} {
		cfg := testConfig(port, proto.Flow{Write: 1})
		change(cfg)
		s, err := newSender(cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		s.close()
	}
}
