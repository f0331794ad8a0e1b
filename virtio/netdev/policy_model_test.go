package netdev_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// modelPolicies are the policies that the model changes between.
var modelPolicies = []string{
	"none", "hold:time=100us", "hold:packets=3,time=50us", "thin-acks:time=100us", "hold:time=100us+thin-acks:time=70us",
	"coalesce-calls:packets=4,time=30us", "poll:time=100us,every=20us", "poll:time=50us", "delay-service:time=40us",
	"delay-service:packets=3,time=40us", "merge", "poll:time=200us,every=50us+merge+thin-acks:time=50us", "adaptive",
	"hold:time=20us+thin-acks:time=20us+coalesce-calls:time=10us+merge",
}

// longestHold is longer than any of them keeps anything.
const longestHold = 200 * time.Microsecond

// policyModel is a pair of queues whose policy changes, that is stopped, moved
// and polled late, and what has to come out of it.
type policyModel struct {
	*world
	rt    *rapid.T
	flows [modelFlows]modelFlow
	id    uint16 // of the last frame for the guest
	given map[uint16]modelACK
	order [modelFlows][]uint16 // frames for the guest, by flow

	seen int // of wire.tokens
	kept int // frames that the port keeps, the last of wire.tokens

	txBufs, rxBufs uint64 // twice the ring's buffers, used in turn
	txNext, rxNext uint64
}

// modelBuf is the length of a buffer.
const modelBuf = 2048

const modelFlows = 3

type modelFlow struct {
	seq   uint32 // next to send
	sent  []byte
	ack   uint32 // newest given
	got   int    // frames of order that have come, or been replaced
	inSeq uint32 // of the peer's data
}

type modelACK struct {
	flow  int
	plain bool
	ack   uint32
}

func newPolicyModel(t *testing.T, rt *rapid.T) *policyModel {
	kind := rapid.SampledFrom([]virtio.Features{0, virtio.FeatureRingPacked, virtio.FeatureInOrder, virtio.FeatureRingPacked | virtio.FeatureInOrder}).Draw(rt, "ring")
	m := &policyModel{world: newWorld(t, setup{size: 64, ring: kind, wire: &wire{delay: 2000}}), rt: rt, given: map[uint16]modelACK{}}
	for i := range m.flows {
		m.flows[i] = modelFlow{seq: 1000, ack: 1000, inSeq: 1}
	}
	m.txBufs, m.rxBufs = m.alloc(128*modelBuf), m.alloc(128*modelBuf)
	m.supply(60)
	return m
}

// supply offers n receive buffers.
func (m *policyModel) supply(n int) {
	q := m.rx[0]
	for range n {
		b := ring.Buf{Addr: m.rxBufs + m.rxNext%128*modelBuf, Len: modelBuf}
		m.rxNext++
		if err := q.Add(nil, []ring.Buf{b}, q.next); err != nil {
			m.rt.Fatal(err)
		}
		q.bufs[q.next] = b
		q.next++
	}
	q.Publish()
	m.dev.Pair(0).RX.Kick(m.now, 1)
}

// queue makes a frame available, and reports whether the driver has to kick.
func (m *policyModel) queue(f []byte) (kick bool) {
	at := m.txBufs + m.txNext%128*modelBuf
	m.txNext++
	copy(m.bytes(at, len(f)), f)
	q := m.tx[0]
	if err := q.Add([]ring.Buf{{Addr: at, Len: uint32(len(f))}}, nil, q.next); err != nil {
		m.rt.Fatal(err)
	}
	q.next++
	q.Publish()
	return q.NeedKick()
}

// send makes n segments of a flow available, as the ring has room, and kicks as
// the device asked for.
func (m *policyModel) send(flow, n, size int) {
	f := &m.flows[flow]
	for range n {
		if m.tx[0].Free() < 2 {
			return
		}
		s := fromGuest(flow, size)
		s.Seq, s.Partial = frame.Seq(f.seq), true
		h := virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: uint16(s.L4()), CSumOffset: frame.TCPCSumOffset}
		if m.queue(append(m.encode(h), build(s)...)) {
			m.kick(0)
		}
		f.seq += uint32(size)
		f.sent = append(f.sent, s.Payload...)
	}
}

// give delivers a frame to the guest and notes it.
func (m *policyModel) give(flow int, s frame.TCPSpec, plain bool) {
	m.id++
	s.ID = m.id
	if d := m.dev.Pair(0).RX.Deliver(m.now, &virtio.NetHdr{Flags: virtio.HdrDataValid}, build(s)); d != netdev.DropNone {
		m.rt.Fatalf("frame %d was dropped: %v", m.id, d)
	}
	m.given[m.id] = modelACK{flow, plain, uint32(s.Ack)}
	m.order[flow] = append(m.order[flow], m.id)
}

func (m *policyModel) ackOf(flow int) frame.TCPSpec {
	s := toGuest(flow, 0)
	s.Flags, s.Seq, s.Ack = frame.TCPAck, frame.Seq(m.flows[flow].inSeq), frame.Seq(m.flows[flow].ack)
	return s
}

