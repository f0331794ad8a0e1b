package vhost_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
)

// The hostile suite of messages: what a front-end may send against the protocol,
// made from the table of requests that package wire has, so that a request that
// is added is covered. Each case must be refused, counted, answered at most once,
// and leak nothing; and is followed by proof that a guest of another session and
// the next guest of the same socket pass traffic.

// hostileMessage is one message that breaks a rule.
type hostileMessage struct {
	name  string
	bytes []byte
	fds   int
}

// hostileLeast is how many cases the suite has at least.
const hostileLeast = 200

// lastRequest is a number beyond all known requests.
const lastRequest = 64

func TestHostileMessages(t *testing.T) {
	other := newWorld(t, 1)
	neighbour := other.start(other.connect(), 1)
	w := newWorld(t, 2)
	all := hostileMessages(w)
	w.leaks(func() {
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				w.t, other.t = t, t
				w.refuses(c)
				other.send(neighbour, 1)
			})
		}
		w.t = t
	})
	w.t, other.t = t, t
	g := w.connect()
	w.send(w.start(g, 1), 5)
	t.Logf("%d cases", len(all))
	if len(all) < hostileLeast {
		t.Errorf("%d cases, want %d at least", len(all), hostileLeast)
	}
}

// refuses sends the message on a connection of its own, on which a ring runs, and
// checks what becomes of it and of the ring.
func (w *world) refuses(c hostileMessage) {
	w.t.Helper()
	g := w.connect()
	defer g.Close()
	tx := w.start(g, 1)
	before := w.lastStats()
	fds := eventfds(w.t, c.fds)
	defer osio.CloseAll(fds)
	w.ok(g.SendBytes(c.bytes, fds...))
	answers, alive := w.answers(g)
	if answers > 1 {
		w.t.Errorf("%d answers", answers)
	}
	if alive {
		after := w.lastStats()
		if after.Refused+after.Ignored != before.Refused+before.Ignored+1 {
			w.t.Errorf("refused %d, ignored %d before, %d and %d after (%s)", before.Refused, before.Ignored, after.Refused, after.Ignored, after.LastRefusal)
		}
		w.send(tx, 1)
		return
	}
	w.eventually("the session is in the history", func() bool { return !w.srv.Stats().Connected })
	if err := w.lastSession().Err; err == nil || errors.Is(err, vhost.ErrHangup) {
		w.t.Errorf("session ended with %v, want what was wrong", err)
	}
}

// answers asks for the features behind what was sent, and counts what comes
// before the answer; alive is false if the session ended instead.
func (w *world) answers(g *frontend.Guest) (n int, alive bool) {
	w.t.Helper()
	if g.Send(wire.Message{Request: wire.GetFeatures, Payload: wire.Empty{}}) != nil {
		return 0, false
	}
	for ; ; n++ {
		m, err := g.Recv()
		if errors.Is(err, io.EOF) || err != nil && !errors.Is(err, frontend.ErrTimeout) {
			return n, false
		}
		w.ok(err)
		if m.Request == wire.GetFeatures {
			return n, true
		}
	}
}

// hostileMessages makes the cases.
func hostileMessages(w *world) (all []hostileMessage) {
	add := func(name string, b []byte, fds int) { all = append(all, hostileMessage{name, b, fds}) }
	for r := wire.Request(0); r <= lastRequest; r++ {
		sizes := goodSizes(r)
		if !r.Known() {
			add(fmt.Sprintf("%v", r), rawMessage(r, wire.FlagNeedReply, make([]byte, 8)), 0)
		}
		add(fmt.Sprintf("%v as a reply", r), rawMessage(r, wire.FlagReply, make([]byte, sizes[0])), 0)
		add(fmt.Sprintf("%v of version 2", r), otherVersion(rawMessage(r, 0, make([]byte, sizes[0]))), 0)
		for _, n := range badSizes(r) {
			add(fmt.Sprintf("%v of %d bytes", r, n), rawMessage(r, wire.FlagNeedReply, make([]byte, n)), 0)
		}
		if r.Known() {
			all = append(all, hostileDescriptors(r, sizes[0])...)
		}
	}
	add("a header that promises more than a message can hold", rawHeader(wire.GetFeatures, 0, wire.MaxPayload+1), 0)
	return append(all, hostileRings(w)...)
}

// goodSizes are the payload sizes that a request may have, filled with zeros.
func goodSizes(r wire.Request) (good []int) {
	for n := range 300 {
		if _, err := wire.Decode(rawMessage(r, 0, make([]byte, n))); err == nil {
			good = append(good, n)
		}
	}
	if len(good) == 0 {
		good = []int{12} // GET_CONFIG and SET_CONFIG of nothing are never good
	}
	return good
}

// badSizes are some of the sizes that a request must not have.
func badSizes(r wire.Request) (bad []int) {
	for _, n := range []int{0, 1, 7, 9, 12, 15, 17, 27, 33, 39, 41, 4096} {
		if _, err := wire.Decode(rawMessage(r, 0, make([]byte, n))); err != nil {
			bad = append(bad, n)
		}
	}
	return bad
}

// hostileDescriptors are messages with a descriptor too few and too many.
func hostileDescriptors(r wire.Request, size int) (all []hostileMessage) {
	b := rawMessage(r, wire.FlagNeedReply, make([]byte, size))
	m, err := wire.Decode(b)
	if err != nil {
		return nil
	}
	least, most := m.FDs()
	if least > 0 {
		all = append(all, hostileMessage{fmt.Sprintf("%v without a descriptor", r), b, least - 1})
	}
	for _, more := range []int{1, 7} {
		all = append(all, hostileMessage{fmt.Sprintf("%v with %d descriptors too many", r, more), b, most + more})
	}
	return all
}

// hostileRings are messages about rings that there are not.
func hostileRings(w *world) (all []hostileMessage) {
	rings := uint32(2*len(w.ports) + 1)
	for r := wire.Request(0); r <= lastRequest; r++ {
		m, err := wire.Decode(rawMessage(r, wire.FlagNeedReply, make([]byte, goodSizes(r)[0])))
		if err != nil {
			continue
		}
		for _, i := range []uint32{rings, 255, 256, 0x10000, 0x10001, 0xffffffff} {
			switch m.Payload.(type) {
			case wire.VringState:
				m.Payload = wire.VringState{Index: i, Num: 1}
			case wire.VringAddr:
				m.Payload = wire.VringAddr{Index: i}
			case wire.VringFD:
				m.Payload = wire.VringFD{Index: uint8(i), NoFD: true}
			default:
				continue
			}
			if v, ok := m.Payload.(wire.VringFD); ok && uint32(v.Index) < rings {
				continue
			}
			m.Flags = wire.FlagNeedReply
			all = append(all, hostileMessage{fmt.Sprintf("%v of ring %d", r, i), m.Append(nil), 0})
		}
	}
	return all
}

func rawHeader(r wire.Request, flags uint32, size int) []byte {
	b := rawMessage(r, flags, nil)
	b[8], b[9], b[10], b[11] = byte(size), byte(size>>8), byte(size>>16), byte(size>>24)
	return b
}

func otherVersion(b []byte) []byte {
	b[4] = b[4]&^byte(wire.VersionMask) | 2
	return b
}
