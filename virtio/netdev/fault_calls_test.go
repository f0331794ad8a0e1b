package netdev_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// NO_NOTIFY was set late, so that the guest kicked a device that was awake: the
// device sets it before it takes the first chain, and what comes all the same is
// counted.
func TestFault068KickOfAnAwakeDevice(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureEventIdx})
	flag := func() byte { return w.bytes(w.tx[0].cfg.Used, 1)[0] & 1 }
	var during byte
	w.wire.onSend = func(netdev.Token) { during = flag() }
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 10)))
	if w.pollTX(0, netdev.Budget{}); during != 1 {
		t.Error("kicks are not off while the device takes chains")
	}
	w.kick(0) // nothing new
	w.pollTX(0, netdev.Budget{})
	if s := w.dev.Pair(0).TX.Snapshot(); s.Kicks != 2 || s.KicksEmpty != 1 {
		t.Errorf("%d kicks, %d of them empty, want 2 and 1", s.Kicks, s.KicksEmpty)
	}
	if w.dev.Pair(0).TX.Rearm(); flag() != 0 {
		t.Error("kicks are not on again")
	}
}

// On a packed ring kicks could not be switched off, or came on again by
// themselves: the device's event structure stays as it is until the device rests.
func TestFault070PackedKicksStayOff(t *testing.T) {
	for _, off := range []virtio.Features{0, virtio.FeatureEventIdx} {
		w := newWorld(t, setup{off: off, ring: virtio.FeatureRingPacked})
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 10)))
		for range 100 {
			w.pollTX(0, netdev.Budget{})
			if w.queueTX(0, w.encode(virtio.NetHdr{}), build(fromGuest(0, 10))) {
				t.Fatal("the guest kicks a device that is awake")
			}
			if event := w.bytes(w.tx[0].cfg.Used, 4); event[2]&3 != 1 {
				t.Fatalf("event structure %x, want kicks disabled", event)
			}
			w.reap(w.tx[0])
		}
		for w.dev.Pair(0).TX.Rearm() {
			w.pollTX(0, netdev.Budget{})
			w.reap(w.tx[0])
		}
		if !w.queueTX(0, w.encode(virtio.NetHdr{}), build(fromGuest(0, 10))) {
			t.Error("the guest does not kick a device that rests")
		}
	}
}

// A call that was held back for 32 frames was never made for one: it comes when
// the time is over, on a split ring and a packed one, on every pair.
func TestFault071CoalescedCallHasTimer(t *testing.T) {
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 2}, ctrl: true, ring: packed})
		w.command(coal([]byte{6, 1}, 32, 1000))
		for i := range 2 {
			w.offer(i, 4, 2048)
			w.rx[i].EnableCalls()
			rx := w.dev.Pair(i).RX
			rx.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(i, 10)))
			if _, call := w.pollRX(i); call.Needed {
				t.Fatal("a call for one frame of 32")
			}
			begin := w.now
			w.now = rx.Next(w.now)
			if _, call := w.pollRX(i); !call.Needed || w.now != begin.Add(time.Millisecond) {
				t.Errorf("pair %d, packed %v: %+v after %v", i, packed != 0, call, w.now.Sub(begin))
			}
		}
	}
}

// The driver's way to ask for fewer interrupts did nothing on packed rings: with
// three quarters of what is outstanding as its wish, a packed ring gets as few
// calls as a split one.
func TestFault082DelayedCallsOnPacked(t *testing.T) {
	calls := func(packed virtio.Features, enable func(*guestQueue) bool) (n uint64) {
		w := newWorld(t, setup{ring: packed})
		w.pollTX(0, netdev.Budget{})
		f := build(fromGuest(0, 100))
		for range 10 {
			for range 64 {
				w.queueTX(0, append(w.encode(virtio.NetHdr{}), f...))
			}
			w.kick(0)
			w.tx[0].DisableCalls()
			enable(w.tx[0])
			for range 64 {
				if _, call := w.pollTX(0, netdev.Budget{Packets: 1}); call.Needed {
					w.tx[0].DisableCalls() // as NAPI does
					w.reap(w.tx[0])
					enable(w.tx[0])
				}
			}
			w.reap(w.tx[0])
		}
		return w.dev.Pair(0).TX.Snapshot().Calls
	}
	for _, packed := range []virtio.Features{0, virtio.FeatureRingPacked} {
		each := calls(packed, func(q *guestQueue) bool { return q.EnableCalls() })
		late := calls(packed, func(q *guestQueue) bool { return q.EnableCallsDelayed() })
		if each < 500 || late < 10 || late > each/5 {
			t.Errorf("packed %v: %d calls at once, %d delayed", packed != 0, each, late)
		}
		t.Logf("packed %v: %d calls at once, %d delayed, for 640 packets", packed != 0, each, late)
	}
}

