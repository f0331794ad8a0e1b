package vhost_test

import (
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// model is an executor that checks what a session may ask of it: every
// descriptor is disposed of once, rings are stopped and started in turn, and
// nothing under a running ring changes.
type model struct {
	t       *testing.T
	s       *vhost.Session
	chance  func() byte // what comes of a pending action
	open    map[int]bool
	running map[int]bool
	mapped  map[vhost.RegionID]bool
	memory  int
	ended   bool
}

func newModel(t *testing.T, chance func() byte) *model {
	features := netdev.DefaultFeatures
	if chance()%4 == 3 {
		features |= virtio.FeatureAccessPlatform
	}
	return &model{
		t: t, chance: chance, open: map[int]bool{}, running: map[int]bool{}, mapped: map[vhost.RegionID]bool{},
		s: vhost.NewSession(vhost.SessionConfig{QueuePairs: 3, Features: features, ConfigSpace: func() []byte { return nil }}),
	}
}

func (m *model) dispose(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 && !m.open[fd] {
			m.t.Fatalf("descriptor %d is disposed of twice", fd)
		}
		delete(m.open, fd)
	}
}

func (m *model) idle(what string) {
	if len(m.running) > 0 {
		m.t.Fatalf("%s while rings %v run", what, m.running)
	}
}

// perform carries actions out until none is left.
func (m *model) perform(actions []vhost.Action) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		if m.ended {
			if _, ok := a.(vhost.CloseFDs); !ok {
				m.t.Fatalf("%T after the end", a)
			}
		}
		token := m.do(a)
		if token == 0 {
			continue
		}
		if len(actions) > 0 {
			m.t.Fatalf("%T is pending, and %T follows", a, actions[0])
		}
		actions = m.s.Done(token, m.result(a))
	}
}

// result is what came of a pending action, by chance.
func (m *model) result(a vhost.Action) vhost.Result {
	if _, ok := a.(vhost.StopRing); ok {
		return vhost.Result{Base: uint32(m.chance())}
	}
	if m.chance()%8 == 7 {
		return vhost.Result{Err: errors.New("bad luck")}
	}
	switch a := a.(type) {
	case vhost.StartRing:
		m.running[a.Ring] = true
	case vhost.MapRegions:
		for _, id := range a.IDs {
			m.mapped[id] = true
		}
	case vhost.MakeInflight:
		m.open[madeFD] = true
		return vhost.Result{FD: madeFD}
	}
	return vhost.Result{}
}

// madeFD is the descriptor of a record that the executor makes.
const madeFD = 1 << 30

// do checks an action and returns its token.
func (m *model) do(a vhost.Action) vhost.Token {
	switch a := a.(type) {
	case vhost.CloseFDs:
		m.dispose(a.FDs...)
	case vhost.MapRegions:
		m.dispose(a.FDs...)
		if len(a.FDs) != len(a.Regions) || len(a.IDs) != len(a.Regions) {
			m.t.Fatalf("%d regions, %d descriptors, %d IDs", len(a.Regions), len(a.FDs), len(a.IDs))
		}
		return a.Token
	case vhost.SetMemory:
		m.idle("memory changes")
		m.setMemory(a)
	case vhost.SetFeatures:
		m.idle("features change")
		return a.Token
	case vhost.ResetDevice:
		m.idle("reset")
	case vhost.StartRing:
		m.start(a)
		return a.Token
	case vhost.StopRing:
		if !m.running[a.Ring] {
			m.t.Fatalf("ring %d is stopped and does not run", a.Ring)
		}
		delete(m.running, a.Ring)
		return a.Token
	case vhost.EnableRing:
		if !m.running[a.Ring] {
			m.t.Fatalf("ring %d is enabled and does not run", a.Ring)
		}
	case vhost.SetFD:
		m.dispose(a.FD)
		return a.Token
	case vhost.SetBackendFD:
		m.dispose(a.FD)
		return a.Token
	case vhost.Reply:
		m.dispose(a.FDs...)
	case vhost.End:
		m.ended = true
	default:
		return m.doShared(a)
	}
	return 0
}

