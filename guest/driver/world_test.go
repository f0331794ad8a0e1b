package driver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

const (
	base  = 0x10000
	arena = 64 * 32768
)

// counts is a meter that only counts.
type counts [vcpu.NumOps]int64

func (c *counts) Charge(op vcpu.Op, n int64) { c[op] += n }

// world is a driver and the device's ends of its rings, over one memory.
type world struct {
	t    testing.TB
	net  *driver.Net
	mem  *shm.Memory
	tx   *driver.TxQueue
	rx   *driver.RxQueue
	dtx  *ring.Device
	drx  *ring.Device
	ctl  *ring.Device
	pool skb.Pool
	ops  counts
	log  strings.Builder

	now   vtime.Time
	seq   uint32
	freed int      // packets whose owner was told
	taken []uint16 // heads the device has and did not complete
	chain ring.Chain
	got   [][]byte // of the last frame taken

	run     run
	rxBytes int
}

// Freed makes the world the owner of its packets.
func (w *world) Freed(*skb.SKB) { w.freed++ }

func newWorld(t testing.TB, cfg driver.Config) *world {
	cfg.ArenaBytes = arena
	need, err := driver.MemoryNeeded(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := shm.NewMemory([]shm.Region{{GPA: base, Mem: make([]byte, need)}})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, mem: mem}
	lay := driver.NewLayout(base, need)
	if w.net, err = driver.New(mem, lay, &w.ops, cfg); err != nil {
		t.Fatal(err)
	}
	if lay.Used() != base+need {
		t.Fatalf("used %#x, MemoryNeeded said %#x", lay.Used(), base+need)
	}
	w.tx, w.rx = w.net.TX(0), w.net.RX(0)
	w.dtx, w.drx = w.device(w.net.TxRing(0)), w.device(w.net.RxRing(0))
	if w.net.Ctrl() != nil {
		w.ctl = w.device(w.net.CtrlRing())
	}
	return w
}

func (w *world) device(cfg ring.Config) *ring.Device {
	d, err := ring.NewDevice(w.mem, cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// release is a configuration of a kernel.
func release(t testing.TB, name string) driver.Config {
	s, err := driver.Release(name)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Config{Switches: s}
}

// packet makes a packet of segs segments of 1448 bytes, owned by the world.
func (w *world) packet(segs int32) *skb.SKB {
	p := w.pool.Get()
	p.Owner = w
	p.Len, p.Segs, p.Seq, p.Flags = 1448*segs, segs, w.seq, skb.ACK
	if segs > 1 {
		p.GSOSize = 1448
	}
	spec := frame.TCPSpec{
		Src: frame.V4([4]byte{10, 0, 0, 1}), Dst: frame.V4([4]byte{10, 0, 0, 2}),
		SrcPort: 4000, DstPort: 5001, Seq: frame.Seq(p.Seq), Flags: p.Flags,
		Timestamps: true, Partial: true, Absent: int(p.Len),
	}
	p.HdrLen = int32(len(frame.AppendTCP(p.Hdr[:0], &spec)))
	p.NFrags = 0
	for left, off := p.Len, uint64(w.seq)%32768; left > 0; off = 0 {
		n := min(left, int32(32768-off))
		p.Frags[p.NFrags] = skb.Frag{Addr: off, Len: uint32(n)}
		p.NFrags++
		left -= n
	}
	w.seq += uint32(p.Len)
	return p
}

// xmit sends n packets through the driver while it takes them.
func (w *world) xmit(n int, segs int32, more bool) (sent, kicks, polls int) {
	for i := range n {
		if w.tx.Stopped() {
			break
		}
		v := w.tx.Xmit(w.now, w.packet(segs), more && i < n-1)
		if v.Busy {
			w.t.Fatal("the driver was busy without having stopped")
		}
		sent++
		if v.Kick {
			kicks++
		}
		if v.Poll {
			polls++
		}
	}
	return sent, kicks, polls
}

// take makes the device take up to n packets.
func (w *world) take(n int) (k int) {
	for ; k < n; k++ {
		ok, err := w.dtx.Next(&w.chain)
		if err != nil {
			w.t.Fatal(err)
		}
		if !ok {
			break
		}
		w.taken = append(w.taken, w.chain.Head)
		w.got = append(w.got[:0], w.chain.Out...)
	}
	return k
}

// complete gives up to n packets back, each with a used entry of its own and a
// look whether the driver wants a call.
func (w *world) complete(n int) (done, calls int) {
	for ; done < n && len(w.taken) > 0; done++ {
		w.dtx.Push(w.taken[0], 0)
		w.taken = append(w.taken[:0], w.taken[1:]...)
		w.dtx.Publish()
		if need, _ := w.dtx.NeedCall(); need {
			calls++
		}
	}
	return done, calls
}

// deliver writes a frame of n bytes, the net header included, into receive
// buffers, and reports whether the driver wants a call.
func (w *world) deliver(n int) (call bool) {
	type used struct {
		head uint16
		n    uint32
	}
	var bufs []used
	var hdr []byte
	for n > 0 {
		ok, err := w.drx.Next(&w.chain)
		if err != nil || !ok {
			w.t.Fatalf("no receive buffer: %v", err)
		}
		part := min(n, int(w.chain.InLen))
		if hdr == nil {
			hdr = w.chain.In[0][:virtio.NetHdrLen]
		}
		bufs = append(bufs, used{w.chain.Head, uint32(part)})
		n -= part
	}
	h := virtio.NetHdr{NumBuffers: uint16(len(bufs))}
	h.Encode(hdr)
	for _, b := range bufs {
		w.drx.Push(b.head, b.n)
	}
	w.drx.Publish()
	call, _ = w.drx.NeedCall()
	return call
}

// run is a number of frames of the same kind.
type run struct{ n, bytes, parts int }

// Receive makes the world a sink.
func (w *world) Receive(_ vtime.Time, f *driver.Frame) {
	if w.run.bytes != f.Len || w.run.parts != len(f.Parts) {
		w.flushRun()
		w.run = run{0, f.Len, len(f.Parts)}
	}
	w.run.n++
	w.rxBytes += f.Len
}

// flushRun logs the frames received since the last call.
func (w *world) flushRun() {
	if w.run.n > 0 {
		fmt.Fprintf(&w.log, "  %d frames of %d bytes in %d parts\n", w.run.n, w.run.bytes, w.run.parts)
	}
	w.run = run{}
}
