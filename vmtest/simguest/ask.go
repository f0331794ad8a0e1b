package simguest

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
	"github.com/vnetbench/vnetbench/vmtest"
)

// maxTimes bounds the latencies that are kept of a flow; those beyond are not
// counted.
const maxTimes = 1 << 18

// ask is what a flow has that asks for answers, or whose messages are timed.
type ask struct {
	left    int64      // bytes of the request that are not written yet
	since   vtime.Time // its first write began
	waits   bool       // the program sleeps until the answer
	early   bool       // the answer was there before it slept
	times   []int64    // latencies in nanoseconds
	sent    []message  // messages that have not arrived, in order
	doneAt  vtime.Time // all bytes of the flow had arrived; 0 before
	written int64      // bytes in whole requests or messages, the last one included

	answered bool   // the program's next pass reads the answer
	got      uint32 // answer bytes that the guest received
	answers  uint32 // and those that the peer sent
}

// message is one write on its way.
type message struct {
	end int64 // of the flow's bytes
	at  vtime.Time
}

// begin notes that the program is about to write.
func (k *conn) begin(c *vcpu.CPU) {
	a := &k.ask
	switch k.f.Kind {
	case vmtest.FlowRequest:
		if a.left == 0 {
			a.left, a.since = int64(k.f.Request), c.Now()
			a.written += a.left
		}
		k.left = int(min(int64(k.left), a.left))
		a.left -= int64(k.left)
	case vmtest.FlowMessage:
		a.written += int64(k.left)
		a.sent = append(a.sent, message{a.written, c.Now()})
	}
}

// unanswered does what follows a write of a request: the next one, or to sleep
// for the answer. It reports false for another kind of flow.
func (k *conn) unanswered(c *vcpu.CPU) bool {
	a := &k.ask
	switch {
	case k.f.Kind != vmtest.FlowRequest:
		return false
	case a.left > 0:
		k.again(c)
	case a.early:
		k.readAnswer(c)
	default:
		a.waits = true
	}
	return true
}

// answer is payload that the guest's TCP received.
func (k *conn) answer(seq frame.Seq, n int) {
	a := &k.ask
	if seq != frame.Seq(1+a.got) {
		return // it was there before
	}
	a.got += uint32(n)
	if !a.waits {
		a.early = true
		return
	}
	a.waits, a.answered, k.slept = false, true, true
	k.w.wake(k.cpu, &k.app)
}

// readAnswer is the program's read of the answer, and its pause.
func (k *conn) readAnswer(c *vcpu.CPU) {
	a := &k.ask
	a.answered, a.early = false, false
	c.Charge(vcpu.OpSyscall, 1)
	a.add(c.Now().Sub(a.since).Nanoseconds())
	k.pause(c)
}

func (a *ask) add(ns int64) {
	if len(a.times) < maxTimes {
		a.times = append(a.times, ns)
	}
}

// arrived looks at what the endpoint's program has: a whole request is answered,
// a message has its time.
func (e *endpoint) arrived(now vtime.Time) {
	k := e.k
	a, got := &k.ask, int64(e.rcv.Stats.Bytes)
	if total := int64(k.f.Total); total > 0 && got >= total && a.doneAt == 0 {
		a.doneAt = now
	}
	switch k.f.Kind {
	case vmtest.FlowRequest:
		if got == a.written && a.left == 0 && int64(a.answers)*int64(k.f.Request) < got {
			e.respond(now)
		}
	case vmtest.FlowMessage:
		for len(a.sent) > 0 && got >= a.sent[0].end {
			a.add(int64(now.Sub(a.sent[0].at)))
			a.sent = a.sent[:copy(a.sent, a.sent[1:])]
		}
	}
}

// respond sends an answer of one byte.
func (e *endpoint) respond(now vtime.Time) {
	k, f := e.k, &e.c.spec
	ack := e.rcv.Answer(now)
	f.DstPort, f.Seq, f.Ack, f.Flags = k.data.SrcPort, frame.Seq(1+k.ask.answers), frame.Seq(ack.Ack), skb.ACK|skb.PSH
	f.Window, f.TSVal, f.TSEcr, f.SACK = uint16(ack.Wnd>>e.c.wscale), ack.TSVal, ack.TSEcr, nil
	f.Payload = answer[:]
	k.ask.answers++
	e.c.w.lower.answer(now, k, ack.Ack, f)
	f.Payload = nil
}

// answer is what the peer's program sends.
var answer [1]byte

// latency sums the flow's times up; nil for a stream.
func (a *ask) latency(k *conn) *vmtest.Latency {
	if k.f.Kind == vmtest.FlowStream {
		return nil
	}
	return vmtest.NewLatency(a.times)
}

// doneNs is how long the flow took; nil if it has not ended.
func (k *conn) doneNs() *int64 {
	if k.ask.doneAt == 0 {
		return nil
	}
	ns := int64(k.ask.doneAt.Sub(k.w.startOf(k)))
	return &ns
}