// doShared checks the actions of migration, translation and shared memory.
func (m *model) doShared(a vhost.Action) vhost.Token {
	switch a := a.(type) {
	case vhost.MapLog:
		m.dispose(a.FD)
		return a.Token
	case vhost.LogRing:
		if !m.running[a.Ring] {
			m.t.Fatalf("ring %d is logged and does not run", a.Ring)
		}
	case vhost.SetLogFD:
		m.dispose(a.FD)
		return a.Token
	case vhost.MakeInflight:
		if a.Size == 0 || a.Size > 1<<30 {
			m.t.Fatalf("a record of %d bytes", a.Size)
		}
		return a.Token
	case vhost.MapInflight:
		m.idle("the record changes")
		m.dispose(a.FD)
		return a.Token
	case vhost.TransferState:
		m.idle("state is transferred")
		m.dispose(a.FD)
		return a.Token
	case vhost.CheckState:
		return a.Token
	case vhost.SetMTU:
		return a.Token
	case vhost.SetMAC:
		return a.Token
	case vhost.SetTranslations:
		m.translate(a)
	case vhost.NotifyConfig, vhost.KickRing, vhost.SendRARP, vhost.AskTranslation:
	default:
		m.t.Fatalf("unknown action %T", a)
	}
	return 0
}

// translate checks that translations are parts of mapped regions, in order.
func (m *model) translate(a vhost.SetTranslations) {
	end := uint64(0)
	for i, t := range a.List {
		if !m.mapped[t.Region] || t.Size == 0 || t.Offset+t.Size > 0x40000 || i > 0 && t.IOVA < end {
			m.t.Fatalf("translation %+v after %#x", t, end)
		}
		end = t.IOVA + t.Size
	}
}

func (m *model) setMemory(a vhost.SetMemory) {
	keep := map[vhost.RegionID]bool{}
	for _, id := range a.IDs {
		if !m.mapped[id] || keep[id] {
			m.t.Fatalf("region %d is not mapped, or twice in memory", id)
		}
		keep[id] = true
	}
	m.mapped, m.memory = keep, len(keep)
}

func (m *model) start(a vhost.StartRing) {
	if m.running[a.Ring] || m.memory == 0 {
		m.t.Fatalf("ring %d starts: running %v, %d regions", a.Ring, m.running[a.Ring], m.memory)
	}
	if a.Role.Pair < 0 || a.Role.Pair >= 3 || a.Config.Size == 0 {
		m.t.Fatalf("ring %d starts as %+v, size %d", a.Ring, a.Role, a.Config.Size)
	}
}

// script makes messages of bytes: small numbers, so that they often fit
// together.
type script struct{ b []byte }

