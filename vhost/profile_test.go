package vhost_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
)

// variants are the feature sets that each front-end's guest is tried with.
var variants = []struct {
	name string
	f    virtio.Features
}{
	{"all", ^virtio.Features(0)},
	{"no EVENT_IDX", ^virtio.FeatureEventIdx},
	{"no INDIRECT_DESC", ^virtio.FeatureIndirectDesc},
	{"no MRG_RXBUF", ^virtio.FeatureMrgRxBuf},
	{"VERSION_1 only", virtio.FeatureVersion1 | virtio.FeatureRingPacked | virtio.FeatureInOrder | virtio.FeatureMQ | virtio.FeatureCtrlVQ},
}

// TestFrontends passes traffic both ways on every queue pair under each front-end's
// habits, each kind of ring and each set of features; then the guest stops and
// starts again, and at last another front-end of the same kind connects. The
// result is a table.
func TestFrontends(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "%-16s  %-16s  %-16s  %s\n", "front-end", "ring", "features", "result")
	for _, p := range frontend.Profiles() {
		kinds := ringKinds()
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			if kinds[kind].Has(virtio.FeatureRingPacked) && !p.PacksRings || kinds[kind].Has(virtio.FeatureInOrder) && !p.Features.Has(virtio.FeatureInOrder) {
				continue
			}
			for _, v := range variants {
				t.Run(p.Name+"/"+kind+"/"+v.name, func(t *testing.T) {
					result := "failed"
					defer func() { fmt.Fprintf(&table, "%-16s  %-16s  %-16s  %s\n", p.Name, kind, v.name, result) }()
					result = tryFrontend(t, p, kinds[kind]&v.f)
				})
			}
		}
	}
	t.Logf("front-ends and this back-end:\n%s", table.String())
}

// tried is one front-end at work.
type tried struct {
	*world
	p        *frontend.Profile
	want     virtio.Features
	pairs    int
	g        *frontend.Guest
	front    *frontend.Front
	rings    []*frontend.Ring // of the pairs
	ctrl     *frontend.Ring   // nil without
	sent     []int64          // by pair, over all sessions
	received int
}

func tryFrontend(t *testing.T, p *frontend.Profile, want virtio.Features) string {
	f := &tried{world: newWorld(t, 2), p: p, want: want, pairs: 2, sent: make([]int64, 2)}
	if p.MaxPairs > 0 {
		f.pairs = p.MaxPairs
	}
	f.open()
	f.start(nil)
	f.traffic()
	what := "stop and start"
	if p.NeverStops {
		what = "no stop"
	} else {
		f.stopAndStart()
		f.traffic()
	}
	f.g.Close()
	f.eventually("the session ends", func() bool { return !f.srv.Stats().Connected })
	if n := f.lastStats().Refused; n != 0 {
		t.Errorf("%d messages refused: %s", n, f.lastStats().LastRefusal)
	}
	f.open()
	f.start(nil)
	f.traffic()
	return fmt.Sprintf("%d pairs, %s, connect again: %d frames sent, %d received", f.pairs, what, f.sent[0]+f.sent[1], f.received)
}

func (f *tried) open() {
	f.t.Helper()
	c, err := frontend.Dial(f.path)
	f.ok(err)
	f.g, err = frontend.NewGuestOn(c, 32<<20)
	f.ok(err)
	f.t.Cleanup(f.g.Close)
	sock, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	f.ok(err)
	f.t.Cleanup(func() { osio.CloseAll(sock[:]) })
	table, fds := f.g.Memory.Table()
	f.front = &frontend.Front{Profile: f.p, Want: f.want, Pairs: f.pairs, Regions: table.Regions, RegionFDs: fds, BackendFD: sock[1]}
	f.front.Open()
	f.ok(f.g.Play(f.front))
	f.checkAnswers()
	f.g.Features = f.front.Offer & f.want & f.p.Features
}

// checkAnswers looks at what was asked in the meantime.
func (f *tried) checkAnswers() {
	f.t.Helper()
	want := uint64(2)
	if f.p.CountsRings {
		want = 5
	}
	if n := f.front.QueueNum; n != 0 && n != want {
		f.t.Errorf("GET_QUEUE_NUM answered %d, want %d", n, want)
	}
	if c := f.front.Config; c != nil && !bytes.HasPrefix(c, []byte{0x52, 0x54, 0, 0x12, 0x34, 0x56}) {
		f.t.Errorf("GET_CONFIG answered % x", c)
	}
}

