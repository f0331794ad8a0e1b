// Package vhost is the vhost-user back-end of the net device. Its core, Session,
// is the protocol's state machine without sockets, clock, goroutine or lock:
// messages go in, actions come out. Server is what carries the actions out in
// real time: it listens, maps guest memory, and runs one Worker thread per queue
// pair between eventfds, the device (virtio/netdev) and a Port.
//
// The protocol is that of QEMU's docs/interop/vhost-user.rst. Messages are
// accepted in any order: a ring starts as soon as its parts (features, memory,
// size, addresses, kick descriptor) are complete, wherever the last of them came
// from. Nothing that a front-end sends panics.
package vhost

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// basicOffer is the protocol features of a composer that does no more than
// move packets.
const basicOffer = wire.ProtocolMQ | wire.ProtocolReplyAck | wire.ProtocolBackendReq |
	wire.ProtocolConfig | wire.ProtocolResetDevice | wire.ProtocolConfigureMemSlots |
	wire.ProtocolStatus

// ProtocolOffer is the protocol features that a Session and Server implement.
//
// PostcopyOffer is ProtocolOffer for post-copy migration, where the kernel lets
// this process use userfaultfd. It excludes memory slots, in which a front-end
// would have to be told addresses in another way.
const (
	ProtocolOffer = basicOffer | wire.ProtocolLogSHMFD | wire.ProtocolRARP | wire.ProtocolMTU |
		wire.ProtocolInflightSHMFD | wire.ProtocolDeviceState |
		wire.ProtocolVringBaseInflight | wire.ProtocolVringBaseSkipDrain
	PostcopyOffer = ProtocolOffer&^wire.ProtocolConfigureMemSlots | wire.ProtocolPagefault
)

// InbandOffer is for front-ends whose kicks and calls are messages: User Mode Linux
// in virtual time. Kicks come as KickRing, calls go to the socket of SetBackendFD.
// It has nothing of migration, so that a composer of its own needs no more than
// that. It is never the default: QEMU acknowledges the bit, which it does not
// know.
const InbandOffer = basicOffer | wire.ProtocolInband

// MaxMemSlots is what GET_MAX_MEM_SLOTS answers: how many memory regions a
// session takes. Front-ends expect it never to shrink.
const MaxMemSlots = 509

// inboxMax is how many messages wait behind a pending action.
const inboxMax = 64

// QueueNumMode says what GET_QUEUE_NUM counts, on which front-ends differ.
type QueueNumMode uint8

// The meanings of GET_QUEUE_NUM.
const (
	// QueueNumAuto counts queue pairs, as QEMU and DPDK read it, or every
	// ring, the control queue included, if the front-end acknowledged CONFIG,
	// as crosvm and cloud-hypervisor do.
	QueueNumAuto QueueNumMode = iota
	// QueueNumPairs always counts pairs.
	QueueNumPairs
	// QueueNumRings always counts rings.
	QueueNumRings
)

// SessionConfig describes the device to a session.
type SessionConfig struct {
	// QueuePairs is the number of pairs, from 1.
	QueuePairs int
	// Features is the device's offer. The session adds the transport's bit.
	Features virtio.Features
	// Protocol is the offer of protocol features, a subset of ProtocolOffer and
	// InbandOffer together; 0 is ProtocolOffer.
	Protocol wire.ProtocolFeatures
	// QueueNum says what GET_QUEUE_NUM counts.
	QueueNum QueueNumMode
	// ResumeFromUsed starts every ring at the used index found in memory
	// instead of the base that the front-end sends: for front-ends that restart
	// from the available index and so skip what was in flight.
	ResumeFromUsed bool
	// ConfigSpace returns the device's configuration space.
	ConfigSpace func() []byte
}

// Session is the state of one connection with a front-end. It is not safe for
// concurrent use.
type Session struct {
	cfg     SessionConfig
	offer   virtio.Features // with the transport's bits
	rings   []ringState
	memory  []region
	removed []wire.Region // by REM_MEM_REG, the last ones
	lastID  RegionID

	acked    virtio.Features // without the transport's bits
	have     bool            // SET_FEATURES has come
	applied  bool            // acked is what the device has
	protocol wire.ProtocolFeatures
	status   uint8
	broken   bool          // a ring is: the device needs a reset
	tlb      []wire.IOTLB  // translations, oldest first
	view     []Translation // what they come to
	asking   []wanted      // what was asked for and not answered, or not so
	logging  bool          // LOG_ALL is acknowledged
	logged   bool          // there is a dirty log
	inflight inflight
	postcopy postcopy
	loading  bool // the last transfer of state was one to us
	loaded   bool // the state is that of another device

	inbox []input
	out   []Action
	token Token
	wait  func(Result) // continuation of the pending action
	ended bool
	stats SessionStats
}

