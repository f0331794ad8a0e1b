package qdisc_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// bothFQ runs a test with the fair queue of 6.1 and that of 6.12.
func bothFQ(t *testing.T, f func(t *testing.T, fq func(text string) *egress)) {
	for _, minor := range []int{1, 12} {
		t.Run(map[int]string{1: "6.1", 12: "6.12"}[minor], func(t *testing.T) {
			f(t, func(text string) *egress { return newEgress(t, mustParse(t, text).For(6, minor)) })
		})
	}
}

// TestFQKeepsDepartureTimes: a packet leaves when the watchdog fires, a slack of
// 10 µs after its time, or with another within it.
func TestFQKeepsDepartureTimes(t *testing.T) {
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq")
		e.put(100, pkt{ts: 50})        // due
		e.put(100, pkt{ts: 1_000_000}) // window to 1010000
		e.put(100, pkt{ts: 1_004_000}) // taken along
		e.put(100, pkt{ts: 1_012_000})
		e.put(1_021_999, pkt{ts: 1_021_999})
		if soft, hard := e.d.Window(); soft != 1_012_000 || hard != 1_022_000 {
			t.Errorf("window %d to %d", soft, hard)
		}
		e.want(t, "100:0", "1010000:1", "1010000:2", "1021999:3", "1021999:4")
	})
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq:timer_slack=0s")
		e.put(100, pkt{ts: 1_000_000})
		e.put(100, pkt{ts: 1_000_001})
		e.want(t, "1000000:0", "1000001:1")
	})
}

// TestFQWatchdogFiresWithinItsWindow: another timer's interrupt takes it along; a
// dequeue for another reason leaves it as it is.
func TestFQWatchdogFiresWithinItsWindow(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq"))
	e.put(0, pkt{ts: 1_000_000})
	if e.d.Fire(999_999) || e.d.Next() != 1_010_000 {
		t.Fatal("fired ahead of its window")
	}
	if !e.d.Fire(1_000_003) || e.d.Next() != vtime.Never {
		t.Fatal("did not fire within its window")
	}
	e.drain(1_000_003)
	e.put(1_000_003, pkt{ts: 2_000_000})
	e.drain(2_000_001)
	if e.d.Next() != 2_010_000 {
		t.Fatal("a packet's departure took the watchdog back")
	}
	e.want(t, "1000003:0", "2000001:1")
}

// TestFQTakesTurns: flows send a quantum of two frames in turn after a first
// credit of ten, new flows first.
func TestFQTakesTurns(t *testing.T) {
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq")
		order := turns(e, func() {
			for range 14 {
				e.add(10, pkt{flow: 1, ts: 9})
			}
			for range 14 {
				e.add(10, pkt{flow: 2, ts: 9})
			}
		})
		// Ten frames of 1514 bytes use up the first credit to the byte.
		if want := "1111111111222222222211221122"; order != want {
			t.Errorf("turns %s, want %s", order, want)
		}
	})
}

// add gives the discipline a packet and takes none.
func (e *egress) add(now vtime.Time, a pkt) {
	e.fate = append(e.fate, e.d.Enqueue(now, e.packet(a)))
}

// turns returns the flows of packets in the order in which they leave. Flow
// 9, which is not looked at before they have come, keeps the fast path of 6.12 shut.
func turns(e *egress, add func()) string {
	e.add(0, pkt{flow: 9, ts: 1})
	add()
	var s strings.Builder
	for p, ok := e.d.Dequeue(10); ok; p, ok = e.d.Dequeue(10) {
		if p.Flow != 9 {
			s.WriteByte('0' + byte(p.Flow))
		}
		p.Free()
	}
	return s.String()
}

// TestFQFastPath: since 6.7 packets that are due go around the flows while these
// have nothing to send, up to eight.
func TestFQFastPath(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq:flow_limit=1").For(6, 12))
	e.add(100, pkt{flow: 1, ts: 5_000}) // not due
	e.add(100, pkt{flow: 1, ts: 5_000}) // beyond the flow's limit
	e.drain(100)
	for range 8 {
		e.add(100, pkt{flow: 1, ts: 100})
	}
	e.add(100, pkt{flow: 1, ts: 100}) // the ninth goes to its flow, which is full
	want := []qdisc.Fate{0, qdisc.Refused, 0, 0, 0, 0, 0, 0, 0, 0, qdisc.Refused}
	if d := cmp.Diff(want, e.fate); d != "" {
		t.Errorf("fates (-want +got):\n%s", d)
	}
	e.drain(200)
	e.add(5_000, pkt{flow: 2}) // flow 1 is due, though not looked at yet: no fast path
	e.add(5_000, pkt{flow: 2}) // so this is one too many
	if n := len(e.fate); e.fate[n-2] != qdisc.Queued || e.fate[n-1] != qdisc.Refused {
		t.Errorf("fates %v", e.fate[n-2:])
	}
	e.drain(5_000)
	left := []string{"200:2", "200:3", "200:4", "200:5", "200:6", "200:7", "200:8", "200:9", "5000:11", "5000:0"}
	if d := cmp.Diff(left, e.left); d != "" {
		t.Errorf("departures (-want +got):\n%s", d)
	}
}

