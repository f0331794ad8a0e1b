package frontend

import (
	"encoding/binary"
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// Front is the messages of a front-end of some kind, without I/O: it says what is
// to be sent next and takes what was answered. Its methods Open, Start and Stop
// line messages up, in the order and with the habits of its Profile; Next and
// Answer go through them. It is not safe for concurrent use.
type Front struct {
	Profile *Profile
	// Want is the features that the guest's driver takes, as far as the back-end
	// offers them and the front-end passes them on.
	Want virtio.Features
	// Pairs is the number of queue pairs that the guest uses.
	Pairs int
	// Regions are the guest's memory, and RegionFDs their descriptors.
	Regions   []wire.Region
	RegionFDs []int
	// Rings are those that the guest has set up, in ascending order of their
	// indices. The descriptors stay the caller's.
	Rings []RingInfo
	// BackendFD is the back-end's end of the channel for its own requests, -1
	// for none.
	BackendFD int

	Offer     virtio.Features       // of the back-end
	Acked     virtio.Features       // without the transport's bits
	Protocols wire.ProtocolFeatures // offered
	Protocol  wire.ProtocolFeatures // acknowledged
	QueueNum  uint64                // answer to GET_QUEUE_NUM
	Config    []byte                // answer to GET_CONFIG
	Bases     map[int]uint32        // answers to GET_VRING_BASE

	steps []step
	wait  func(wire.Payload) error
	sent  wire.Request
}

// RingInfo is what a back-end is told of a ring.
type RingInfo struct {
	Index           int
	Size            uint16
	Base            uint32
	Addr            wire.VringAddr
	Kick, Call, Err int
}

// Out is a message to send.
type Out struct {
	Message  wire.Message
	FDs      []int
	Answered bool // there will be an answer, for Answer
	Pad      int  // bytes of zeroes that this front-end sends behind the payload
}

// bytes is the message as it goes out.
func (o *Out) bytes() []byte {
	b := o.Message.Append(nil)
	if o.Pad > 0 {
		b = append(b, make([]byte, o.Pad)...)
		binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-wire.HeaderLen))
	}
	return b
}

// step makes the next message, when its turn has come.
type step func(f *Front) Out

// Open lines up what the front-end says when it has a back-end, up to where the
// guest's driver has decided on features.
func (f *Front) Open() { f.line(f.Profile.open(f)) }

// Start lines up what it says when the guest's driver is ready: features, memory
// and rings.
func (f *Front) Start() { f.line(f.Profile.start(f)) }

// RingsOnly lines up the rings' messages of Start alone, without features and
// memory, which the caller has sent, and returns f.
func (f *Front) RingsOnly() *Front {
	f.line(f.each(func(r *RingInfo) []step {
		return []step{r.num(), r.addr(), r.base(), r.call(), r.kick(), r.enable(true)}
	}))
	return f
}

// Stop lines up what it says when the guest resets the device or pauses. The
// rings' bases, where the front-end asks for them, are in Bases afterwards.
func (f *Front) Stop() { f.line(f.Profile.stop(f)) }

func (f *Front) line(steps []step) { f.steps = append(f.steps, steps...) }

// Next returns the next message, or false if there is none. If the last one was
// to be answered, Answer comes first.
func (f *Front) Next() (Out, bool) {
	if len(f.steps) == 0 {
		return Out{}, false
	}
	o := f.steps[0](f)
	f.steps = f.steps[1:]
	r := o.Message.Request
	f.sent = r
	switch {
	case r.HasOwnReply():
		o.Answered = true
	case f.Protocol.Has(wire.ProtocolReplyAck) && f.Profile.needsReply(r):
		o.Message.Flags |= wire.FlagNeedReply
		o.Answered = true
		f.wait = accepted
	}
	return o, true
}

// accepted takes an acknowledgement.
func accepted(p wire.Payload) error {
	if p != wire.U64(0) {
		return ErrRefused
	}
	return nil
}

// Answer takes the answer to the last message of Next.
func (f *Front) Answer(m wire.Message) error {
	if m.Request != f.sent || m.Flags != wire.FlagReply {
		return fmt.Errorf("answer to %v is %v with flags %#x", f.sent, m, m.Flags)
	}
	take := f.wait
	f.wait = nil
	if take == nil {
		return nil
	}
	if err := take(m.Payload); err != nil {
		return fmt.Errorf("%v: %w", m.Request, err)
	}
	return nil
}

// send is a message without an answer of its own.
func send(r wire.Request, p wire.Payload, fds ...int) step {
	return func(*Front) Out { return Out{Message: wire.Message{Request: r, Payload: p}, FDs: fds} }
}

