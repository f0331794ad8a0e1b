package tcp_test

import (
	"slices"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
)

// arrive is the receiver.
func (w *world) arrive(p *skb.SKB) {
	end := p.Seq + uint32(p.Len)
	if p.Flags&skb.FIN != 0 {
		end++
	}
	inOrder := p.Seq == w.rcvNxt && len(w.ooo) == 0
	w.again = tcp.Range{}
	if w.dsack && p.Len > 0 && w.has(p.Seq, end) {
		w.again = tcp.Range{Start: p.Seq, End: end}
	}
	if w.stamps && int32(p.Seq-w.rcvNxt) <= 0 {
		w.echo = uint32(int64(p.Born) / 1e6)
	}
	if int32(end-w.rcvNxt) > 0 {
		w.insert(tcp.Range{Start: p.Seq, End: end})
	}
	if w.noAck {
		return
	}
	w.unacked += int(p.Segs)
	if w.ackEvery > 0 && inOrder && w.unacked < w.ackEvery {
		seq := p.Seq
		w.at(w.in(40*time.Millisecond), event{kind: evCall, call: func() {
			if w.unacked > 0 {
				w.sendAck(seq)
			}
		}})
		return
	}
	w.sendAck(p.Seq)
}

// has reports whether a range arrived before.
func (w *world) has(start, end uint32) bool {
	if int32(end-w.rcvNxt) <= 0 {
		return true
	}
	for _, r := range w.ooo {
		if int32(start-r.Start) >= 0 && int32(end-r.End) <= 0 {
			return true
		}
	}
	return false
}

// sendAck sends an acknowledgement after a packet at seq arrived.
func (w *world) sendAck(seq uint32) {
	w.unacked = 0
	if w.loseAck != nil && w.loseAck() {
		return
	}
	w.at(w.in(w.rtt-w.rtt/2), event{kind: evAck, ack: w.ackNow(), sack: w.sacks(seq)})
}

func (w *world) insert(r tcp.Range) {
	w.ooo = append(w.ooo, r)
	slices.SortFunc(w.ooo, func(a, b tcp.Range) int { return int(int32(a.Start - b.Start)) })
	out := w.ooo[:0]
	for _, r := range w.ooo {
		if int32(r.Start-w.rcvNxt) <= 0 {
			if int32(r.End-w.rcvNxt) > 0 {
				w.got += int64(r.End - w.rcvNxt)
				w.rcvNxt = r.End
			}
			continue
		}
		if n := len(out); n > 0 && int32(r.Start-out[n-1].End) <= 0 {
			if int32(r.End-out[n-1].End) > 0 {
				out[n-1].End = r.End
			}
			continue
		}
		out = append(out, r)
	}
	w.ooo = out
}

// ackNow is the acknowledgement of the present state. The right edge of the
// window never moves back.
func (w *world) ackNow() tcp.Ack {
	wnd := w.window
	if w.wnd != nil {
		wnd = w.wnd()
	}
	if int32(w.rcvNxt+wnd-w.edge) > 0 {
		w.edge = w.rcvNxt + wnd
	}
	return tcp.Ack{Ack: w.rcvNxt, Wnd: w.edge - w.rcvNxt, TSEcr: w.echo}
}

// sacks is the blocks to report, the one of the last packet first.
func (w *world) sacks(last uint32) []tcp.Range {
	if w.noSack {
		return nil
	}
	var b []tcp.Range
	if w.again != (tcp.Range{}) {
		b = append(b, w.again)
	}
	for _, r := range w.ooo {
		if int32(last-r.Start) >= 0 && int32(last-r.End) < 0 {
			b = append(b, r)
		}
	}
	for i := len(w.ooo) - 1; i >= 0 && len(b) < 3; i-- {
		if !slices.Contains(b, w.ooo[i]) {
			b = append(b, w.ooo[i])
		}
	}
	return b
}
