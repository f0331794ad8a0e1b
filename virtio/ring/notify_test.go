package ring_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// setUsedEvent writes used_event as the guest does.
func (w *world) setUsedEvent(v uint16) {
	le.PutUint16(w.b[int(availAt-memBase)+4+2*int(w.cfg.Size):], v)
}

// availEvent returns avail_event as the guest sees it.
func (w *world) availEvent() uint16 {
	return le.Uint16(w.b[int(usedAt-memBase)+4+8*int(w.cfg.Size):])
}

func (w *world) setAvailFlags(v uint16) { le.PutUint16(w.b[availAt-memBase:], v) }
func (w *world) usedFlags() uint16      { return le.Uint16(w.b[usedAt-memBase:]) }

// wantCall asks whether a call is needed.
func (w *world) wantCall(need bool, why ring.CallReason) {
	w.t.Helper()
	if n, y := w.dev.NeedCall(); n != need || y != why {
		w.t.Errorf("NeedCall: %v, %v; want %v, %v", n, y, need, why)
	}
}

func TestNeedCallFlags(t *testing.T) {
	w := newWorld(t, 8, 0)
	w.add(4)
	w.wantCall(false, ring.CallNoneUsed)
	w.serve(1)
	w.wantCall(true, ring.CallFirst)
	w.wantCall(false, ring.CallNoneUsed)
	w.serve(1)
	w.wantCall(true, ring.CallFlag)
	w.setAvailFlags(1)
	w.serve(1)
	w.wantCall(false, ring.CallNoInterrupt)
	w.setAvailFlags(0)
	w.serve(1)
	w.wantCall(true, ring.CallFlag)
}

// The rule of the specification, around its edges and the wrap of the index.
func TestNeedCallEventIdx(t *testing.T) {
	tests := []struct {
		base  uint16 // used.idx at the previous evaluation
		n     int    // elements published since
		event int    // used_event - base
		need  bool
	}{
		{10, 1, 0, true}, {10, 1, 1, false}, {10, 1, -1, false},
		{10, 4, 0, true}, {10, 4, 3, true}, {10, 4, 4, false}, {10, 4, -1, false},
		{65535, 1, 0, true}, {65535, 4, 3, true}, {65535, 4, 4, false}, {65534, 1, 1, false},
		{65534, 2, 1, true}, {10, 4, 32768, false}, {10, 4, -32768, false},
	}
	for _, tc := range tests {
		w := newWorldAt(t, 8, eventIdx, uint32(tc.base-1))
		w.add(1)
		w.serve(1)
		w.wantCall(true, ring.CallFirst)
		w.reap(1)
		w.setUsedEvent(uint16(int(tc.base) + tc.event))
		w.add(tc.n)
		w.serve(tc.n)
		why := ring.CallEventIdx
		if tc.need {
			why = ring.CallEvent
		}
		w.wantCall(tc.need, why)
	}
}

// With EVENT_IDX the flags field means nothing, for any queue, the control queue
// included.
func TestFault077EventIdxIgnoresFlags(t *testing.T) {
	w := newWorld(t, 64, eventIdx)
	w.add(3)
	w.serve(1)
	w.wantCall(true, ring.CallFirst)
	w.setAvailFlags(1)
	w.setUsedEvent(1)
	w.serve(1)
	w.wantCall(true, ring.CallEvent)
	w.setAvailFlags(0)
	w.setUsedEvent(1)
	w.serve(1)
	w.wantCall(false, ring.CallEventIdx)
}

// A restarted ring does not know what the driver was told before: the first call
// is unconditional, whatever used_event says.
func TestFault064FirstCallAfterRestart(t *testing.T) {
	for _, f := range []virtio.Features{0, eventIdx} {
		for _, event := range []uint16{0, 1, 2, 3, 30000, 65535} {
			w := newWorld(t, 8, f)
			w.add(2)
			w.serve(2)
			w.wantCall(true, ring.CallFirst)
			w.reap(2)
			w.cfg.Base = w.dev.Base()
			w.restart()
			w.wantCall(false, ring.CallNoneUsed)
			w.setUsedEvent(event)
			w.setAvailFlags(1)
			w.add(1)
			w.serve(1)
			w.wantCall(true, ring.CallFirst)
			w.setUsedEvent(2)
			w.add(1)
			w.serve(1)
			if need, why := w.dev.NeedCall(); need || why == ring.CallFirst {
				t.Errorf("second call: %v, %v", need, why)
			}
		}
	}
}