// news delivers something that must not wait.
func (m *policyModel) news(flow, kind int) {
	f := &m.flows[flow]
	s := m.ackOf(flow)
	switch kind {
	case 0:
		s.Payload = []byte("answer")
		f.inSeq += uint32(len(s.Payload))
	case 1:
		s.SACK = []frame.SACKBlock{{Start: s.Ack + 1000, End: s.Ack + 2000}}
	case 2:
		s.Window = 0
	case 3:
		s.Flags |= frame.TCPEce
	case 4:
		s.Flags |= frame.TCPFin
	case 5: // a duplicate
	case 6:
		s.Ack -= 500
	}
	m.give(flow, s, false)
	if m.waits(flow) {
		m.rt.Fatalf("an ACK of flow %d waits although news (%d) came behind it", flow, kind)
	}
}

// waits reports whether the last frame of a flow is still kept.
func (m *policyModel) waits(flow int) bool {
	m.pollRX(0)
	m.receiveAll()
	return m.flows[flow].got < len(m.order[flow])
}

// receiveAll takes what the guest has got, and offers buffers again.
func (m *policyModel) receiveAll() {
	for _, r := range m.receive(0) {
		var in frame.Info
		if !frame.Parse(r.frame, &in) {
			m.rt.Fatal("the guest got a frame that cannot be parsed")
		}
		m.came(frame.IPv4(r.frame[in.L3:]).ID())
	}
	if n := m.rx[0].Free(); n > 30 {
		m.supply(n)
	}
}

// came checks that a frame comes in the order of its flow, and that what it
// passed over were ACKs that it replaces.
func (m *policyModel) came(id uint16) {
	a := m.given[id]
	f := &m.flows[a.flow]
	for ; f.got < len(m.order[a.flow]); f.got++ {
		next := m.order[a.flow][f.got]
		if next == id {
			f.got++
			return
		}
		if o := m.given[next]; !o.plain || !a.plain || !frame.Seq(o.ack).LessThanEq(frame.Seq(a.ack)) {
			m.rt.Fatalf("frame %d (%+v) came before %d (%+v)", id, a, next, o)
		}
	}
	m.rt.Fatalf("frame %d came twice, or after one that replaced it", id)
}

// turn polls both queues and re-enables kicks, as a composer does.
func (m *policyModel) turn() {
	m.pollTX(0, netdev.Budget{})
	if m.dev.Pair(0).TX.Rearm() {
		m.pollTX(0, netdev.Budget{})
	}
	m.pollRX(0)
	m.reap(m.tx[0])
	m.receiveAll()
}

func (m *policyModel) next() vtime.Time {
	p := m.dev.Pair(0)
	return min(p.TX.Next(m.now), p.RX.Next(m.now))
}

// check is the invariant: whatever is held, a deadline for it is near.
func (m *policyModel) check() {
	p := m.dev.Pair(0)
	m.countKept()
	if n := p.TX.InFlight(); n > 0 && m.kept == 0 && p.TX.Next(m.now).Sub(m.now) > longestHold {
		m.rt.Fatalf("%d chains are held by %v, and the deadline is %v", n, p.Policy(), p.TX.Next(m.now))
	}
	if n := p.RX.Held(); n > 0 && p.RX.Next(m.now).Sub(m.now) > longestHold {
		m.rt.Fatalf("%d ACKs are held by %v, and the deadline is %v", n, p.Policy(), p.RX.Next(m.now))
	}
}

// countKept notes what the port got while it keeps frames.
func (m *policyModel) countKept() {
	if m.wire.result == netdev.Later {
		m.kept += len(m.wire.tokens) - m.seen
	}
	m.seen = len(m.wire.tokens)
}

// complete gives back what the port keeps.
func (m *policyModel) complete() {
	m.countKept()
	for _, tok := range m.wire.tokens[len(m.wire.tokens)-m.kept:] {
		m.dev.Pair(0).TX.Complete(tok, m.now)
	}
	m.kept = 0
}

// port changes how the port answers from now on.
func (m *policyModel) port(r netdev.SendResult) {
	m.complete()
	m.wire.result = r
	if r != netdev.Full {
		m.dev.Pair(0).TX.Writable(m.now)
	}
}

// settle runs until nothing is due any more, and then nothing may be held.
func (m *policyModel) settle() {
	m.port(netdev.Sent)
	for i := 0; ; i++ {
		m.turn()
		at := m.next()
		if at == vtime.Never {
			break
		}
		if i > 10000 {
			m.rt.Fatalf("the queues of %v do not come to rest", m.dev.Pair(0).Policy())
		}
		m.now = max(m.now+1, at)
	}
	p := m.dev.Pair(0)
	if p.TX.InFlight() > 0 || p.RX.Held() > 0 || m.tx[0].Free() != 64 {
		m.rt.Fatalf("%d chains and %d ACKs are held for ever by %v; %d entries free", p.TX.InFlight(), p.RX.Held(), p.Policy(), m.tx[0].Free())
	}
	for i := range m.flows {
		if f := &m.flows[i]; f.got != len(m.order[i]) {
			m.rt.Fatalf("flow %d: the guest got %d of %d frames", i, f.got, len(m.order[i]))
		}
	}
	m.checkWire()
}

