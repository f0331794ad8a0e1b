package netdev_test

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// The fuzzed guest: three rings at fixed places, the rest of the memory free.
const (
	fuzzMem    = 1 << 14
	fuzzRing   = 8
	fuzzStep   = 256  // distance of the rings: TX, RX, control
	fuzzAvail  = 128  // offset of the available ring from the start of a ring
	fuzzTable  = 768  // indirect tables of the seeds' drivers
	fuzzDescs  = 3    // descriptors in each
	fuzzData   = 1920 // buffers of the seeds
	fuzzWrites = 3200 // buffers of the seeds that the device writes
	fuzzOps    = 200  // operations at most
)

func fuzzConfig(i int, features virtio.Features) ring.Config {
	at := uint64(i * fuzzStep)
	return ring.Config{
		Size: fuzzRing, Features: features, Desc: at, Avail: at + fuzzAvail, Used: at + fuzzAvail + 24,
		IndirectBase: fuzzTable + uint64(i)*ring.IndirectBytes(fuzzRing, fuzzDescs), IndirectEntries: fuzzDescs,
	}
}

// fuzzer is the device under a guest whose memory and acts are the input.
type fuzzer struct {
	t    testing.TB
	b    []byte // guest memory
	mem  *shm.Memory
	dev  *netdev.Device
	wire *wire
	now  vtime.Time
	in   []byte // what is left of the input
	acts int

	limited bool // the port takes no offloads
}

// fuzzLimited is a wire that takes no offloads.
type fuzzLimited struct{ *wire }

func (fuzzLimited) Offloads() virtio.Features { return 0 }

// byte and word take the next of the input, 0 at its end.
func (z *fuzzer) byte() byte {
	if len(z.in) == 0 {
		return 0
	}
	v := z.in[0]
	z.in = z.in[1:]
	return v
}

func (z *fuzzer) word() int { return int(z.byte())<<8 | int(z.byte()) }

// fuzzPolicies are what the fuzzer's devices may be told to do.
var fuzzPolicies = [16]netdev.Policy{
	{HoldTime: 100}, {HoldPackets: 1, HoldTime: 100}, {HoldPackets: 2, HoldTime: 100}, {HoldPackets: 15, HoldTime: 100},
	{ThinTime: 100}, {HoldTime: 50, ThinTime: 70}, {CallTime: 1000, CallPackets: 3}, {PollTime: 300, PollEvery: 50},
	{DelayTime: 100}, {DelayTime: 100, DelayPackets: 3}, {Merge: true}, {Merge: true, HoldTime: 50, ThinTime: 50},
	{PollTime: 300, PollEvery: 50, Merge: true, ThinTime: 100}, {Adaptive: true}, {Adaptive: true}, {Merge: true, DelayTime: 50},
}

// FuzzNetdev reads its input as: feature bits to leave out, a policy, the
// number of operations and the operations, and then guest memory, which is
// laid over (by exclusive or) that of a guest that behaves: so that a short
// input can do much. Nothing may panic, and each operation's work is bounded
// by the ring.
func FuzzNetdev(f *testing.F) {
	for _, s := range fuzzSeeds() {
		f.Add(s)
	}
	var guests [4][]byte
	for i := range guests {
		guests[i] = make([]byte, fuzzMem)
		fuzzGuest(f, guests[i], byte(i))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		z := newFuzzer(t, in, &guests)
		for len(z.in) > 0 && z.acts < fuzzOps {
			z.acts++
			z.act()
		}
		z.check()
	})
}

func newFuzzer(t testing.TB, in []byte, guests *[4][]byte) *fuzzer {
	z := &fuzzer{t: t, in: in, wire: &wire{}}
	off := virtio.Features(0)
	for i, f := range []virtio.Features{
		virtio.FeatureEventIdx, virtio.FeatureIndirectDesc, virtio.FeatureMrgRxBuf, virtio.FeatureVersion1,
		virtio.FeatureGuestCSum, virtio.FeatureGuestTSO4, virtio.FeatureMTU, virtio.FeatureCSum,
	} {
		if len(in) > 0 && in[0]>>i&1 != 0 {
			off |= f
		}
	}
	z.b = bytes.Clone(guests[z.byte()&3])
	cfg := netdev.Config{QueuePairs: 2, SpillBytes: 8192, FlowSlots: 256}
	p := z.byte()
	if p&1 != 0 {
		cfg.Policy = fuzzPolicies[p>>4]
	}
	z.limited = p&2 != 0
	if p&4 != 0 {
		cfg.Features = netdev.DefaultFeatures | virtio.FeatureHashReport | virtio.FeatureRSS
	}
	ops := int(z.byte())
	if ops < len(z.in) {
		over := z.in[ops:]
		subtle.XORBytes(z.b, z.b, over[:min(len(over), fuzzMem)])
		z.in = z.in[:ops]
	}
	var err error
	if z.mem, err = shm.NewMemory([]shm.Region{{Mem: z.b[:fuzzMem/2]}, {GPA: fuzzMem / 2, UVA: 1 << 40, Mem: z.b[fuzzMem/2:]}}); err != nil {
		t.Fatal(err)
	}
	if z.dev, err = netdev.New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := z.dev.SetFeatures(z.dev.Features() &^ off); err != nil {
		t.Fatal(err)
	}
	z.dev.Pair(0).SetPort(z.wire)
	if z.limited {
		z.wire.discard = true // it may be sent thousands of frames
		z.dev.Pair(0).SetPort(fuzzLimited{z.wire})
	}
	z.attach()
	return z
}

