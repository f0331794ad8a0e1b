package link_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"pgregory.net/rapid"
)

const ms = vtime.Time(time.Millisecond)

// world is a receiver, its time, and what it sent.
type world struct {
	t    *testing.T
	r    *link.Receiver
	now  vtime.Time
	acks []link.Ack
}

func newReceiver(t *testing.T, cfg link.ReceiverConfig) *world {
	r, err := link.NewReceiver(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, r: r}
}

// steady returns a receiver past its quick acknowledgements, with the
// acknowledgements forgotten. It expects sequence number 0.
func steady(t *testing.T, cfg link.ReceiverConfig) *world {
	const start = 40 * 1448
	cfg.ISS -= start
	cfg.WindowMax = cfg.InitialWindow // no growth
	if cfg.WindowMax == 0 {
		cfg.WindowMax = 65160
	}
	w := newReceiver(t, cfg)
	for i := range uint32(40) {
		w.data(cfg.ISS+i*1448, 1448)
		w.until(w.now + 20000)
	}
	w.until(w.now + 50*ms)
	w.acks = nil
	w.r.Stats = link.ReceiverStats{}
	return w
}

// data receives one segment, at once.
func (w *world) data(seq uint32, n int32) { w.segment(link.Segment{Seq: seq, Len: n}) }

func (w *world) segment(s link.Segment) {
	w.r.Receive(w.now, &s)
	w.until(w.now)
}

// until runs what is due up to t.
func (w *world) until(t vtime.Time) {
	for w.r.Next() <= t {
		w.now = max(w.now, w.r.Next())
		w.r.Step(w.now)
		w.drain()
	}
	w.now = max(w.now, t)
	w.drain()
}

func (w *world) drain() {
	var a link.Ack
	for w.r.Pop(&a) {
		w.acks = append(w.acks, a)
	}
}

// want checks the acknowledgement numbers sent since the last check.
func (w *world) want(what string, acks ...uint32) {
	w.t.Helper()
	var got []uint32
	for i := range w.acks {
		got = append(got, w.acks[i].Ack)
	}
	if d := cmp.Diff(acks, got); d != "" {
		w.t.Errorf("%s: acknowledgements (-want +got):\n%s", what, d)
	}
	w.acks = nil
}

func TestEverySecondSegmentIsAcknowledged(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	for i := range uint32(6) {
		w.data(i*1448, 1448)
	}
	w.want("six segments", 2896, 5792, 8688)
}

func TestALargePacketHasItsOwn(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	w.segment(link.Segment{Seq: 0, Len: 2896, MSS: 1448})
	w.segment(link.Segment{Seq: 2896, Len: 5792, MSS: 1448})
	w.want("two GSO packets", 2896, 8688)
}

func TestALoneSegmentWaitsForTheTimer(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	start := w.now
	w.data(0, 1448)
	w.want("at once")
	w.until(start + 39*ms)
	w.want("before 40 ms")
	w.until(start + 41*ms)
	w.want("after 40 ms", 1448)
	if w.r.Stats.DelayedAck != 1 || w.r.Next() != vtime.Never {
		t.Errorf("%+v, next %d", w.r.Stats, w.r.Next())
	}
}

func TestTheEndOfAWriteIsAcknowledgedWhenRead(t *testing.T) {
	w := steady(t, link.ReceiverConfig{ReadDelay: 5 * time.Microsecond})
	w.segment(link.Segment{Seq: 0, Len: 600, PSH: true})
	w.want("before the read")
	w.until(w.now + 5000)
	w.want("after the read", 600)

	for _, c := range []struct {
		pushedMSS bool
		want      []uint32
	}{{false, nil}, {true, []uint32{1448}}} {
		w := steady(t, link.ReceiverConfig{Rules: link.AckRules{PushedMSS: c.pushedMSS}})
		w.segment(link.Segment{Seq: 0, Len: 1448, PSH: true})
		w.want(fmt.Sprint("full segment with PSH, rule ", c.pushedMSS), c.want...)
	}
}

