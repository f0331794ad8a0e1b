package qdisc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"pgregory.net/rapid"
)

// The disciplines of the random tests, some with bounds that bite.
var randomSpecs = []string{
	"pfifo_fast:limit=5", "noqueue", "fq", "fq:limit=6,flow_limit=3,buckets=1,initial_quantum=3000",
	"fq:maxrate=50M,quantum=2000", "fq:horizon=2ms,horizon_cap,ce_threshold=100us", "fq_codel",
	"fq_codel:flows=2,target=100us,interval=1ms", "fq_codel:limit=5,drop_batch=2,noecn",
	"fq_codel:memory_limit=9000", "tbf:rate=80M,burst=4000,limit=12000", "tbf:rate=1G,burst=70000,limit=99999",
	"netem:delay=1ms,rate=100M,limit=5,drop=2;3;9", "netem:delay=700us", "netem:rate=33M", "netem",
}

// step is one input: time passes, a packet comes or some are asked for.
type step struct {
	wait  vtime.Time
	put   bool
	p     pkt
	ahead vtime.Time // of the packet's departure time
	lazy  bool       // nobody looks at the watchdog before this
}

func drawSteps(t *rapid.T) []step {
	us := rapid.IntRange(0, 900)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			wait: vtime.Time(us.Draw(t, "wait")) * 1000 * vtime.Time(rapid.SampledFrom([]int{0, 1, 1, 9}).Draw(t, "scale")),
			put:  rapid.IntRange(0, 4).Draw(t, "put") > 0,
			p: pkt{
				flow: rapid.IntRange(0, 4).Draw(t, "flow"), segs: rapid.SampledFrom([]int{1, 1, 2, 5}).Draw(t, "segs"),
				tos: uint8(rapid.IntRange(0, 3).Draw(t, "ecn")),
			},
			ahead: vtime.Time(us.Draw(t, "ahead")) * 4000,
			lazy:  rapid.Bool().Draw(t, "lazy"),
		}
	}), 1, 120).Draw(t, "steps")
}

// replay is a run of steps through a discipline.
type replay struct {
	d     qdisc.Disc
	pool  skb.Pool
	log   strings.Builder
	last  [5]vtime.Time // departure time of a flow's last packet
	seen  [5]int64      // number of the last packet of a flow that left
	delay time.Duration // that every packet takes at least
	fault string
}

func (r *replay) check(ok bool, format string, a ...any) {
	if !ok && r.fault == "" {
		r.fault = fmt.Sprintf(format, a...)
	}
}

// put gives the discipline a packet of TCP: departure times ascend within a flow.
func (r *replay) put(now vtime.Time, n int, s step) {
	p := s.p.make(&r.pool, uint32(n)<<16)
	p.Hash = uint32(s.p.flow) * 0x3fffffff
	p.Born = now
	p.Tstamp = max(now+s.ahead, r.last[s.p.flow])
	r.last[s.p.flow] = p.Tstamp
	before := r.d.Len()
	fate := r.d.Enqueue(now, p)
	r.check(fate != qdisc.Queued || r.d.Len() > before || r.d.Kind() == qdisc.FQCodel, "packet %d is not there", n)
	fmt.Fprintf(&r.log, "%d in %d %v\n", now, n, fate)
}

// take empties the discipline as far as it lets it.
func (r *replay) take(now vtime.Time) {
	for {
		p, ok := r.d.Dequeue(now)
		if !ok {
			break
		}
		n := int64(p.Seq) + 1
		r.check(n > r.seen[p.Flow], "%d left its flow after %d", p.Seq, r.seen[p.Flow]-1)
		r.check(r.d.Kind() != qdisc.FQ || p.Tstamp <= now, "%d left at %d, before %d", p.Seq, now, p.Tstamp)
		r.check(p.Born.Add(r.delay) <= now, "%d left at %d, delayed too little", p.Seq, now)
		r.seen[p.Flow] = n
		fmt.Fprintf(&r.log, "%d out %d %d\n", now, p.Seq, p.Len)
		p.Free()
	}
	next := r.d.Next()
	r.check(r.d.Len() == 0 || next > now && next != vtime.Never, "%d packets wait at %d, next is %d", r.d.Len(), now, next)
}

func (r *replay) run(spec qdisc.Spec, steps []step) {
	r.d, _ = qdisc.NewDisc(spec, nil, &r.pool)
	r.delay = spec.Delay
	now := vtime.Time(time.Second)
	for i, s := range steps {
		for at := r.d.Next(); !s.lazy && at <= now+s.wait; at = r.d.Next() {
			r.take(at)
		}
		now += s.wait
		if s.put {
			r.put(now, i, s)
		}
		r.take(now)
	}
	for at := r.d.Next(); at != vtime.Never; at = r.d.Next() {
		r.take(max(at, now))
	}
	c := r.d.Counts()
	r.check(c.In-c.Segmented+c.Segments == c.Queued+c.Refused+c.Lost, "not all came: %+v", c)
	r.check(c.Queued == c.Sent+c.Culled && r.d.Len() == 0 && r.d.Backlog() == 0, "not all left: %+v", c)
	r.check(r.pool.Live == 0, "%d buffers live: %+v", r.pool.Live, c)
	fmt.Fprintf(&r.log, "%+v\n", c)
}

// TestPacketsAreConserved: every packet is sent once or dropped and counted, the
// order within a flow stays, none leaves too early, none is forgotten; and the same
// steps do the same again.
func TestPacketsAreConserved(t *testing.T) {
	for _, text := range randomSpecs {
		for _, minor := range []int{1, 12} {
			spec := mustParse(t, text).For(6, minor)
			t.Run(fmt.Sprintf("%s/6.%d", text, minor), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					steps := drawSteps(t)
					var a, b replay
					a.run(spec, steps)
					b.run(spec, steps)
					if a.fault != "" {
						t.Fatalf("%s\n%s", a.fault, a.log.String())
					}
					if a.log.String() != b.log.String() {
						t.Fatal("the same steps did something else")
					}
				})
			})
		}
	}
}