func (z *fuzzer) attach() {
	z.dev.Pair(0).AttachTX(z.now, z.ring(0))
	z.dev.Pair(0).AttachRX(z.now, z.ring(1))
	z.dev.Ctrl().Attach(z.now, z.ring(2))
}

func (z *fuzzer) ring(i int) *ring.Device {
	cfg := fuzzConfig(i, z.dev.Acked())
	cfg.BaseFromUsed = true
	d, err := ring.NewDevice(z.mem, cfg)
	if err != nil {
		z.t.Fatal(err)
	}
	return d
}

// act does the next operation.
func (z *fuzzer) act() {
	p := z.dev.Pair(0)
	switch z.byte() % 16 {
	case 0, 1:
		w, _, _ := p.TX.Poll(z.now, netdev.Budget{Packets: int(z.byte() % 8)})
		z.bounded(w, fuzzRing)
	case 2:
		w, _, _ := p.RX.Poll(z.now, netdev.Budget{})
		z.bounded(w, fuzzOps*1500)
	case 3:
		w, _, _, _ := z.dev.Ctrl().Poll(z.now, netdev.Budget{})
		z.bounded(w, fuzzRing)
	case 4, 5:
		h, f := z.frame()
		p.RX.Deliver(z.now, &h, f)
	case 6:
		z.reserve()
	case 7:
		p.RX.Commit(z.word(), &virtio.NetHdr{})
	case 8:
		z.complete()
	case 9:
		z.wire.room = 0
		p.TX.Writable(z.now)
	case 10:
		z.wire.room = z.wire.sent + int(z.byte()%4) + 1
		z.wire.result = netdev.SendResult(z.byte() % 3)
		z.wire.delay = vtime.Time(z.byte())
	case 11:
		z.now += vtime.Time(z.byte())
	case 12:
		z.b[z.word()%fuzzMem] ^= z.byte()
	case 13: // more becomes available
		at := z.b[int(z.byte()%3)*fuzzStep+fuzzAvail+2:]
		binary.LittleEndian.PutUint16(at, binary.LittleEndian.Uint16(at)+uint16(z.byte()%10))
	case 14:
		p.Kick(z.now, netdev.Dir(z.byte()%2), uint64(z.byte()))
		p.TX.Rearm()
		p.RX.Rearm()
		z.dev.Ctrl().Rearm()
	case 15:
		z.restart()
	}
}

// frame makes a header and a frame for the guest out of the input.
func (z *fuzzer) frame() (virtio.NetHdr, []byte) {
	s := toGuest(int(z.byte()), z.word()%5000)
	s.Partial = z.byte()&1 != 0
	h := virtio.NetHdr{
		Flags: z.byte(), GSOType: z.byte(), GSOSize: uint16(z.word() % 3000),
		CSumStart: uint16(s.L4()), CSumOffset: uint16(z.byte()),
	}
	return h, build(s)
}

func (z *fuzzer) reserve() {
	h, f := z.frame()
	iov, ok := z.dev.Pair(0).RX.Reserve(len(f))
	if !ok {
		return
	}
	fill(z.t, iov, f, len(f))
	if z.byte()&1 != 0 {
		z.dev.Pair(0).RX.Abort()
		return
	}
	z.dev.Pair(0).RX.Commit(len(f), &h)
}

func (z *fuzzer) complete() {
	if n := len(z.wire.tokens); n > 0 {
		z.dev.Pair(0).TX.Complete(z.wire.tokens[int(z.byte())%n], z.now)
	}
}

// restart stops and starts the rings in one of several ways.
func (z *fuzzer) restart() {
	p := z.dev.Pair(0)
	switch z.byte() % 4 {
	case 0:
		p.DetachTX(z.now)
		p.DetachRX(z.now)
		z.dev.Ctrl().Detach(z.now)
	case 1:
		acked := z.dev.Acked()
		z.dev.Reset()
		if err := z.dev.SetFeatures(acked); err != nil {
			z.t.Fatal(err)
		}
	case 2:
		if err := p.SetMemory(z.mem); err != nil {
			z.t.Fatal(err)
		}
		return
	case 3:
		v := z.byte()
		p.SetEnabled(v&1 != 0, v&2 != 0)
		return
	}
	z.attach()
}