func TestWindowGrowsAndIsAcknowledgedQuickly(t *testing.T) {
	w := newReceiver(t, link.ReceiverConfig{InitialWindow: 20000, WindowMax: 40000, WindowScale: 7})
	for i := range uint32(40) {
		w.data(i*1448, 1448)
	}
	// 7 segments bring the window to 40000, 6 more (20000/2896) are acknowledged
	// at once, then every second one.
	if n := len(w.acks); n != 7+6+13 {
		t.Errorf("%d acknowledgements of 40 segments", n)
	}
	for i, a := range w.acks {
		if a.Wnd%128 != 0 || (i > 7 && a.Wnd != 40064) {
			t.Errorf("acknowledgement %d offers %d bytes", i, a.Wnd)
		}
	}
}

func TestAGapIsReportedAtOnceAndThenPutOff(t *testing.T) {
	w := steady(t, link.ReceiverConfig{Rules: link.AckRules{CompressSACK: true}})
	for i := uint32(1); i <= 6; i++ {
		w.data(i*1448, 1448)
	}
	w.want("three duplicates, the rest put off", 0, 0, 0)
	w.until(w.now + 2*ms)
	if len(w.acks) != 1 || w.acks[0].NSacks != 1 || w.acks[0].Sacks[0] != (link.Range{Start: 1448, End: 7 * 1448}) {
		t.Errorf("after a millisecond: %+v", w.acks)
	}
	w.acks = nil
	w.data(0, 1448)
	w.want("the gap is filled", 7*1448)
	if w.r.Stats.Bytes != 7*1448 || w.r.Stats.OutOfOrder != 6 || w.r.Stats.Compressed != 3 {
		t.Errorf("%+v", w.r.Stats)
	}
}

func TestBlocksNameTheFreshestFirst(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	for _, seq := range []uint32{2000, 6000, 10000, 4000} {
		w.data(seq, 1000)
	}
	last := w.acks[len(w.acks)-1]
	want := [link.MaxSACK]link.Range{{4000, 5000}, {10000, 11000}, {6000, 7000}}
	if last.NSacks != 3 || last.Sacks != want {
		t.Errorf("%+v", last)
	}
	w.data(5000, 1000) // joins two runs
	if last = w.acks[len(w.acks)-1]; last.Sacks[0] != (link.Range{Start: 4000, End: 7000}) {
		t.Errorf("%+v", last)
	}
}

func TestADuplicateIsReported(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	w.data(0, 1448)
	w.data(1448, 1448)
	w.acks = nil
	w.data(0, 1448)
	if len(w.acks) != 1 || w.acks[0].Ack != 2896 || w.acks[0].NSacks != 1 ||
		w.acks[0].Sacks[0] != (link.Range{Start: 0, End: 1448}) || w.r.Stats.Duplicate != 1448 {
		t.Errorf("%+v %+v", w.acks, w.r.Stats)
	}
}

func TestFINIsAcknowledgedInOrder(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	w.segment(link.Segment{Seq: 1448, Len: 100, FIN: true})
	if w.r.Finished() {
		t.Error("finished with a gap")
	}
	w.acks = nil
	w.data(0, 1448)
	w.want("all came", 1549)
	if !w.r.Finished() || w.r.Stats.Bytes != 1548 || w.r.Expected() != 1549 {
		t.Errorf("finished %v, %+v", w.r.Finished(), w.r.Stats)
	}
}

func TestTimestampsEchoTheSegmentThatLetTheWindowAdvance(t *testing.T) {
	w := steady(t, link.ReceiverConfig{TSOffset: 1000})
	w.now = 77 * ms
	w.segment(link.Segment{Seq: 0, Len: 1448, TSVal: 50})
	w.segment(link.Segment{Seq: 1448, Len: 1448, TSVal: 60}) // a delayed ACK echoes the first
	if a := w.acks[0]; a.TSVal != 1077 || a.TSEcr != 50 {
		t.Errorf("%+v", a)
	}
}