func TestFQHorizonAndLimits(t *testing.T) {
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq:horizon=1ms,limit=3,flow_limit=2")
		e.add(0, pkt{ts: 1_000_001})          // too far
		e.add(0, pkt{ts: 1_000_000})          // just not
		e.add(0, pkt{ts: 1_000_000})          //
		e.add(0, pkt{ts: 1_000_000})          // third of a flow
		e.add(0, pkt{ts: 1_000_000, flow: 1}) //
		e.add(0, pkt{ts: 1_000_000, flow: 2}) // fourth of all
		want := []qdisc.Fate{qdisc.Refused, 0, 0, qdisc.Refused, 0, qdisc.Refused}
		if d := cmp.Diff(want, e.fate); d != "" {
			t.Errorf("fates (-want +got):\n%s", d)
		}
		e = fq("fq:horizon=1ms,horizon_cap")
		e.put(7, pkt{ts: 9_000_000})
		e.want(t, "1010007:0")
		if e.d.Counts().TooFar != 1 {
			t.Errorf("%+v", e.d.Counts())
		}
	})
}

// TestFQSortsWithinAFlow: a packet with an earlier time overtakes those of its
// flow with later ones; with the same time the order stays.
func TestFQSortsWithinAFlow(t *testing.T) {
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq:timer_slack=0s")
		for _, ts := range []vtime.Time{500, 300, 100, 300, 600, 100} {
			e.add(0, pkt{ts: ts})
		}
		e.drain(0)
		e.want(t, "100:2", "100:5", "300:1", "300:3", "500:0", "600:4")
	})
}

// pacer is an owner with a pacing rate.
type pacer uint64

func (r pacer) Freed(*skb.SKB)     {}
func (r pacer) PacingRate() uint64 { return uint64(r) }

// TestFQSpacesBySocketRate: packets without a time are spaced by a quantum's time
// at least once the first credit is used up, and a late one by less.
func TestFQSpacesBySocketRate(t *testing.T) {
	for _, c := range []struct {
		rate pacer
		left string
	}{
		// 15140 bytes of credit are gone with the tenth of 1514 bytes. From then on,
		// packets of 1514 bytes cost 3028 bytes' time unless the turn's credit of 3028
		// bytes lasts: every second one is free.
		{1_000_000, "0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7 0:8 0:9 3028000:10 3028000:11 6056000:12 6056000:13"},
		{math.MaxUint64, "0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7 0:8 0:9 0:10 0:11 0:12 0:13"},
		// At 550 kbit/s or less there is no credit.
		{68_750, "0:0 22021818:1 44043636:2"},
		// A second at most.
		{100, "0:0 1000000000:1 2000000000:2"},
	} {
		e := newEgress(t, mustParse(t, "fq:timer_slack=0s").For(4, 19))
		for range 14 {
			p := e.packet(pkt{})
			p.Owner = c.rate
			e.d.Enqueue(0, p)
		}
		e.drain(0)
		e.run(vtime.Never - 1)
		if got := strings.Join(e.left, " "); !strings.HasPrefix(got, c.left) {
			t.Errorf("at %d B/s: %s, want %s", c.rate, got, c.left)
		}
	}
}

// TestFQMaxRate: a limit on every flow's rate holds for packets with a time too;
// up to half of the spacing is given back for one that left late.
func TestFQMaxRate(t *testing.T) {
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq:maxrate=8M") // 1000 ns a byte: 1514000 a packet
		for range 4 {
			e.add(1, pkt{ts: 1})
		}
		e.drain(1)
		// Each is 10 µs late, and the next one's spacing is that much shorter.
		e.want(t, "1:0", "1524001:1", "3038001:2", "4552001:3")
	})
}