// checkWire compares what the wire has of each flow with what was sent.
func (m *policyModel) checkWire() {
	var have [modelFlows][]byte
	for i, f := range m.wire.frames {
		var in frame.Info
		frame.Parse(f, &in)
		ip := frame.IPv4(f[in.L3:in.L4])
		if int(ip.TotalLen()) != len(f)-in.L3 || frame.Sum(ip, 0) != 0xffff {
			m.rt.Fatalf("IP header of frame %d is wrong", i)
		}
		if want := frame.PseudoSum(ip.Src(), ip.Dst(), frame.ProtoTCP, uint32(len(f)-in.L4)); frame.TCP(f[in.L4:]).CSum() != want {
			m.rt.Fatalf("checksum of frame %d is %#x, want the pseudo-header's %#x", i, frame.TCP(f[in.L4:]).CSum(), want)
		}
		if h := m.wire.hdrs[i]; h.GSOSize > 1448 || (h.GSOSize == 0) != (h.GSOType == virtio.GSONone) || h.GSOSize == 0 && len(f)-in.Payload > 1448 {
			m.rt.Fatalf("frame %d of %d payload bytes has GSO size %d", i, len(f)-in.Payload, h.GSOSize)
		}
		flow := int(in.SrcPort) - 40000
		if at := int(in.Seq) - 1000; at != len(have[flow]) {
			m.rt.Fatalf("frame %d of flow %d is at %d, want %d", i, flow, at, len(have[flow]))
		}
		have[flow] = append(have[flow], f[in.Payload:]...)
	}
	for i := range m.flows {
		if !bytes.Equal(have[i], m.flows[i].sent) {
			m.rt.Fatalf("flow %d: %d bytes on the wire are not the %d that were sent", i, len(have[i]), len(m.flows[i].sent))
		}
	}
}

// TestPolicyModel drives a pair through changes of policy, stops, migrations and
// polls that come late, and holds it against the invariant that whatever is held
// has a deadline, and that nothing is lost, doubled or overtaken.
func TestPolicyModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newPolicyModel(t, rt)
		pair := m.dev.Pair(0)
		flow := rapid.IntRange(0, modelFlows-1)
		rt.Repeat(map[string]func(*rapid.T){
			"policy": func(rt *rapid.T) {
				p, err := netdev.ParsePolicy(rapid.SampledFrom(modelPolicies).Draw(rt, "policy"))
				if err == nil {
					err = pair.SetPolicy(p)
				}
				if err != nil {
					rt.Fatal(err)
				}
			},
			"send": func(rt *rapid.T) {
				m.send(flow.Draw(rt, "flow"), rapid.IntRange(1, 12).Draw(rt, "segments"), rapid.IntRange(1, 1448).Draw(rt, "size"))
			},
			"bulk": func(rt *rapid.T) { // long enough for the adaptive policy to begin
				f := flow.Draw(rt, "flow")
				for range 300 {
					m.send(f, 2, 1448)
					m.flows[f].ack = m.flows[f].seq
					m.now += 4000
					m.turn()
					m.give(f, m.ackOf(f), true)
					m.check()
				}
			},
			"ack": func(rt *rapid.T) {
				i := flow.Draw(rt, "flow")
				for range rapid.IntRange(1, 12).Draw(rt, "acks") {
					m.flows[i].ack += 100
					m.give(i, m.ackOf(i), true)
				}
			},
			"news":     func(rt *rapid.T) { m.news(flow.Draw(rt, "flow"), rapid.IntRange(0, 6).Draw(rt, "kind")) },
			"time":     func(rt *rapid.T) { m.now += vtime.Time(rapid.IntRange(100, 400000).Draw(rt, "ns")) },
			"turn":     func(rt *rapid.T) { m.turn() },
			"timer":    func(rt *rapid.T) { m.now = max(m.now, min(m.next(), m.now+1e6)); m.turn() },
			"port":     func(rt *rapid.T) { m.port(netdev.SendResult(rapid.IntRange(0, 2).Draw(rt, "answer"))) },
			"complete": func(rt *rapid.T) { m.complete() },
			"migrate tx": func(rt *rapid.T) {
				m.complete()
				q, call := pair.DetachTX(m.now)
				if call.Needed {
					pair.CallResult(m.now, netdev.DirTX, nil)
				}
				m.tx[0].cfg.Base = q.Base()
				pair.AttachTX(m.now, m.device(m.tx[0]))
			},
			"migrate rx": func(rt *rapid.T) {
				q, _ := pair.DetachRX(m.now)
				if pair.RX.Held() != 0 {
					rt.Fatal("a queue that stopped holds ACKs")
				}
				m.receiveAll()
				m.rx[0].cfg.Base = q.Base()
				pair.AttachRX(m.now, m.device(m.rx[0]))
			},
			"": func(rt *rapid.T) { m.check() },
		})
		m.settle()
	})
}