func TestCongestionMarksAreEchoedUntilAnswered(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	w.segment(link.Segment{Seq: 0, Len: 2896, MSS: 1448, CE: true})
	w.segment(link.Segment{Seq: 2896, Len: 2896, MSS: 1448})
	w.segment(link.Segment{Seq: 5792, Len: 2896, MSS: 1448, CWR: true})
	if got := [3]bool{w.acks[0].ECE, w.acks[1].ECE, w.acks[2].ECE}; got != [3]bool{true, true, false} {
		t.Errorf("%v", got)
	}
}

func TestDataBeyondTheWindowIsDropped(t *testing.T) {
	w := steady(t, link.ReceiverConfig{})
	w.data(65160, 1448)
	if w.r.Stats.Overrun != 1 || w.r.Stats.OutOfOrder != 0 || len(w.acks) != 1 {
		t.Errorf("%+v", w.r.Stats)
	}
}

func TestPacketsThatComeDuringAReadWait(t *testing.T) {
	for _, c := range []struct {
		deferral bool
		want     []uint32
	}{
		{false, []uint32{2896, 5792, 8688, 11584, 14480}},
		{true, []uint32{2896, 14480}},
	} {
		w := steady(t, link.ReceiverConfig{Rules: link.AckRules{BacklogDefer: c.deferral}, ReadTime: 10 * time.Microsecond})
		start := w.now
		for i := range uint32(5) { // the first is read from now to 10 µs from now
			w.now = start + vtime.Time(i)*2000
			w.segment(link.Segment{Seq: i * 2896, Len: 2896, MSS: 1448})
		}
		if n := len(w.acks); n != 1 {
			t.Errorf("deferral %v: %d acknowledgements before the read ended", c.deferral, n)
		}
		w.until(start + 50000)
		w.want(fmt.Sprint("deferral ", c.deferral), c.want...)
		if w.r.Stats.Bytes != 5*2896 {
			t.Errorf("%+v", w.r.Stats)
		}
	}
}

func TestGRO(t *testing.T) {
	cfg := link.ReceiverConfig{GRO: link.GROConfig{Window: 10 * time.Microsecond}}
	w := steady(t, cfg)
	for i := range uint32(50) { // 45 fit: 45*1448+52 < 65536
		w.data(i*1448, 1448)
	}
	w.want("one full packet", 45*1448)
	w.until(w.now + 20000)
	w.want("the rest when the poll ends", 50*1448)

	seq := uint32(50 * 1448)
	w.data(seq, 1448)
	w.segment(link.Segment{Seq: seq + 1448, Len: 1448, PSH: true})
	w.want("PSH ends a packet", seq+2896)
	seq += 2896
	w.data(seq, 1448)
	w.data(seq+1448, 100)
	w.want("so does a short segment", seq+1548)
	seq += 1548
	w.data(seq, 1448)
	w.segment(link.Segment{Seq: seq + 1448, Len: 1448, TSVal: 1})
	w.segment(link.Segment{Seq: seq + 2896, Len: 1448, TSVal: 1, PSH: true})
	w.want("another timestamp begins a new one", seq+3*1448)
	if w.r.Stats.Segments != 57 || w.r.Stats.Packets != 6 {
		t.Errorf("%+v", w.r.Stats)
	}
}