// Used elements were published one by one: a batch is one index update and at
// most one call, whatever is in it.
func TestFault178UsedRingBatches(t *testing.T) {
	for _, c := range []struct{ budget, updates int }{{1, 64}, {16, 4}, {64, 1}} {
		w := newWorld(t, setup{off: virtio.FeatureEventIdx})
		f := build(fromGuest(0, 100))
		for range 64 {
			w.queueTX(0, append(w.encode(virtio.NetHdr{}), f...))
		}
		w.kick(0)
		updates, calls := 0, 0
		for last := uint16(0); last != 64; {
			_, call := w.pollTX(0, netdev.Budget{Packets: c.budget})
			idx, _ := w.used(w.tx[0])
			if idx == last {
				t.Fatal("no progress")
			}
			last = idx
			updates++
			if call.Needed {
				calls++
			}
		}
		if updates != c.updates || calls != c.updates || w.wire.flush != c.updates {
			t.Errorf("budget %d: %d updates, %d calls, %d flushes, want %d", c.budget, updates, calls, w.wire.flush, c.updates)
		}
	}
}

// trickle sends a frame every 20 us for some time and returns the calls and the
// mean time in nanoseconds that a call came after the first frame that it is for.
func trickle(t *testing.T, packets, usecs uint32) (calls uint64, latency float64) {
	w := newWorld(t, setup{ctrl: true})
	w.command(coal([]byte{6, 1}, packets, usecs))
	rx := w.dev.Pair(0).RX
	w.offer(0, 100, 2048)
	for range 100 {
		w.rx[0].EnableCalls()
		next := w.now.Add(20 * time.Microsecond)
		rx.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 10)))
		w.pollRX(0)
		for at := rx.Next(w.now); at < next; at = rx.Next(w.now) {
			w.now = at
			w.pollRX(0)
		}
		w.receive(0)
		w.now = next
	}
	s := rx.Snapshot()
	return s.Calls, s.UsedToCall.Mean()
}

// Coalescing trades latency for interrupts, which has to show: the longer the
// time, the fewer the calls and the later.
func TestFault179LatencyAgainstCoalescing(t *testing.T) {
	lastCalls, lastLatency := uint64(1000), -1.0
	for _, usecs := range []uint32{0, 50, 200, 1000} {
		calls, latency := trickle(t, 32, usecs)
		t.Logf("32 frames or %d us: %d calls, on average %.0f ns after the first frame", usecs, calls, latency)
		if calls >= lastCalls || latency <= lastLatency || latency > float64(usecs)*1000 {
			t.Errorf("%d us: %d calls after %.0f ns", usecs, calls, latency)
		}
		lastCalls, lastLatency = calls, latency
	}
}

// A burst came as one interrupt a frame, and was lost: with 32 frames or 64 us it
// is one for 32, and the rest 64 us later; nothing is dropped.
func TestFault181Burst(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	w.command(coal([]byte{6, 1}, 32, 64))
	w.offer(0, 200, 2048)
	w.rx[0].EnableCalls()
	rx := w.dev.Pair(0).RX
	begin := w.now
	for range 100 {
		rx.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 10)))
		w.pollRX(0)
		w.receive(0)
		w.rx[0].EnableCalls()
		w.now += 100
	}
	w.now = rx.Next(w.now)
	w.rx[0].DisableCalls()
	w.pollRX(0)
	s := rx.Snapshot()
	if s.Packets != 100 || s.Drops.Total() != 0 || s.Calls != 3 {
		t.Errorf("%d frames in %d calls, drops %s", s.Packets, s.Calls, marshal(t, s.Drops))
	}
	if w.now.Sub(begin) > 100*100+64*time.Microsecond {
		t.Errorf("the rest waits for %v", w.now.Sub(begin))
	}
}

// Moderation that adapts, as netdim in the guest does by VQ_NOTF_COAL: each
// change is in force at the next frame, and fewer calls come for the same frames.
func TestFault182ModerationAdapts(t *testing.T) {
	w := newWorld(t, setup{ctrl: true})
	rx := w.dev.Pair(0).RX
	var last uint64
	for _, step := range []struct {
		packets uint32
		want    uint64
	}{{0, 64}, {4, 16}, {16, 4}, {64, 1}, {1, 64}} {
		w.command(coal(cat([]byte{6, 2}, le16(0), le16(0)), step.packets, 1000))
		w.offer(0, 64, 2048)
		for range 64 {
			w.rx[0].EnableCalls()
			rx.Deliver(w.now, &virtio.NetHdr{}, build(toGuest(0, 10)))
			w.pollRX(0)
			w.receive(0)
		}
		calls := rx.Snapshot().Calls
		if calls-last != step.want {
			t.Errorf("%d frames a call: %d calls for 64 frames, want %d", step.packets, calls-last, step.want)
		}
		last = calls
	}
}
