package link_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// TestAcknowledgesWhatRealKernelsDid feeds the receiver the packets that a real
// receiver got, and compares which of them were acknowledged at once.
func TestAcknowledgesWhatRealKernelsDid(t *testing.T) {
	for _, c := range []struct {
		file         string
		major, minor int
	}{
		{"real_6.1_small.acks", 6, 1},
		{"real_6.12_small.acks", 6, 12},
		{"real_6.12_gso.acks", 6, 12},
	} {
		rules, quick := link.RulesOf(c.major, c.minor)
		r, err := link.NewReceiver(link.ReceiverConfig{Rules: rules, QuickWindow: quick, WindowScale: 10})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile("testdata/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		packets := replay(t, c.file, r, string(text))
		if packets < 100 || r.Stats.Bytes == 0 || r.Stats.DelayedAck != 0 {
			t.Errorf("%s: %d packets, %+v", c.file, packets, r.Stats)
		}
	}
}

// replay gives a packet every 2 µs and stops at the first difference.
func replay(t *testing.T, file string, r *link.Receiver, text string) (packets int) {
	var now vtime.Time
	var seq uint32
	for line := range strings.Lines(text) {
		if line[0] == '#' {
			continue
		}
		var n int32
		var psh, want string
		if _, err := fmt.Sscan(line, &n, &psh, &want); err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		now += 2000
		s := link.Segment{Seq: seq, Len: n, PSH: psh == "P"}
		if n > 1448 {
			s.MSS = 1448
		}
		seq += uint32(n)
		packets++
		acked := give(r, now, &s)
		if got := acked == seq; got != (want == "+") {
			t.Errorf("%s: packet %d of %d bytes, acknowledged: %v, the kernel: %v", file, packets, n, got, !got)
			return packets
		}
	}
	return packets
}

// give delivers a segment, lets the application read, and returns the last
// acknowledgement.
func give(r *link.Receiver, now vtime.Time, s *link.Segment) (acked uint32) {
	r.Receive(now, s)
	for r.Next() <= now {
		r.Step(now)
	}
	var a link.Ack
	for r.Pop(&a) {
		acked = a.Ack
	}
	return acked
}