// TestWhateverComesIsDeliveredOnce sends segments in any order, several times,
// until all came, and checks every acknowledgement against what was sent.
func TestWhateverComesIsDeliveredOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		iss := rapid.Uint32().Draw(rt, "iss") // also wraps
		cfg := link.ReceiverConfig{ISS: iss, WindowScale: 7, Rules: link.AckRules{CompressSACK: rapid.Bool().Draw(rt, "compress")}}
		cfg.Rules.BacklogDefer = rapid.Bool().Draw(rt, "defer")
		cfg.ReadTime = time.Duration(rapid.SampledFrom([]int{0, 0, 4000}).Draw(rt, "read time"))
		if rapid.Bool().Draw(rt, "gro") {
			cfg.GRO.Window = 3 * time.Microsecond
		}
		w := newReceiver(t, cfg)
		const total = 30
		came := make([]bool, total)
		send := func(i int) {
			n := rapid.IntRange(1, min(3, total-i)).Draw(rt, "segments")
			s := link.Segment{Seq: iss + uint32(i)*1000, Len: int32(n) * 1000}
			if n > 1 {
				s.MSS = 1000
			}
			for k := i; k < i+n; k++ {
				came[k] = true
			}
			s.FIN = i+n == total
			w.now += vtime.Time(rapid.IntRange(0, 5000).Draw(rt, "gap"))
			w.until(w.now)
			w.segment(s)
		}
		for range rapid.IntRange(0, 40).Draw(rt, "random") {
			send(rapid.IntRange(0, total-1).Draw(rt, "segment"))
		}
		for i := range total { // what is missing, or is there without its FIN
			if !came[i] || i == total-1 {
				send(i)
			}
		}
		w.until(w.now + 300*ms)
		checkAcks(rt, w.acks, iss, total*1000+1)
		if s := w.r.Stats; s.Bytes != total*1000 || !w.r.Finished() || w.r.Expected() != iss+total*1000+1 {
			rt.Fatalf("finished %v, %+v", w.r.Finished(), s)
		}
	})
}

// checkAcks: numbers and right edges never go back, blocks lie ahead of the
// number or tell of a duplicate, and none is empty.
func checkAcks(t *rapid.T, acks []link.Ack, iss, total uint32) {
	var number, edge uint32
	for i, a := range acks {
		if n := a.Ack - iss; n < number || n > total {
			t.Fatalf("acknowledgement %d: %d after %d", i, n, number)
		}
		number = a.Ack - iss
		if number+a.Wnd < edge {
			t.Fatalf("acknowledgement %d: right edge went back from %d to %d", i, edge, number+a.Wnd)
		}
		edge = number + a.Wnd
		for k, b := range a.Sacks[:a.NSacks] {
			start, end := b.Start-iss, b.End-iss
			if start >= end || end > total || (k > 0 && start < number) {
				t.Fatalf("acknowledgement %d of %d: block %d is [%d, %d)", i, number, k, start, end)
			}
		}
	}
	if number != total {
		t.Fatalf("the last acknowledgement is %d of %d", number, total)
	}
}

// flood delivers n packets in order and takes the acknowledgements.
func flood(r *link.Receiver, now vtime.Time, seq uint32, n int, size, mss int32) (vtime.Time, uint32) {
	var a link.Ack
	for range n {
		now += 2000
		s := link.Segment{Seq: seq, Len: size, MSS: mss}
		seq += uint32(size)
		r.Receive(now, &s)
		if r.Next() <= now {
			r.Step(now)
		}
		for r.Pop(&a) {
		}
	}
	return now, seq
}

func TestPacketsAllocateNothing(t *testing.T) {
	w := newReceiver(t, link.ReceiverConfig{})
	l := newLink(t, link.Config{RateBps: 10e9, QueuePackets: 100})
	now, seq := flood(w.r, 0, 0, 100, 1448, 0)
	if n := testing.AllocsPerRun(500, func() {
		l.Send(now, 1514)
		now, seq = flood(w.r, now, seq, 1, 1448, 0)
	}); n != 0 {
		t.Fatalf("%v allocations per packet", n)
	}
}

// BenchmarkSimReceiver is the cost of a packet at the receiver.
func BenchmarkSimReceiver(b *testing.B) {
	r, err := link.NewReceiver(link.ReceiverConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	flood(r, 0, 0, b.N, 1448, 0)
}

// BenchmarkSimLink is the cost of a packet on the wire.
func BenchmarkSimLink(b *testing.B) {
	l := newLink(b, link.Config{RateBps: 10e9, QueuePackets: 1000, Delay: time.Millisecond})
	b.ReportAllocs()
	now := vtime.Time(0)
	for b.Loop() {
		now += 1300
		l.Send(now, 1514)
	}
}