// start sets rings up, new ones without bases, and has the front-end start them.
func (f *tried) start(bases map[int]uint32) {
	f.t.Helper()
	if bases == nil {
		f.layRings()
	}
	f.front.Rings = nil
	all := f.rings
	if f.ctrl != nil {
		all = append(slices.Clone(all), f.ctrl)
	}
	for _, r := range all {
		base := r.Config.Base
		if bases != nil {
			base = bases[r.Index]
		}
		f.front.Rings = append(f.front.Rings, r.Info(base))
	}
	for i := range f.pairs {
		f.rings[2*i].Post()
	}
	f.front.Start()
	f.ok(f.g.Play(f.front))
	f.ok(f.g.Barrier())
	if f.front.Acked != f.g.Features {
		f.t.Errorf("acknowledged %v, want %v", f.front.Acked, f.g.Features)
	}
	for i := range f.pairs {
		f.rings[2*i].ForceKick()
	}
	f.usePairs()
}

func (f *tried) layRings() {
	f.t.Helper()
	for _, r := range f.g.Rings {
		r.Close()
	}
	clear(f.g.Rings)
	f.rings, f.ctrl = nil, nil
	for i := range 2 * f.pairs {
		f.rings = append(f.rings, f.lay(i))
	}
	if f.p.ControlQueue && f.g.Features.Has(virtio.FeatureCtrlVQ) {
		f.ctrl = f.lay(2 * f.pairs)
	}
}

func (f *tried) lay(i int) *frontend.Ring {
	f.t.Helper()
	r, err := f.g.AddRing(i, 128, 2048)
	f.ok(err)
	if f.p.Pipes {
		f.ok(r.UsePipes())
	}
	if f.p.SharedCall && len(f.rings) > 0 {
		f.ok(r.ShareCall(f.rings[0]))
	}
	return r
}

// usePairs tells the device by the control queue how many pairs there are.
func (f *tried) usePairs() {
	f.t.Helper()
	if f.ctrl == nil {
		return
	}
	f.ok(f.ctrl.Command([]byte{4, 0, byte(f.pairs), 0}))
	var ack byte
	f.eventually("the control queue answers", func() bool {
		token, n, ok := f.ctrl.Done()
		if ok {
			ack = f.ctrl.Buffer(token)[4]
			if n != 1 {
				f.t.Errorf("used length %d, want 1", n)
			}
		}
		return ok
	})
	if ack != 0 {
		f.t.Errorf("VQ_PAIRS_SET is answered by %d", ack)
	}
}

// traffic sends and receives on every pair.
func (f *tried) traffic() {
	f.t.Helper()
	for i := range f.pairs {
		f.send(f.rings[2*i+1], 300)
		f.sent[i] += 300
		if got := f.ports[i].frames.Load(); got != f.sent[i] {
			f.t.Errorf("port %d got %d frames, want %d", i, got, f.sent[i])
		}
		for k := range 12 {
			want := frameOf(60+100*k, byte(k))
			f.ports[i].deliver(want)
			got := f.receive(f.rings[2*i])
			hdr := len(got) - len(want)
			if hdr < virtio.LegacyNetHdrLen || !bytes.Equal(got[hdr:], want) {
				f.t.Fatalf("pair %d: frame %d of %d bytes is received as %d", i, k, len(want), len(got))
			}
			f.received++
			f.rings[2*i].Post()
			f.rings[2*i].Notify()
		}
	}
}

// stopAndStart stops the device, with frames still to be received, and starts it
// again from where it was, or with new rings.
func (f *tried) stopAndStart() {
	f.t.Helper()
	f.front.Bases = nil
	f.front.Stop()
	f.ok(f.g.Play(f.front))
	f.ok(f.g.Barrier())
	bases := f.front.Bases
	fresh := f.p.FreshRings || bases == nil || f.g.Features.Has(virtio.FeatureRingPacked) && f.p.Name == "virtio-user"
	if !fresh {
		f.checkBases(bases)
	}
	time.Sleep(time.Millisecond)
	if fresh {
		bases = nil
	}
	f.start(bases)
}

// checkBases compares the answers with what the rings have seen.
func (f *tried) checkBases(bases map[int]uint32) {
	f.t.Helper()
	for _, r := range f.rings {
		if r.Config.Packed() {
			continue
		}
		if base, ok := bases[r.Index]; !ok || base != r.ResumeBase() {
			f.t.Errorf("ring %d: base %d, used index %d", r.Index, base, r.ResumeBase())
		}
	}
}