// SessionStats are counters of one session.
type SessionStats struct {
	Messages       uint64 `json:"messages"`        // requests received
	Refused        uint64 `json:"refused"`         // requests refused, for whatever reason
	Ignored        uint64 `json:"ignored"`         // unknown requests that nobody waits for
	RingStarts     uint64 `json:"ring_starts"`     // rings started, restarts included
	RingStops      uint64 `json:"ring_stops"`      // rings stopped
	RingsUnmapped  uint64 `json:"rings_unmapped"`  // starts refused because the ring is outside guest memory
	StartsDisabled uint64 `json:"starts_disabled"` // rings that were disabled when they started
	MemoryChanges  uint64 `json:"memory_changes"`  // memory tables that took effect
	RingsBroken    uint64 `json:"rings_broken"`    // rings that the guest broke

	TranslationMisses uint64 `json:"translation_misses"` // addresses for which the front-end was asked for a translation
	// TranslationDenials are answers that do not allow what was asked for: to read
	// or to write.
	TranslationDenials uint64 `json:"translation_denials"`
	LastRefusal        string `json:"last_refusal"` // the reason of the last refusal, empty if none
}

// input is a message that waits to be handled.
type input struct {
	m   wire.Message
	fds []int
	err error // what Decode said
}

// NewSession returns a session in its initial state.
func NewSession(cfg SessionConfig) *Session {
	if cfg.Protocol == 0 {
		cfg.Protocol = ProtocolOffer
	}
	s := &Session{cfg: cfg, offer: cfg.Features | wire.FeatureProtocol}
	if cfg.Features.Has(virtio.FeatureAccessPlatform) {
		// The dirty log is by the guest's physical addresses, which a device
		// behind an IOMMU does not get to know.
		s.cfg.Protocol &^= wire.ProtocolLogSHMFD
	}
	if s.cfg.Protocol.Has(wire.ProtocolLogSHMFD) {
		s.offer |= wire.FeatureLogAll
	}
	n := 2 * cfg.QueuePairs
	if cfg.Features.Has(virtio.FeatureCtrlVQ) {
		n++
	}
	s.rings = make([]ringState, n)
	return s
}

// Stats returns a copy of the counters.
func (s *Session) Stats() SessionStats { return s.stats }

// Acked returns the virtio features that the front-end acknowledged, and
// Protocol the protocol features.
func (s *Session) Acked() virtio.Features { return s.acked }

// Protocol returns the protocol features that the front-end acknowledged.
func (s *Session) Protocol() wire.ProtocolFeatures { return s.protocol }

// Handle takes a message from the main channel with the descriptors that came
// along, which it owns from here on, and the error of its decoding, if any; m
// then has at least its request and flags. It returns what is to be done.
func (s *Session) Handle(m wire.Message, fds []int, err error) []Action {
	if s.ended {
		return []Action{CloseFDs{FDs: fds}}
	}
	if len(s.inbox) == inboxMax {
		s.inbox = append(s.inbox, input{m: m, fds: fds})
		s.end(ErrFlood)
		return s.drain()
	}
	s.inbox = append(s.inbox, input{m: m, fds: fds, err: err})
	return s.run()
}

// Done takes the result of the pending action t and returns what is to be done
// next. It panics if t is not pending, which is a mistake of the caller's.
func (s *Session) Done(t Token, r Result) []Action {
	if s.ended {
		return nil
	}
	if s.wait == nil || t != s.token {
		panic(fmt.Sprintf("vhost: token %d is not pending", t))
	}
	then := s.wait
	s.wait = nil
	then(r)
	return s.run()
}

// RingBroken notes that the guest broke a ring that runs. The device asks for a
// reset from here on.
func (s *Session) RingBroken(ring int) []Action {
	s.stats.RingsBroken++
	s.broken = true
	return s.ConfigChanged()
}

// ConfigChanged notes that the configuration space changed by itself.
func (s *Session) ConfigChanged() []Action {
	if s.ended || !s.protocol.Has(wire.ProtocolConfig|wire.ProtocolBackendReq) {
		return nil
	}
	return []Action{NotifyConfig{}}
}

// run handles messages until one is pending or none is left.
func (s *Session) run() []Action {
	for s.wait == nil && !s.ended && len(s.inbox) > 0 {
		in := s.inbox[0]
		s.inbox = s.inbox[1:]
		s.dispatch(in)
	}
	return s.drain()
}