// bounded fails if one operation did more than the rings can account for.
func (z *fuzzer) bounded(w netdev.Work, packets int) {
	if w.Packets+w.Dropped > packets {
		z.t.Fatalf("one poll did %+v", w)
	}
}

// check holds the counters against each other.
func (z *fuzzer) check() {
	tx, rx := z.dev.Pair(0).TX.Snapshot(), z.dev.Pair(0).RX.Snapshot()
	if !z.limited && tx.Packets-tx.Joined != uint64(z.wire.sent) || z.limited && tx.Cut > uint64(z.wire.sent) {
		z.t.Errorf("counted %d packets, the wire took %d", tx.Packets, z.wire.sent)
	}
	for _, s := range []netdev.Stats{tx, rx} {
		if s.Kicks != s.Wakes+s.KicksCoalesced || s.DataPackets > s.Packets || s.GSOSegs > s.Segs || s.GSOSize.Sum != s.PayloadBytes {
			z.t.Errorf("counters contradict each other: %+v", s)
		}
	}
}

// fuzzSeeds are scripts of operations that a guest that behaves goes through.
func fuzzSeeds() (seeds [][]byte) {
	ops := []byte{
		14, 1, 1, 0, 0, 2, 3, 4, 9, 1, 44, 0, 0, 0, 0, 0, 0, 2,
		10, 3, 2, 20, 13, 0, 1, 0, 3, 8, 0, 0, 0, 11, 200, 1, 0,
		5, 1, 15, 160, 1, 1, 1, 5, 180, 16, 2, 13, 1, 4, 2,
		6, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 15, 3, 1, 0, 1, 15, 2, 15, 0, 0, 0, 15, 1, 0, 2,
	}
	for _, off := range []byte{0, 1, 2, 4, 7, 8 + 4, 16 + 32, 255} {
		for _, policy := range []byte{0, 1, 0x31, 2, 4, 7} {
			seed := append([]byte{off, policy, byte(len(ops))}, ops...)
			seeds = append(seeds, seed)
			for _, at := range []int{0, 5, 8, 12, 14, fuzzAvail + 2, fuzzAvail + 4, fuzzStep + 8, 2*fuzzStep + 12} {
				over := make([]byte, at+1)
				over[at] = 0x05 // a byte of a descriptor or of an index is wrong
				seeds = append(seeds, append(seed[:len(seed):len(seed)], over...))
			}
		}
	}
	return seeds
}

// fuzzGuest writes the rings of a guest into b.
func fuzzGuest(f *testing.F, b []byte, off byte) {
	features := netdev.DefaultFeatures
	if off&2 != 0 {
		features &^= virtio.FeatureIndirectDesc
	}
	if off&1 != 0 {
		features &^= virtio.FeatureEventIdx
	}
	mem, err := shm.NewMemory([]shm.Region{{Mem: b}})
	if err != nil {
		f.Fatal(err)
	}
	top, writes := uint64(fuzzData), uint64(fuzzWrites)
	put := func(p []byte) ring.Buf {
		copy(b[top:], p)
		top += uint64(len(p))
		return ring.Buf{Addr: top - uint64(len(p)), Len: uint32(len(p))}
	}
	room := func(n uint32) ring.Buf {
		writes += uint64(n)
		return ring.Buf{Addr: writes - uint64(n), Len: n}
	}
	d := drivers(f, mem, features)
	h, frame := gso(fromGuest(0, 600), 200)
	must := func(err error) {
		if err != nil {
			f.Fatal(err)
		}
	}
	must(d[0].Add([]ring.Buf{put(append(w12(h), frame[:66]...)), put(frame[66:])}, nil, 0))
	must(d[0].Add([]ring.Buf{put(append(w12(virtio.NetHdr{}), build(fromGuest(1, 100))...))}, nil, 1))
	for i := range uint32(6) {
		must(d[1].Add(nil, []ring.Buf{room(1526)}, i))
	}
	must(d[2].Add([]ring.Buf{put([]byte{4, 0, 2, 0})}, []ring.Buf{room(1)}, 0))
	must(d[2].Add([]ring.Buf{put(append([]byte{5, 0}, make([]byte, 8)...))}, []ring.Buf{room(1)}, 1))
	must(d[2].Add([]ring.Buf{put(cat([]byte{8, 1}, statsOf(0, 1)))}, []ring.Buf{room(57)}, 2))
	must(d[2].Add([]ring.Buf{put(coal([]byte{6, 0}, 3, 1))}, []ring.Buf{room(1)}, 3))
	for _, q := range d {
		q.Publish()
	}
}

func drivers(f *testing.F, mem *shm.Memory, features virtio.Features) (d [3]*ring.Driver) {
	for i := range d {
		var err error
		if d[i], err = ring.NewDriver(mem, fuzzConfig(i, features)); err != nil {
			f.Fatal(err)
		}
	}
	return d
}
