package qdisc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// egress is a router's: a discipline that is emptied whenever it can be.
type egress struct {
	d    qdisc.Disc
	pool skb.Pool
	seq  uint32
	left []string // "time:seq" of what left
	fate []qdisc.Fate
}

func newEgress(t testing.TB, spec qdisc.Spec) *egress {
	t.Helper()
	e := new(egress)
	d, err := qdisc.NewDisc(spec, nil, &e.pool)
	if err != nil {
		t.Fatal(err)
	}
	e.d = d
	return e
}

func mustParse(t testing.TB, text string) qdisc.Spec {
	t.Helper()
	s, err := qdisc.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pkt describes a packet: payload, segments of 1448 bytes, flow, hash, TOS and
// departure time. The headers have 66 bytes.
type pkt struct {
	len, segs, flow int
	hash            uint32
	tos             byte
	ts              vtime.Time
}

func (e *egress) packet(a pkt) *skb.SKB {
	e.seq++
	return a.make(&e.pool, e.seq-1)
}

func (a pkt) make(pool *skb.Pool, seq uint32) *skb.SKB {
	p := pool.Get()
	p.Segs = int32(max(a.segs, 1))
	if p.Len = int32(a.len); a.len == 0 {
		p.Len = 1448 * p.Segs
	}
	if a.segs > 1 {
		p.GSOSize = 1448
	}
	p.HdrLen = 66
	p.Hdr[12], p.Hdr[13], p.Hdr[14], p.Hdr[15] = 8, 0, 0x45, a.tos
	p.NFrags, p.Frags[0] = 1, skb.Frag{Len: uint32(p.Len)}
	p.Flow, p.Hash, p.Tstamp, p.Seq = int32(a.flow), a.hash, a.ts, seq
	p.TrueSize = p.Len + 768
	return p
}

// put gives the discipline a packet at now, and lets go what may.
func (e *egress) put(now vtime.Time, a pkt) {
	e.run(now)
	e.fate = append(e.fate, e.d.Enqueue(now, e.packet(a)))
	e.drain(now)
}

func (e *egress) drain(now vtime.Time) {
	for p, ok := e.d.Dequeue(now); ok; p, ok = e.d.Dequeue(now) {
		e.left = append(e.left, fmt.Sprintf("%d:%d", now, p.Seq))
		p.Free()
	}
}

// run lets the watchdog fire until end.
func (e *egress) run(end vtime.Time) {
	for at := e.d.Next(); at <= end; at = e.d.Next() {
		e.drain(at)
	}
}

func (e *egress) want(t *testing.T, left ...string) {
	t.Helper()
	e.run(vtime.Never - 1)
	if d := cmp.Diff(left, e.left); d != "" {
		t.Errorf("departures (-want +got):\n%s", d)
	}
	if e.pool.Live != 0 || e.d.Len() != 0 || e.d.Backlog() != 0 {
		t.Errorf("%d buffers live, %d packets and %d bytes wait", e.pool.Live, e.d.Len(), e.d.Backlog())
	}
}

// TestNetemDelaysAndCharges has departures computed by hand. At 100 Mbit/s a byte
// takes 80 ns: a full segment of 1514 bytes 121,120 ns, ten of them in one packet
// ten times that, a bare acknowledgement 5,280 ns.
func TestNetemDelaysAndCharges(t *testing.T) {
	e := newEgress(t, mustParse(t, "netem:delay=5ms,rate=100M"))
	e.put(1_000, pkt{})             // 1000 + 5 ms + 121120
	e.put(1_000, pkt{})             // behind it
	e.put(2_000_000, pkt{segs: 10}) // behind both: they are due after 5 ms, before 7 ms: 7000000 + 1211200
	e.put(9_000_000, pkt{})         // the line is forgotten: 14000000 + 121120
	e.want(t, "5122120:0", "5243240:1", "8211200:2", "14121120:3")

	e = newEgress(t, mustParse(t, "netem:rate=100M"))
	e.put(0, pkt{})
	e.put(100_000, pkt{}) // due at 242240
	e.put(121_120, pkt{}) // the first has just left
	e.want(t, "121120:0", "242240:1", "363360:2")

	e = newEgress(t, mustParse(t, "netem:delay=1ms"))
	e.put(0, pkt{segs: 45})
	e.put(0, pkt{})
	e.put(10, pkt{})
	e.want(t, "1000000:0", "1000000:1", "1000010:2")
}

func TestNetemLimitAndListedDrops(t *testing.T) {
	e := newEgress(t, mustParse(t, "netem:delay=1ms,limit=2,drop=5;1"))
	for range 4 {
		e.put(0, pkt{segs: 3})
	}
	e.put(2_000_000, pkt{}) // the fifth
	e.put(2_000_000, pkt{})
	e.want(t, "1000000:1", "1000000:2", "3000000:5")
	fates := []qdisc.Fate{qdisc.Lost, qdisc.Queued, qdisc.Queued, qdisc.Refused, qdisc.Lost, qdisc.Queued}
	if d := cmp.Diff(fates, e.fate); d != "" {
		t.Errorf("fates (-want +got):\n%s", d)
	}
}

// TestNetemRelievesTheOwner: the sender's charge ends when the packet is queued,
// if there is a delay or a rate.
func TestNetemRelievesTheOwner(t *testing.T) {
	for text, want := range map[string]int{"netem:delay=1ms": 1, "netem:rate=1G": 1, "netem": 0} {
		e, own := newEgress(t, mustParse(t, text)), new(owner)
		p := e.packet(pkt{})
		p.Owner = own
		e.d.Enqueue(0, p)
		if own.calls != want {
			t.Errorf("%s: relieved %d times, want %d", text, own.calls, want)
		}
	}
}

// TestTBFSpends has departures computed by hand: 200 Mbit/s, so 40 ns a byte, and
// a bucket of 71,680 bytes, 2,867,200 ns. A packet of 45 segments is 68,130 bytes
// with their headers, 2,725,200 ns.
func TestTBFSpends(t *testing.T) {
	e := newEgress(t, mustParse(t, "tbf:rate=200M,burst=71680,limit=20971520"))
	for range 3 {
		e.put(0, pkt{segs: 45}) // 142000 are left after the first
	}
	e.put(20_000_000, pkt{segs: 45})  // the bucket is full again, not more
	e.put(20_000_000, pkt{len: 1448}) // 60560 of 142000
	e.put(20_000_000, pkt{len: 1448}) // 60560 of 81440
	e.put(20_000_000, pkt{len: 1448}) // 60560, and 20880 are there
	e.want(t, "0:0", "2583200:1", "5308400:2", "20000000:3", "20000000:4", "20000000:5", "20039680:6")
	if c := e.d.Counts(); c.Overlimit != 4 { // packet 1 is looked at when packet 2 comes, too
		t.Errorf("%d times over the limit, want 4", c.Overlimit)
	}
}

// TestTBFCutsWhatIsLongerThanTheBurst: 3 segments of 1514 bytes do not fit into a
// bucket of 3028 bytes; two do at once, the third after 1514 bytes' time. A packet
// that is one segment of more than that is dropped.
func TestTBFCutsWhatIsLongerThanTheBurst(t *testing.T) {
	e := newEgress(t, mustParse(t, "tbf:rate=8M,burst=3028,limit=6056"))
	e.put(0, pkt{segs: 3})   // three segments of seq 0, 1448, 2896
	e.put(0, pkt{len: 3000}) // 3066 bytes
	e.put(0, pkt{segs: 4})   // 1514 bytes wait: three segments find room
	e.put(0, pkt{len: 1000}) // none
	const ms = 1_514_000
	for i := 1; i <= 5; i++ {
		e.run(vtime.Time(i) * ms)
	}
	e.want(t, "0:0", "0:1448", "1514000:2896", "3028000:2", "4542000:1450", "6056000:2898")
	c := e.d.Counts()
	if c.Segmented != 2 || c.Segments != 7 || c.Queued != 6 || c.Refused != 3 {
		t.Errorf("%+v", c)
	}
	// A segment that does not fit either leaves nothing to cut for.
	e = newEgress(t, mustParse(t, "tbf:rate=8M,burst=1513,limit=6056"))
	e.put(0, pkt{segs: 3})
	if e.fate[0] != qdisc.Refused || e.d.Counts().Segmented != 0 {
		t.Errorf("%v, %+v", e.fate, e.d.Counts())
	}
}

// TestTBFRate compares the time of a packet with the exact quotient: it is never
// more, and less by no more than the multiplier's 31 bits and one nanosecond.
func TestTBFRate(t *testing.T) {
	for _, bps := range []int64{8, 1000, 56_000, 1_000_000, 97_000_000, 200_000_000, 1_000_000_000, 123_456_789_000} {
		e := newEgress(t, qdisc.Spec{Kind: qdisc.TBF, RateBps: bps, Burst: 1514, Limit: 1 << 20})
		e.put(0, pkt{})
		e.put(0, pkt{})
		e.run(vtime.Never - 1)
		var at, seq int64
		fmt.Sscanf(e.left[1], "%d:%d", &at, &seq)
		exact := float64(1514) * float64(time.Second) / float64(bps/8)
		if lost := exact - float64(at); lost < -1e-3 || lost > 1+exact/(1<<30) {
			t.Errorf("%d bit/s: %d ns, exactly %.3f", bps, at, exact)
		}
	}
}

// TestPFIFOFastRings: since 4.16 every band has the limit for itself, and a full
// ring has room again only when 16 packets, or its last, were taken.
func TestPFIFOFastRings(t *testing.T) {
	spec := qdisc.Spec{Limit: 40}.For(6, 1)
	e := newEgress(t, spec)
	enqueue := func(tos byte) qdisc.Fate { return e.d.Enqueue(0, e.packet(pkt{tos: tos})) }
	for range 40 {
		enqueue(0)
	}
	if enqueue(0) != qdisc.Refused || enqueue(0x10) != qdisc.Queued {
		t.Fatal("the limit is not one band's")
	}
	took := func(n int) {
		for range n {
			p, _ := e.d.Dequeue(0)
			p.Free()
		}
	}
	took(1) // of the urgent band
	var free []int
	for i := range 40 {
		took(1)
		n := 0
		for enqueue(0) == qdisc.Queued {
			n++
		}
		if n > 0 {
			free = append(free, i+1, n)
		}
	}
	if d := cmp.Diff([]int{16, 16, 32, 16, 40, 8}, free); d != "" {
		t.Errorf("packets taken and room (-want +got):\n%s", d)
	}
}

// TestNoQueuePassesAtOnce: a packet leaves when it comes.
func TestNoQueuePassesAtOnce(t *testing.T) {
	e := newEgress(t, mustParse(t, "noqueue"))
	e.put(5, pkt{segs: 3})
	e.put(7, pkt{})
	e.want(t, "5:0", "7:1")
	if !e.d.Bypass() || e.d.Next() != vtime.Never {
		t.Error("a device without a queue waits")
	}
}
