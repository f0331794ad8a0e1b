package guest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseInterrupts(t *testing.T) {
	const text = `           CPU0       CPU1
  0:         35          0   IO-APIC   2-edge      timer
 10:          7          3   IO-APIC  10-fasteoi   virtio0, virtio1
 24:          0       1200   PCI-MSI-edge      virtio0-input.0
 25:        500          1   PCI-MSI-edge      virtio0-output.0
LOC:       1000       2000   Local timer interrupts
ERR:          0
`
	want := map[string]uint64{"timer": 35, "virtio0, virtio1": 10, "virtio0-input.0": 1200,
		"virtio0-output.0": 501, "LOC": 3000, "ERR": 0}
	if d := cmp.Diff(want, parseInterrupts([]byte(text))); d != "" {
		t.Error(d)
	}
	if got := parseInterrupts(nil); len(got) != 0 {
		t.Errorf("nothing has %v", got)
	}
}

func TestParseProtocol(t *testing.T) {
	const text = `Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 77
Tcp: RtoAlgorithm MaxConn RetransSegs
Tcp: 1 -1 5
Odd: A B
Odd: 1
`
	want := map[string]uint64{"Ip.Forwarding": 2, "Ip.DefaultTTL": 64, "Ip.InReceives": 77, "Tcp.RtoAlgorithm": 1, "Tcp.RetransSegs": 5}
	if d := cmp.Diff(want, parseProtocol([]byte(text))); d != "" {
		t.Error(d)
	}
}

func TestParseBusy(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	got := parseBusy([]byte("cpu  10 1 20 9000 800 2 3 4 5 6\ncpu0 5 0 10 4500 400 1 1 2 2 3\n"))
	if want := 400 * time.Millisecond; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := parseBusy(nil); got != 0 {
		t.Errorf("nothing is %v", got)
	}
}

func TestKicks(t *testing.T) {
	got := kicks(map[string]uint64{"tx_queue_0_kicks": 1, "tx_queue_0_packets": 2, "rx0_kicks": 3})
	if d := cmp.Diff(map[string]uint64{"tx_queue_0_kicks": 1, "rx0_kicks": 3}, got); d != "" {
		t.Error(d)
	}
}

func TestMode(t *testing.T) {
	for _, c := range []struct {
		count map[uint32]int
		want  int64
	}{{nil, 7}, {map[uint32]int{10: 2, 12: 3}, 12}, {map[uint32]int{10: 3, 12: 3}, 12}, {map[uint32]int{7: 1, 5: 1}, 7}} {
		if got := mode(c.count, 7); got != c.want {
			t.Errorf("%v: %d, want %d", c.count, got, c.want)
		}
	}
}
