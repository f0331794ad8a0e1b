package trace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// A SYN that the host finished just after another one had waited for it: its
// program started with that one's. One that came later, or has its own queue, was
// sent when it says.
func TestStartsOfPrograms(t *testing.T) {
	const line = `{"kernel": "6.1.192", "cc": "cubic", "ip": 4, "mtu": 1500, "mss": 1448, "flows": [{"id": 1, "syn_ns": 0}, {"id": 0, "syn_ns": SYN}], "write": 1024, "think_ns": 2000, "bytes": 0, "duration_ns": 12000000, "nodelay": false, "pacing_Bps": 0, "gso_max_size": 65536, "max_tcp_header": 192, "topology": "virtio", "capture": "host", "host": {"wake_ns": 3000, "tx_base_ns": 2000, "tx_per_kb_ns": 100, "rx_ns": 800, "used_batch": 1}, "link": {"one_way_ns": 2000}, "napi_tx": 0, "queues": 1, "ring": 256, "sender_qdisc": {"kind": "pfifo_fast"}, "tcp_rmem": [4096, 6291456, 33554432], "tcp_wmem": [4096, 65536, 33554432]QUEUES}`
	for _, c := range []struct {
		syn, queues string
		want        time.Duration
	}{
		{"2008", "", 1}, {"2009", "", 2009}, {"512", `, "flow_queues": "separate"`, 512},
	} {
		s, x, err := trace.FromLine([]byte(strings.NewReplacer("SYN", c.syn, "QUEUES", c.queues).Replace(line)))
		if err != nil {
			t.Fatal(err)
		}
		s = x.Complete(s)
		if got := s.PerFlow[0].Start; got != c.want || s.PerFlow[1].Start != 0 {
			t.Errorf("SYN at %s%s: programs start at %v and %v, want 0 and %v", c.syn, c.queues, s.PerFlow[1].Start, got, c.want)
		}
	}
}
