package qdisc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// everyTenMs takes a packet out of a discipline every 10 ms and returns the times,
// in ms, at which count grew.
func everyTenMs(e *egress, count func() uint64) (at []int64) {
	for ms := int64(0); e.d.Len() > 0; ms += 10 {
		before := count()
		if p, ok := e.d.Dequeue(vtime.Time(ms) * vtime.Time(time.Millisecond)); ok {
			e.left = append(e.left, string(rune('0'+p.Hdr[15])))
			p.Free()
		}
		for range count() - before {
			at = append(at, ms)
		}
	}
	return at
}

// TestCoDelDropTimes: the packets of one flow came at 0 and leave every 10 ms. By
// hand, in units of 1024 ns: at 10 ms (9765) one waited longer than the target, so
// at 107421 an interval of 97656 is over, and 120 ms is the first time after that
// (at 110 ms the clock says 107421). The next drop is due at 117187+97654=214841;
// then, the inverse square root being 32769/65536 after one step of Newton's
// method for 2, at 214841+48829=263670; for 3 it is 36864/65536, so 318601; for 4
// 31968/65536, so 366236, which is 375.03 ms.
func TestCoDelDropTimes(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq_codel"))
	for range 46 {
		e.add(0, pkt{})
	}
	at := everyTenMs(e, func() uint64 { return e.d.Counts().Culled })
	if d := cmp.Diff([]int64{120, 220, 270, 330, 380}, at[:5]); d != "" {
		t.Errorf("drops at (-want +got):\n%s", d)
	}
	if c := e.d.Counts(); c.Sent+c.Culled != 46 || c.Marked != 0 {
		t.Errorf("%+v", c)
	}
}

// TestCoDelMarks: packets that can be marked are, at the times of the drops.
func TestCoDelMarks(t *testing.T) {
	for _, c := range []struct {
		text  string
		marks bool
	}{{"fq_codel", true}, {"fq_codel:noecn", false}} {
		e := newEgress(t, mustParse(t, c.text))
		for range 46 {
			e.add(0, pkt{tos: 2})
		}
		at := everyTenMs(e, func() uint64 { return e.d.Counts().Marked + e.d.Counts().Culled })
		if d := cmp.Diff([]int64{120, 220, 270, 330, 380}, at[:5]); d != "" {
			t.Errorf("%s: at (-want +got):\n%s", c.text, d)
		}
		if n := strings.Count(strings.Join(e.left, ""), "3"); (n > 0) != c.marks {
			t.Errorf("%s: %d marked packets left", c.text, n)
		}
	}
}

// TestCoDelIsCalm: nothing is dropped while packets wait for less than the target,
// or one frame at most is left behind.
func TestCoDelIsCalm(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq_codel:target=20ms"))
	for ms := range vtime.Time(1000) {
		e.add(ms*1_000_000, pkt{})
		if ms >= 15 {
			p, _ := e.d.Dequeue(ms * 1_000_000)
			p.Free()
		}
	}
	e = newEgress(t, mustParse(t, "fq_codel"))
	e.add(0, pkt{})
	for s := vtime.Time(1); s < 9; s++ {
		e.add(s*1_000_000_000, pkt{})
		p, _ := e.d.Dequeue(s * 1_000_000_000)
		p.Free()
	}
	if c := e.d.Counts(); c.Culled != 0 {
		t.Errorf("%+v", c)
	}
}

// TestCoDelMarksAtAThreshold: packets that waited longer get a mark whatever CoDel
// says. Times are in units of 1024 ns: 1 ms is 976 of them.
func TestCoDelMarksAtAThreshold(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq_codel:ce_threshold=1ms"))
	for range 3 {
		e.add(0, pkt{tos: 1})
	}
	for _, now := range []vtime.Time{500_000, 1_000_400, 1_000_500} {
		p, _ := e.d.Dequeue(now)
		e.left = append(e.left, string(rune('0'+p.Hdr[15])))
		p.Free()
	}
	if got := strings.Join(e.left, ""); got != "113" {
		t.Errorf("TOS %s, want 113", got)
	}
}

// TestFQCodelSheds: too many packets cost the longest queue half of its bytes from
// the head. Only a sender whose queue it was is told.
func TestFQCodelSheds(t *testing.T) {
	const a, b = 1 << 31, 1 << 20 // hashes of two queues
	for _, c := range []struct {
		text string
		last uint32
		fate qdisc.Fate
		left []string
	}{
		{"fq_codel:limit=4", a, qdisc.Congested, []string{"0:2", "0:3", "0:4"}},
		{"fq_codel:limit=4", b, qdisc.Queued, []string{"0:2", "0:3", "0:4"}}, // 4542 bytes: 2 packets are more than half
		{"fq_codel:limit=4,drop_batch=1", a, qdisc.Congested, []string{"0:1", "0:3", "0:2", "0:4"}},
		{"fq_codel:memory_limit=9000", a, qdisc.Congested, []string{"0:2", "0:3", "0:4"}}, // 2216 bytes each
	} {
		e := newEgress(t, mustParse(t, c.text))
		for range 3 {
			e.add(0, pkt{hash: a})
		}
		e.add(0, pkt{hash: b})
		e.add(0, pkt{hash: c.last})
		e.drain(0)
		if d := cmp.Diff(c.left, e.left); d != "" || e.fate[4] != c.fate {
			t.Errorf("%s: fate %v, want %v; departures (-want +got):\n%s", c.text, e.fate[4], c.fate, d)
		}
	}
}

// TestFQCodelTakesTurns: a quantum of one frame each.
func TestFQCodelTakesTurns(t *testing.T) {
	e := newEgress(t, mustParse(t, "fq_codel"))
	for range 4 {
		e.add(0, pkt{hash: 1 << 31}) // even numbers
		e.add(0, pkt{hash: 1 << 20})
	}
	e.add(0, pkt{hash: 1 << 31, len: 100})
	e.wantAt(t, 0, "0:0 0:1 0:2 0:3 0:4 0:5 0:6 0:7 0:8")
	e.add(9, pkt{hash: 1 << 31})
	e.add(9, pkt{hash: 1 << 31})
	e.add(9, pkt{hash: 1 << 29}) // new, before the second of the old one
	e.wantAt(t, 9, "9:9 9:11 9:10")
}

// wantAt is want for what leaves at now.
func (e *egress) wantAt(t *testing.T, now vtime.Time, left string) {
	t.Helper()
	e.left = nil
	e.drain(now)
	if got := strings.Join(e.left, " "); got != left {
		t.Errorf("departures %s, want %s", got, left)
	}
}

// TestMarkKeepsTheChecksum marks packets of both address families through a
// discipline, and compares the headers with those built with the mark.
func TestMarkKeepsTheChecksum(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for tos := range uint8(8) {
			e := newEgress(t, mustParse(t, "fq_codel:ce_threshold=1ms"))
			spec := frame.TCPSpec{Src: addr(v6, 1), Dst: addr(v6, 2), TOS: tos, ID: 7, Absent: 100, Partial: true}
			p := build(&e.pool, &spec, 100)
			e.d.Enqueue(0, p)
			p, _ = e.d.Dequeue(2_000_000)
			if tos&3 != 0 {
				spec.TOS |= 3
			}
			if d := cmp.Diff(frame.AppendTCP(nil, &spec), p.Hdr[:p.HdrLen]); d != "" {
				t.Errorf("v6 %v, TOS %d (-want +got):\n%s", v6, tos, d)
			}
		}
	}
}