// drain returns the actions so far.
func (s *Session) drain() []Action {
	out := s.out
	s.out = nil
	return out
}

// dispatch validates what holds for every message and calls its handler.
func (s *Session) dispatch(in input) {
	s.stats.Messages++
	m := in.m
	if m.IsReply() {
		s.close(in.fds)
		s.end(fmt.Errorf("%v: %w", m.Request, ErrUnexpectedReply))
		return
	}
	if in.err != nil {
		s.close(in.fds)
		s.malformed(m, in.err)
		return
	}
	if least, most := m.FDs(); len(in.fds) < least || len(in.fds) > most {
		s.close(in.fds)
		s.refuse(m, fmt.Errorf("%w: %d, want %d to %d", ErrDescriptors, len(in.fds), least, most))
		return
	}
	s.handler(m.Request)(s, m, in.fds)
}

// emit appends an action.
func (s *Session) emit(a Action) { s.out = append(s.out, a) }

// pend returns a fresh token and makes the session wait for it: then is called
// with the result.
func (s *Session) pend(then func(Result)) Token {
	s.token++
	s.wait = then
	return s.token
}

// close closes descriptors.
func (s *Session) close(fds []int) {
	if len(fds) > 0 {
		s.emit(CloseFDs{FDs: fds})
	}
}

// reply answers m with a payload of its own.
func (s *Session) reply(m wire.Message, p wire.Payload) {
	s.emit(Reply{Message: m.Reply(p)})
}

// wantsAck reports whether m is to be answered by a number.
func (s *Session) wantsAck(m wire.Message) bool {
	return m.NeedReply() && !m.Request.HasOwnReply() && s.protocol.Has(wire.ProtocolReplyAck)
}

// ack says that m was done, if anybody wants to know.
func (s *Session) ack(m wire.Message) {
	if s.wantsAck(m) {
		s.reply(m, wire.U64(0))
	}
}

// acknowledge handles a message that changes nothing: there is nothing to own
// here, and RESET_OWNER is ambiguous to the point that its own specification
// advises to ignore it.
func (s *Session) acknowledge(m wire.Message, _ []int) { s.ack(m) }

// refuse says that m was not done. If the front-end does not want to know, it
// would go on with a wrong idea of our state, so the session ends.
func (s *Session) refuse(m wire.Message, err error) {
	if !s.note(m, err) {
		s.end(fmt.Errorf("%v: %w", m.Request, err))
	}
}

// note says that m was not done, but only to a front-end that asked; it
// reports whether it did.
func (s *Session) note(m wire.Message, err error) bool {
	s.stats.Refused++
	s.stats.LastRefusal = fmt.Sprintf("%v: %v", m.Request, err)
	if !s.wantsAck(m) {
		return false
	}
	s.reply(m, wire.U64(1))
	return true
}

// end ends the session, and closes what waits in the inbox.
func (s *Session) end(reason error) {
	for _, in := range s.inbox {
		s.close(in.fds)
	}
	s.inbox, s.wait, s.ended = nil, nil, true
	s.emit(End{Reason: reason})
}

// malformed refuses a message that could not be decoded. GET_CONFIG has a form
// for that in its own reply.
func (s *Session) malformed(m wire.Message, err error) {
	if m.Request == wire.GetConfig && errors.Is(err, wire.ErrConfigRange) {
		s.note(m, err)
		s.reply(m, wire.Config{})
		return
	}
	s.refuse(m, err)
}

// unsupported refuses a request that was not negotiated. Those that have a
// reply of their own get the one that says so; an unknown one that nobody
// waits for is ignored, since later protocols may have it.
func (s *Session) unsupported(m wire.Message, fds []int) {
	s.close(fds)
	switch {
	case m.Request == wire.GetInflightFD:
		s.note(m, ErrUnsupported)
		s.reply(m, wire.Inflight{})
	case m.Request == wire.SetDeviceStateFD:
		s.note(m, ErrUnsupported)
		s.reply(m, stateFailed)
	case m.Request == wire.GetShmemConfig:
		s.reply(m, wire.Raw{})
	case m.Request == wire.GetVringBaseSkipDrain:
		s.refuse(m, ErrUnsupported)
	case m.Request.HasOwnReply():
		s.note(m, ErrUnsupported)
		s.reply(m, wire.U64(1))
	case !m.Request.Known():
		if !s.note(m, ErrUnsupported) {
			s.stats.Ignored++
		}
	default:
		s.refuse(m, ErrUnsupported)
	}
}
