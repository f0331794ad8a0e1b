package tcp_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/guest/tcp"
)

// nibbler takes numbers off a fuzz input.
type nibbler []byte

func (n *nibbler) u8() byte {
	if len(*n) == 0 {
		return 0
	}
	b := (*n)[0]
	*n = (*n)[1:]
	return b
}

func (n *nibbler) u16() uint16 { return binary.LittleEndian.Uint16([]byte{n.u8(), n.u8()}) }

// seq is a sequence number, most often one near the interesting borders.
func (n *nibbler) seq(w *world) uint32 {
	una, nxt, write, end := w.s.Seqs()
	off := uint32(int32(int16(n.u16())))
	switch n.u8() % 8 {
	case 0:
		return off << 16
	case 1, 2:
		return una + off
	case 3:
		return nxt + off
	case 4:
		return write + off
	case 5:
		return end + off
	case 6:
		return nxt
	}
	return una + uint32(uint64(nxt-una)*uint64(uint16(off))>>16)
}

// FuzzSock lets a hostile peer answer: acknowledgements and SACKs of anything,
// windows of any size, and time that passes as it likes. Nothing may panic, and
// the queues and the scoreboard stay consistent.
func FuzzSock(f *testing.F) {
	f.Add([]byte{0, 0, 1, 255, 3, 1, 0, 0, 7, 255, 255, 2, 9})
	f.Add([]byte{13, 7, 1, 0, 64, 2, 0, 1, 7, 0, 16, 3, 5, 4, 1, 16, 1, 200, 1, 2, 0, 4, 7, 0, 0})
	f.Add([]byte{9, 1, 1, 0, 255, 4, 2, 100, 7, 0, 7, 3, 1, 16, 5, 16, 0, 0, 0, 0, 3, 8, 1, 0, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := nibbler(data)
		rel := tcp.Releases()
		kernel, opt := rel[int(n.u8())%len(rel)], n.u8()
		w := newWorld(t, kernel, func(c *tcp.Config) {
			c.NoDelay, c.CanGSO = opt&1 != 0, opt&2 == 0
			c.Pacing = tcp.Pacing(opt >> 2 % 3)
			c.ISS = 0xffff_ff00
		})
		w.noAck, w.quiet, w.noSack = true, true, opt&32 != 0
		w.window = uint32(n.u16())
		w.open()
		for step := 0; len(n) > 0 && step < 300; step++ {
			fuzzStep(w, &n)
			checkFuzz(t, w)
		}
	})
}

func fuzzStep(w *world, n *nibbler) {
	switch n.u8() % 6 {
	case 0:
		w.send(int(n.u16())+1, tcp.WriteFlags(n.u8()&6))
	case 1:
		w.s.Close()
	case 2:
		w.run(time.Duration(n.u16()) * 100 * time.Microsecond)
	default:
		a := tcp.Ack{Ack: n.seq(w), Wnd: uint32(n.u16()) << (n.u8() % 17), TSEcr: uint32(n.u8()), ECE: n.u8() > 250}
		for range n.u8() % 6 {
			a.Sacks = append(a.Sacks, tcp.Range{Start: n.seq(w), End: n.seq(w)})
		}
		w.s.Input(a)
		w.softirq()
	}
}

func checkFuzz(t *testing.T, w *world) {
	una, nxt, write, _ := w.s.Seqs()
	unsent, unacked := w.s.Lists()
	at := una
	for i, r := range unacked {
		if i > 0 && r.Start != at {
			t.Fatalf("hole in the retransmit queue: %v", unacked)
		}
		at = r.End
	}
	if at = nxt; len(unacked) > 0 && unacked[len(unacked)-1].End != nxt {
		t.Fatalf("retransmit queue %v ends not at %d", unacked, nxt)
	}
	for _, r := range unsent {
		if r.Start != at {
			t.Fatalf("hole in the write queue: %v", unsent)
		}
		at = r.End
	}
	if at != write {
		t.Fatalf("queues end at %d, written up to %d", at, write)
	}
	o1, s1, l1, r1, m1 := w.s.Counts()
	o2, s2, l2, r2, m2 := w.s.CountSegs()
	if o1 != o2 || l1 != l2 || r1 != r2 || m1 != m2 || (s1 != s2 && !w.noSack) {
		t.Fatalf("counts %d %d %d %d %d, recounted %d %d %d %d %d", o1, s1, l1, r1, m1, o2, s2, l2, r2, m2)
	}
}
