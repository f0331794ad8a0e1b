package frontend

import (
	"encoding/binary"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Ring is a guest's side of one ring: the driver, the notifications, and a
// buffer for each slot.
type Ring struct {
	*ring.Driver
	Index  int
	Config ring.Config
	Kick   int    // eventfd to the back-end
	Call   int    // eventfd from the back-end
	Err    int    // eventfd from the back-end
	Kicks  uint64 // kicks sent

	kickEnd int // the back-end's end of Kick, which of an eventfd is the same
	callEnd int // likewise of Call

	mem   *Memory
	bufs  uint64 // guest physical address of the first buffer
	bytes uint64 // of a buffer
	free  []uint32
	one   [1]ring.Buf
	buf   [8]byte
}

// NewRing lays a ring of size entries into memory, with a buffer of bufBytes
// for each, and makes its eventfds.
func NewRing(m *Memory, index int, size uint16, f virtio.Features, bufBytes uint64) (*Ring, error) {
	cfg := ring.Config{Size: size, Features: f, Base: ring.StartBase(f)}
	need := cfg.BytesNeeded()
	r := &Ring{Index: index, mem: m, bytes: bufBytes, Kick: -1, Call: -1, Err: -1}
	cfg.Desc, cfg.Avail, cfg.Used = m.Alloc(need.Desc, 4096), m.Alloc(need.Avail, 4096), m.Alloc(need.Used, 4096)
	cfg.IndirectBase = m.Alloc(ring.IndirectBytes(size, 0), 4096)
	r.Config = cfg
	r.bufs = m.Alloc(bufBytes*uint64(size), 4096)
	for i := range uint32(size) {
		r.free = append(r.free, i)
	}
	var err error
	if r.Driver, err = ring.NewDriver(m.Shared(), r.Config); err != nil {
		return nil, err
	}
	for _, fd := range []*int{&r.Kick, &r.Call, &r.Err} {
		if *fd, err = osio.Eventfd(0); err != nil {
			return nil, err
		}
	}
	r.kickEnd, r.callEnd = r.Kick, r.Call
	return r, nil
}

// Close closes the descriptors. A second call does nothing.
func (r *Ring) Close() {
	if r.kickEnd != r.Kick {
		osio.Close(r.kickEnd)
	}
	if r.callEnd != r.Call {
		osio.Close(r.callEnd)
	}
	osio.CloseAll([]int{r.Kick, r.Call, r.Err})
	r.Kick, r.Call, r.Err, r.kickEnd, r.callEnd = -1, -1, -1, -1, -1
}

// UsePipes puts pipes in the place of the eventfds for kicks and calls. It comes
// before the back-end is told of the ring.
func (r *Ring) UsePipes() error {
	kick, err := osio.Pipe()
	if err != nil {
		return err
	}
	call, err := osio.Pipe()
	if err != nil {
		osio.CloseAll(kick[:])
		return err
	}
	osio.CloseAll([]int{r.Kick, r.Call})
	r.kickEnd, r.Kick = kick[0], kick[1]
	r.Call, r.callEnd = call[0], call[1]
	return nil
}

// ShareCall makes the ring be called by the descriptor of another one.
func (r *Ring) ShareCall(with *Ring) error {
	fd, err := osio.Dup(with.Call)
	if err != nil {
		return err
	}
	osio.Close(r.Call)
	r.Call, r.callEnd = fd, fd
	return nil
}

// Info is what a Front has to know of the ring, which starts at base.
func (r *Ring) Info(base uint32) RingInfo {
	return RingInfo{Index: r.Index, Size: r.Config.Size, Base: base, Addr: r.Addr(),
		Kick: r.kickEnd, Call: r.callEnd, Err: r.Err}
}

// Command puts a command for the control queue into a buffer and makes it
// available, with a byte for the answer behind it, and kicks.
func (r *Ring) Command(b []byte) error {
	if len(r.free) == 0 {
		return ring.ErrFull
	}
	token := r.free[len(r.free)-1]
	n := copy(r.Buffer(token), b)
	out := r.slot(token, n)
	in := ring.Buf{Addr: out.Addr + uint64(n), Len: 1}
	if err := r.Add([]ring.Buf{out}, []ring.Buf{in}, token); err != nil {
		return err
	}
	r.free = r.free[:len(r.free)-1]
	r.Publish()
	r.Notify()
	return nil
}

// Addr is the ring's SET_VRING_ADDR.
func (r *Ring) Addr() wire.VringAddr {
	return wire.VringAddr{
		Index: uint32(r.Index), Desc: r.mem.UVA(r.Config.Desc),
		Avail: r.mem.UVA(r.Config.Avail), Used: r.mem.UVA(r.Config.Used),
	}
}

// ResumeBase is the base from which a front-end starts the ring again when its
// back-end has gone without a word, as QEMU does: a split ring's used index, and
// for a packed ring what a back-end with a record of chains in flight does not
// look at, the start.
func (r *Ring) ResumeBase() uint32 {
	if r.Config.Packed() {
		return r.Config.Base
	}
	return uint32(binary.LittleEndian.Uint16(r.mem.At(r.Config.Used+2, 2)))
}

// Buffer returns the memory of the buffer that a token names.
func (r *Ring) Buffer(token uint32) []byte {
	return r.mem.At(r.bufs+uint64(token)*r.bytes, r.bytes)
}

// BufferGPA returns the guest physical address of the buffer that a token names.
func (r *Ring) BufferGPA(token uint32) uint64 { return r.bufs + uint64(token)*r.bytes }

func (r *Ring) slot(token uint32, n int) ring.Buf {
	return ring.Buf{Addr: r.bufs + uint64(token)*r.bytes, Len: uint32(n)}
}

// Poke writes the 16-bit number v at a guest physical address, such as that of
// an index of the ring, as a guest may that does not keep the rules.
func (r *Ring) Poke(gpa uint64, v uint16) { binary.LittleEndian.PutUint16(r.mem.At(gpa, 2), v) }

// Transmit puts a frame behind a net header into a buffer and makes it
// available. It does not kick. It reports false if the ring is full.
func (r *Ring) Transmit(h *virtio.NetHdr, frame []byte) bool {
	if len(r.free) == 0 {
		return false
	}
	token := r.free[len(r.free)-1]
	b := r.Buffer(token)
	h.Encode(b[:virtio.NetHdrLen])
	n := virtio.NetHdrLen + copy(b[virtio.NetHdrLen:], frame)
	r.one[0] = r.slot(token, n)
	if r.Add(r.one[:], nil, token) != nil {
		return false
	}
	r.free = r.free[:len(r.free)-1]
	r.Publish()
	return true
}

// Again makes a buffer that was filled before available again as n bytes, as
// they are. It neither publishes nor kicks. It reports false if the ring is full.
func (r *Ring) Again(n int) bool {
	if len(r.free) == 0 {
		return false
	}
	token := r.free[len(r.free)-1]
	r.one[0] = r.slot(token, n)
	if r.Add(r.one[:], nil, token) != nil {
		return false
	}
	r.free = r.free[:len(r.free)-1]
	return true
}

// Post makes every free buffer available for receiving, and returns how many.
func (r *Ring) Post() (n int) {
	for len(r.free) > 0 {
		token := r.free[len(r.free)-1]
		r.one[0] = r.slot(token, int(r.bytes))
		if r.Add(nil, r.one[:], token) != nil {
			break
		}
		r.free = r.free[:len(r.free)-1]
		n++
	}
	r.Publish()
	return n
}

// Notify kicks the back-end if it wants that, and reports whether it did.
func (r *Ring) Notify() bool {
	if !r.NeedKick() {
		return false
	}
	r.ForceKick()
	return true
}

// ForceKick kicks the back-end whether it wants that or not.
func (r *Ring) ForceKick() {
	r.Kicks++
	_ = osio.WriteEvent(r.Kick)
}

// Done takes one used buffer back and returns its token and the bytes that
// were written to it. The buffer is free again.
func (r *Ring) Done() (token, n uint32, ok bool) {
	token, n, ok = r.Reap()
	if ok {
		r.free = append(r.free, token)
	}
	return token, n, ok
}

// WaitCall sleeps until the back-end calls, and returns the calls that came
// together; 0 after the timeout.
func (r *Ring) WaitCall(timeout time.Duration) uint64 {
	p := osio.NewPoller(1)
	p.Set(0, r.Call, osio.Readable)
	_ = p.Wait(timeout)
	n, _ := osio.ReadEvent(r.Call, &r.buf)
	return n
}

// Drain takes back want used buffers, sleeping for calls in between, and
// returns how many came before the timeout. It is what an interrupt handler
// does.
func (r *Ring) Drain(want int, timeout time.Duration) (got int) {
	clock := osio.NewClock()
	end := clock.Now().Add(timeout)
	for now := clock.Now(); now < end; now = clock.Now() {
		r.DisableCalls()
		for got < want {
			if _, _, ok := r.Done(); !ok {
				break
			}
			got++
		}
		if got == want {
			return got
		}
		if !r.EnableCalls() {
			r.WaitCall(vtime.Min(end, now.Add(50*time.Millisecond)).Sub(now))
		}
	}
	return got
}