// ask is a message whose answer is a number.
func ask(r wire.Request, take func(f *Front, n uint64)) step {
	return func(f *Front) Out {
		f.wait = func(p wire.Payload) error {
			n, ok := p.(wire.U64)
			if !ok {
				return fmt.Errorf("answer %v is no number", p)
			}
			take(f, uint64(n))
			return nil
		}
		return Out{Message: wire.Message{Request: r, Payload: wire.Empty{}}}
	}
}

// The messages of negotiation.

var (
	getFeatures  = ask(wire.GetFeatures, func(f *Front, n uint64) { f.Offer = virtio.Features(n) })
	getProtocol  = ask(wire.GetProtocolFeatures, func(f *Front, n uint64) { f.Protocols = wire.ProtocolFeatures(n) })
	getQueueNum  = ask(wire.GetQueueNum, func(f *Front, n uint64) { f.QueueNum = n })
	getSlots     = ask(wire.GetMaxMemSlots, func(*Front, uint64) {})
	getStatus    = ask(wire.GetStatus, func(*Front, uint64) {})
	setOwner     = send(wire.SetOwner, wire.Empty{})
	setProtocol  = step(func(f *Front) Out { return f.setProtocol() })
	setFeatures  = step(func(f *Front) Out { return f.setFeatures() })
	getAllConfig = step(func(f *Front) Out { return f.getConfig() })
)

func (f *Front) setProtocol() Out {
	f.Protocol = f.Protocols & f.Profile.Protocol
	return Out{Message: wire.Message{Request: wire.SetProtocolFeatures, Payload: wire.U64(f.Protocol)}}
}

func (f *Front) setFeatures() Out {
	f.Acked = f.Offer & f.Want & f.Profile.Features
	bits := f.Acked
	if f.Offer.Has(wire.FeatureProtocol) && !f.Profile.NoProtocolBit {
		bits |= wire.FeatureProtocol
	}
	return Out{Message: wire.Message{Request: wire.SetFeatures, Payload: wire.U64(bits)}}
}

func (f *Front) getConfig() Out {
	f.wait = func(p wire.Payload) error {
		c, ok := p.(wire.Config)
		if !ok || len(c.Data) == 0 {
			return ErrRefused
		}
		f.Config = c.Data
		return nil
	}
	return Out{Message: wire.Message{Request: wire.GetConfig, Payload: wire.Config{Data: make([]byte, 24)}}}
}

// setStatus is one with the bits.
func setStatus(bits uint64) step { return send(wire.SetStatus, wire.U64(bits)) }

// backendFD hands the channel for the back-end's requests over, if there is one.
func (f *Front) backendFD() []step {
	if f.BackendFD < 0 {
		return nil
	}
	return []step{send(wire.SetBackendReqFD, wire.Empty{}, f.BackendFD)}
}

// The messages of memory.

func (f *Front) memTable() []step {
	return []step{send(wire.SetMemTable, wire.MemTable{Regions: f.Regions}, f.RegionFDs...)}
}

func (f *Front) addRegions() (steps []step) {
	for i, r := range f.Regions {
		steps = append(steps, send(wire.AddMemReg, wire.MemRegion{Region: r}, f.RegionFDs[i]))
	}
	return steps
}

// The messages of a ring.

func (r *RingInfo) num() step {
	return send(wire.SetVringNum, wire.VringState{Index: uint32(r.Index), Num: uint32(r.Size)})
}

func (r *RingInfo) base() step { return r.baseOf(r.Base) }

func (r *RingInfo) baseOf(base uint32) step {
	return send(wire.SetVringBase, wire.VringState{Index: uint32(r.Index), Num: base})
}

func (r *RingInfo) addr() step { return send(wire.SetVringAddr, r.Addr) }
func (r *RingInfo) kick() step { return r.fd(wire.SetVringKick, r.Kick) }
func (r *RingInfo) call() step { return r.fd(wire.SetVringCall, r.Call) }
func (r *RingInfo) err() step  { return r.fd(wire.SetVringErr, r.Err) }

func (r *RingInfo) fd(m wire.Request, fd int) step {
	return send(m, wire.VringFD{Index: uint8(r.Index)}, fd)
}

func (r *RingInfo) enable(on bool) step { return enable(r.Index, on) }

func enable(i int, on bool) step {
	v := wire.VringState{Index: uint32(i)}
	if on {
		v.Num = 1
	}
	return send(wire.SetVringEnable, v)
}

// getBase stops the ring and keeps where it goes on.
func (r *RingInfo) getBase() step {
	i := r.Index
	return func(f *Front) Out {
		f.wait = func(p wire.Payload) error {
			v, ok := p.(wire.VringState)
			if !ok || int(v.Index) != i {
				return fmt.Errorf("answer %v is not ring %d's base", p, i)
			}
			if f.Bases == nil {
				f.Bases = make(map[int]uint32)
			}
			f.Bases[i] = v.Num
			return nil
		}
		return Out{Message: wire.Message{Request: wire.GetVringBase, Payload: wire.VringState{Index: uint32(i)}}}
	}
}