func (s *script) next() byte {
	if len(s.b) == 0 {
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

// scripted are the requests that the fuzzer composes, weighted by repetition.
var scripted = []wire.Request{
	wire.SetFeatures, wire.SetMemTable, wire.SetMemTable, wire.SetVringNum, wire.SetVringAddr, wire.SetVringAddr,
	wire.SetVringBase, wire.GetVringBase, wire.SetVringKick, wire.SetVringKick, wire.SetVringCall,
	wire.SetVringErr, wire.SetProtocolFeatures, wire.SetVringEnable, wire.SetBackendReqFD,
	wire.GetConfig, wire.ResetDevice, wire.AddMemReg, wire.AddMemReg, wire.RemMemReg, wire.SetStatus,
	wire.GetQueueNum, wire.SetLogFD, wire.GetInflightFD, wire.Request(200),
	wire.SetLogBase, wire.SetInflightFD, wire.GetVringBaseSkipDrain, wire.SendRARP, wire.NetSetMTU, wire.SetConfig,
	wire.SetDeviceStateFD, wire.CheckDeviceState, wire.IOTLBMsg, wire.IOTLBMsg,
}

func (s *script) region() wire.Region {
	n := uint64(s.next() % 4)
	return wire.Region{GPA: n * 0x40000, Size: 0x40000, UVA: 0x700000 + n*0x40000, Offset: uint64(s.next()%2) * 4096}
}

func (s *script) message() wire.Message {
	m := wire.Message{Request: scripted[int(s.next())%len(scripted)], Payload: wire.Empty{}}
	if s.next()%4 != 0 {
		m.Flags = wire.FlagNeedReply
	}
	ring := uint32(s.next() % 9)
	switch m.Request {
	case wire.SetFeatures:
		m.Payload = wire.U64([]virtio.Features{
			virtio.FeatureVersion1, virtio.FeatureVersion1 | wire.FeatureProtocol,
			netdev.DefaultFeatures | wire.FeatureProtocol, 1 << 60,
			virtio.FeatureVersion1 | wire.FeatureProtocol | wire.FeatureLogAll,
			virtio.FeatureVersion1 | wire.FeatureProtocol | virtio.FeatureAccessPlatform,
		}[s.next()%6])
	case wire.SetProtocolFeatures:
		m.Payload = wire.U64(vhost.ProtocolOffer)
	case wire.SetStatus:
		m.Payload = wire.U64(s.next() % 16)
	case wire.SetVringNum:
		m.Payload = wire.VringState{Index: ring, Num: 1 << (s.next() % 17)}
	case wire.SetVringBase, wire.SetVringEnable, wire.GetVringBase, wire.GetVringBaseSkipDrain:
		m.Payload = wire.VringState{Index: ring, Num: uint32(s.next() % 3)}
	case wire.SetVringAddr:
		at := 0x700000 + uint64(s.next()%8)*0x20000
		m.Payload = wire.VringAddr{Index: ring, Desc: at, Avail: at + 0x8000, Used: at + 0xc000}
	case wire.SetVringKick, wire.SetVringCall, wire.SetVringErr:
		m.Payload = wire.VringFD{Index: uint8(ring), NoFD: s.next()%4 == 0}
	case wire.SetMemTable:
		var t wire.MemTable
		for range s.next() % 4 {
			t.Regions = append(t.Regions, s.region())
		}
		m.Payload = t
	case wire.AddMemReg, wire.RemMemReg:
		m.Payload = wire.MemRegion{Region: s.region()}
	case wire.GetConfig, wire.SetConfig:
		m.Payload = wire.Config{Flags: uint32(s.next() % 2), Data: make([]byte, 1+s.next()%16)}
	default:
		s.payload(&m)
	}
	return m
}

// payload is the rest of message.
func (s *script) payload(m *wire.Message) {
	switch m.Request {
	case wire.SetLogBase:
		m.Payload = wire.LogArea{Size: uint64(s.next()) << 12, Offset: uint64(s.next() % 8)}
	case wire.GetInflightFD, wire.SetInflightFD:
		m.Payload = wire.Inflight{NumQueues: uint16(s.next() % 9), QueueSize: 1 << (s.next() % 17), MapSize: uint64(s.next()) << 14}
	case wire.SendRARP, wire.NetSetMTU:
		m.Payload = wire.U64(s.next())
	case wire.SetDeviceStateFD:
		m.Payload = wire.StateTransfer{Direction: uint32(s.next() % 3)}
	case wire.IOTLBMsg:
		at := 0x700000 + uint64(s.next()%8)*0x20000
		m.Payload = wire.IOTLB{IOVA: at + uint64(s.next()%2)<<12, Size: uint64(s.next()) << 10, UVA: 0x700000 + uint64(s.next())<<12, Type: s.next() % 4}
	}
}

// FuzzSession plays scripts of messages that nearly make sense.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 1, 1, 1, 0, 1, 0, 0, 3, 1, 1, 8, 4, 1, 1, 0, 8, 1, 1, 1, 7, 1, 1, 0})
	f.Add([]byte{0, 12, 0, 0, 0, 1, 0, 2, 17, 1, 0, 1, 0, 3, 1, 1, 4, 4, 1, 1, 0, 8, 1, 1, 1, 16, 1, 0, 20, 1, 0, 0, 7, 0, 1, 0})
	f.Add([]byte{3, 0, 0, 0, 0, 1, 1, 0, 3, 0, 0, 1, 0, 2, 0, 3, 1, 3, 5, 4, 1, 3, 2, 8, 1, 3, 1, 19, 1, 0, 0, 0, 1, 1, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 2000 {
			return
		}
		s := &script{b: b}
		m := newModel(t, s.next)
		fd := 0
		for len(s.b) > 0 && !m.ended {
			msg := s.message()
			var fds []int
			_, n := msg.FDs()
			if s.next()%16 == 15 {
				n = int(s.next() % 4)
			}
			for range n {
				fd++
				m.open[fd] = true
				fds = append(fds, fd)
			}
			m.perform(m.s.Handle(msg, fds, nil))
			if len(m.open) > 0 {
				t.Fatalf("%v left descriptors %v open", msg, m.open)
			}
		}
	})
}