// avail_event and flags that an earlier device left are rewritten at the start.
func TestFault065StaleAvailEvent(t *testing.T) {
	w := newWorld(t, 8, eventIdx)
	w.add(3)
	w.serve(3)
	le.PutUint16(w.b[int(usedAt-memBase)+4+8*8:], 40000)
	w.cfg.Base = 3
	w.restart()
	if w.availEvent() != 3 {
		t.Errorf("avail_event is %d", w.availEvent())
	}
	le.PutUint16(w.b[usedAt-memBase:], 1)
	w.restart()
	if w.usedFlags() != 0 {
		t.Error("NO_NOTIFY is left")
	}
}

// A chain that arrives between the device's last look and its wish for kicks is
// found by the look that follows the wish.
func TestFault067ChainBeforeRearm(t *testing.T) {
	for _, f := range []virtio.Features{0, eventIdx} {
		w := newWorld(t, 8, f)
		w.dev.DisableKicks()
		w.add(1)
		if w.serve(1); w.dev.Pending() != 0 {
			t.Fatal("chains left")
		}
		w.add(1)
		if w.drv.NeedKick(); !w.dev.EnableKicks() {
			t.Errorf("%v: the device may sleep over a chain", f)
		}
		w.serve(1)
		if w.dev.EnableKicks() {
			t.Errorf("%v: the ring is empty", f)
		}
		w.add(1)
		if !w.drv.NeedKick() {
			t.Errorf("%v: no kick for a device that asked", f)
		}
	}
}

func TestKickSuppression(t *testing.T) {
	for _, f := range []virtio.Features{0, eventIdx} {
		w := newWorld(t, 8, f)
		w.add(1)
		if !w.drv.NeedKick() {
			t.Errorf("%v: no kick for the first chain", f)
		}
		w.dev.DisableKicks()
		w.add(1)
		if w.drv.NeedKick() {
			t.Errorf("%v: kick for a busy device", f)
		}
		w.serve(2)
		w.reap(2)
		w.dev.EnableKicks()
		w.add(3)
		if !w.drv.NeedKick() || (f == eventIdx && w.drv.NeedKick()) {
			t.Errorf("%v: one kick expected", f)
		}
	}
}

// used_event that has been passed already asks for nothing.
func TestFault079NoCallAfterPassedEvent(t *testing.T) {
	w := newWorld(t, 8, eventIdx)
	w.add(1)
	w.serve(1)
	w.wantCall(true, ring.CallFirst)
	w.drv.DisableCalls()
	w.reap(1)
	for range 5 {
		w.add(1)
		w.serve(1)
		w.wantCall(false, ring.CallEventIdx)
		w.reap(1)
	}
}

// Of 4 packets a delayed wish costs one call at the third, where flags cost one
// each.
func TestFault083And187CallsPerPacket(t *testing.T) {
	calls := map[virtio.Features]int{}
	for _, f := range []virtio.Features{0, eventIdx} {
		w := newWorld(t, 256, f)
		w.add(1)
		w.serve(1)
		w.dev.NeedCall()
		w.reap(1)
		for range 16 {
			w.add(64)
			w.drv.EnableCallsDelayed()
			for range 64 {
				w.serve(1)
				if need, _ := w.dev.NeedCall(); need {
					calls[f]++
				}
			}
			w.drv.DisableCalls()
			w.reap(64)
		}
	}
	if calls[0] != 16*64 || calls[eventIdx] != 16 {
		t.Errorf("%d calls with flags, %d with EVENT_IDX", calls[0], calls[eventIdx])
	}
}

// After 2^16 elements without an evaluation the remembered index is worth
// nothing; the next call is unconditional.
func TestCallAfterWrapUnasked(t *testing.T) {
	w := newWorld(t, 256, eventIdx)
	w.add(1)
	w.serve(1)
	w.wantCall(true, ring.CallFirst)
	w.drv.DisableCalls()
	w.reap(1)
	for range 257 {
		w.add(256)
		w.serve(256)
		w.reap(256)
	}
	w.wantCall(true, ring.CallFirst)
}

func TestKickAfterWrapUnasked(t *testing.T) {
	w := newWorld(t, 256, eventIdx)
	w.dev.EnableKicks()
	for range 257 {
		w.add(256)
		w.serve(256)
		w.reap(256)
	}
	if !w.drv.NeedKick() || w.drv.NeedKick() {
		t.Error("one kick expected after 2^16 chains unasked")
	}
}

func TestCallReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range ring.NumCallReasons {
		if s := r.String(); s == "" || seen[s] {
			t.Errorf("reason %d: %q", r, s)
		}
		seen[r.String()] = true
	}
	if ring.CallReason(99).String() != "unknown" {
		t.Error("a value that is no reason")
	}
}
