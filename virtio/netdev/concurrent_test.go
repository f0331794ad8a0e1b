package netdev_test

import (
	"sync"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// TestConcurrentPairs runs every pair on a goroutine of its own while the
// control queue changes what they share and somebody reads it: for the race
// detector, and to see that commands do not stop the data.
func TestConcurrentPairs(t *testing.T) {
	const rounds = 300
	w := newWorld(t, setup{cfg: netdev.Config{QueuePairs: 4}, ctrl: true})
	var loops []*txLoop
	for i := range 4 {
		w.dev.Pair(i).SetPort(&wire{discard: true})
		w.offer(i, 100, 2000)
		loops = append(loops, &txLoop{w: &world{t: t, dev: w.dev, tx: w.tx[i : i+1], now: w.now}, bufs: large(w)})
	}
	var wg sync.WaitGroup
	for i, l := range loops {
		wg.Go(func() {
			f := build(ackOf(toGuest(i, 0)))
			for n := range rounds {
				l.runOn(i, 4)
				if n%4 == 0 {
					w.dev.Pair(i).RX.Deliver(0, &virtio.NetHdr{}, f)
				}
				w.dev.Steer(f)
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			w.dev.ConfigSpace()
			w.dev.ActivePairs()
		}
	})
	for n := range rounds / 4 {
		if ack, _ := w.command(cat([]byte{4, 0}, le16(uint16(1+n%4)))); ack != 0 {
			t.Fatal("a command was refused")
		}
		w.command(cat([]byte{1, 1}, guestMAC[:]))
		w.command([]byte{0, 0, byte(n % 2)})
	}
	wg.Wait()
	for i := range 4 {
		if s := w.dev.Pair(i).TX.Snapshot(); s.Packets != rounds*4 {
			t.Errorf("pair %d sent %d packets, want %d", i, s.Packets, rounds*4)
		}
	}
}
