package netdev_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// TestRXModel offers buffers of any size and delivers frames of any size by
// either way, and expects what a queue of frames would give: all that were
// accepted, whole, once, in order. The smallest buffers are so large that the
// whole ring of them holds the largest frame, as otherwise it is dropped.
func TestRXModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, setup{cfg: netdev.Config{MTU: 9000}, size: 64})
		rx := w.dev.Pair(0).RX
		var want [][]byte
		rt.Repeat(map[string]func(*rapid.T){
			"offer": func(rt *rapid.T) {
				n := min(rapid.IntRange(1, 20).Draw(rt, "buffers"), w.rx[0].Free())
				w.offer(0, n, rapid.IntRange(200, 3000).Draw(rt, "bytes"))
				rx.Kick(w.now, 1)
			},
			"give": func(rt *rapid.T) {
				f := build(toGuest(len(want), rapid.IntRange(0, 8900).Draw(rt, "payload")))
				if rapid.Bool().Draw(rt, "reserve") {
					iov, ok := rx.Reserve(9100)
					if !ok {
						return
					}
					fill(t, iov, f, 9100)
					if rapid.IntRange(0, 3).Draw(rt, "abort") == 0 {
						rx.Abort()
						return
					}
					if rx.Commit(len(f), &virtio.NetHdr{}) == netdev.DropNone {
						want = append(want, f)
					}
					return
				}
				if rx.Deliver(w.now, &virtio.NetHdr{}, f) == netdev.DropNone {
					want = append(want, f)
				}
			},
			"memory": func(rt *rapid.T) {
				if err := w.dev.Pair(0).SetMemory(w.mem); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				w.pollRX(0)
				matchFrames(rt, w.receive(0), &want)
				if rx.Waiting() != len(want) {
					rt.Fatalf("%d frames wait in the device, %d in the model", rx.Waiting(), len(want))
				}
			},
		})
	})
}

// matchFrames takes what the guest got off the front of the model.
func matchFrames(rt *rapid.T, got []received, want *[][]byte) {
	for i, r := range got {
		if i >= len(*want) || !bytes.Equal(r.frame, (*want)[i]) {
			rt.Fatalf("frame %d is not what was given", i)
		}
		for k, n := range r.lens {
			if n == 0 {
				rt.Fatalf("buffer %d of frame %d is empty", k, i)
			}
		}
	}
	*want = (*want)[len(got):]
}

// TestSetMemory: rings move with the memory, and buffers taken in advance are
// taken anew.
func TestSetMemory(t *testing.T) {
	w := newWorld(t, setup{})
	w.offer(0, 8, 2000)
	if _, ok := w.dev.Pair(0).RX.Reserve(9000); !ok {
		t.Fatal("no reservation")
	}
	old := w.raw
	w.raw = bytes.Clone(old)
	mem, err := shm.NewMemory([]shm.Region{{GPA: memBase, Mem: w.raw}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.dev.Pair(0).SetMemory(mem); err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(old)
	h, f := gso(toGuest(0, 4000), 1448)
	w.deliver(0, h, f)
	idx, _ := w.used(w.rx[0])
	if idx != 3 || !bytes.Equal(before, old) {
		t.Errorf("used %d in the new memory, want 3; old memory written: %v", idx, !bytes.Equal(before, old))
	}
	small, err := shm.NewMemory([]shm.Region{{GPA: 0, Mem: make([]byte, 4096)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.dev.Pair(0).SetMemory(small); err == nil {
		t.Error("a memory without the ring was taken")
	}
}