// TestFQRefillsIdleFlows: a flow comes back with a quantum of credit after 40 ms.
func TestFQRefillsIdleFlows(t *testing.T) {
	for _, c := range []struct {
		idle time.Duration
		want string
	}{
		{20 * time.Millisecond, "1222211"}, // the credit of one frame it had left, then turns
		{80 * time.Millisecond, "1122221"}, // a quantum
	} {
		e := newEgress(t, mustParse(t, "fq:initial_quantum=6056"))
		now := vtime.Time(time.Second)
		send := func(flow, n int) {
			for range n {
				e.add(now, pkt{flow: flow, ts: now})
			}
		}
		send(1, 3) // of four frames' credit
		e.drain(now)
		e.put(now+1000, pkt{flow: 3}) // only now is it seen that flow 1 is empty
		now = now.Add(c.idle)
		send(1, 3)
		send(2, 4)
		var got strings.Builder
		for p, ok := e.d.Dequeue(now); ok; p, ok = e.d.Dequeue(now) {
			got.WriteByte('0' + byte(p.Flow))
			p.Free()
		}
		if got.String() != c.want {
			t.Errorf("after %v: %s, want %s", c.idle, got.String(), c.want)
		}
	}
}

// TestFQForgetsFlows: a flow that was idle for 3 s, in a crowded table, comes back
// as a new one, with the first credit.
func TestFQForgetsFlows(t *testing.T) {
	for _, c := range []struct {
		idle time.Duration
		want string
	}{{2 * time.Second, "112222111"}, {4 * time.Second, "111122221"}} {
		e := newEgress(t, mustParse(t, "fq:initial_quantum=6056,buckets=1"))
		now := vtime.Time(time.Second)
		for range 3 {
			e.put(now, pkt{flow: 1, ts: now})
		}
		e.put(now+1000, pkt{flow: 3})
		e.put(now+2000, pkt{flow: 4})
		now = now.Add(c.idle)
		e.put(now, pkt{flow: 5, ts: now}) // finds those that are to be forgotten
		for i := range 9 {
			e.add(now, pkt{flow: 1 + i/5, ts: now})
		}
		var got strings.Builder
		for p, ok := e.d.Dequeue(now); ok; p, ok = e.d.Dequeue(now) {
			got.WriteByte('0' + byte(p.Flow))
			p.Free()
		}
		if got.String() != c.want {
			t.Errorf("after %v: %s, want %s", c.idle, got.String(), c.want)
		}
	}
}

// TestFQBands: urgent flows first, as their weights allow.
func TestFQBands(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq:limit=200,flow_limit=200").For(6, 12))
	order := turns(e, func() {
		for range 60 {
			e.add(10, pkt{flow: 3, tos: 0x08, ts: 9})
		}
		for range 200 {
			e.add(10, pkt{flow: 2, ts: 9})
		}
		e.add(10, pkt{flow: 2, ts: 9}) // one more than the band takes
		for range 100 {
			e.add(10, pkt{flow: 1, tos: 0x10, ts: 9})
		}
	})
	if len(order) != 60+199+100 { // flow 9 takes a place of flow 2's band
		t.Fatalf("%d packets left", len(order))
	}
	if i, j := strings.LastIndexByte(order, '1'), strings.LastIndexByte(order, '3'); i > j {
		t.Errorf("the last urgent packet leaves %dth, the last bulk one %dth:\n%s", i, j, order)
	}
}

// TestFQMarksLatePackets: a packet that leaves later than the threshold gets a
// congestion mark if it can.
func TestFQMarksLatePackets(t *testing.T) {
	bothFQ(t, func(t *testing.T, fq func(string) *egress) {
		e := fq("fq:ce_threshold=1ms")
		for i, tos := range []byte{2, 2, 0} {
			e.add(0, pkt{ts: vtime.Time(1_000_000 * (1 + i)), tos: tos})
		}
		var tos []byte
		for p, ok := e.d.Dequeue(2_500_000); ok; p, ok = e.d.Dequeue(2_500_000) {
			tos = append(tos, p.Hdr[15])
			p.Free()
		}
		if d := cmp.Diff([]byte{3, 2}, tos); d != "" || e.d.Counts().Marked != 1 {
			t.Errorf("TOS (-want +got):\n%s%+v", d, e.d.Counts())
		}
	})
}

// TestFQByHash: without sockets, flows with the same low ten bits of their hash
// are one.
func TestFQByHash(t *testing.T) {
	spec := mustParse(t, "fq:flow_limit=1")
	spec.FQ.ByHash = true
	e := newEgress(t, spec)
	e.add(0, pkt{flow: 1, hash: 5})
	e.add(0, pkt{flow: 2, hash: 5 + 1024})
	e.add(0, pkt{flow: 1, hash: 6})
	if d := cmp.Diff([]qdisc.Fate{0, qdisc.Refused, 0}, e.fate); d != "" {
		t.Errorf("fates (-want +got):\n%s", d)
	}
}
