package ring_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// fuzzWorld is a world of little memory, so that many of them are quick.
func fuzzWorld(t tb, f virtio.Features) *world {
	t.Helper()
	w := &world{t: t, b: make([]byte, 4096)}
	w.mem = memory(t, shm.Region{GPA: dataAt - 2048, Mem: w.b})
	w.cfg = ring.Config{
		Size: 8, Features: f, Base: ring.StartBase(f), Desc: dataAt - 2048, Avail: dataAt - 1536, Used: dataAt - 1280,
	}
	var err error
	if w.drv, err = ring.NewDriver(w.mem, w.cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestInflightRefused(t *testing.T) {
	for _, f := range []virtio.Features{0, packed} {
		w := newRecorded(t, 8, f)
		good := w.cfg.Inflight
		for name, b := range map[string][]byte{
			"short":       good[:len(good)-1],
			"not aligned": make([]byte, len(good)+1)[1:],
			"version":     append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2}, good[9:]...),
		} {
			w.cfg.Inflight = b
			if _, err := ring.NewDevice(w.mem, w.cfg); !errors.Is(err, ring.ErrInflight) {
				t.Errorf("%v %s: %v", f, name, err)
			}
		}
	}
}

// FuzzInflight takes its input for a record, which another process may have
// written: a device either refuses it, or works, and never panics.
func FuzzInflight(f *testing.F) {
	for _, feat := range []virtio.Features{0, packed} {
		s := &shift{world: newRecorded(f, 8, feat), rng: rand.New(rand.NewPCG(1, 2)), taken: map[uint32]int{}}
		s.fill()
		s.takeAny()
		s.takeAny()
		s.push()
		f.Add(feat != 0, slices.Clone(s.cfg.Inflight), []byte{0, 1, 2, 3, 4, 0, 0, 2, 4})
	}
	f.Fuzz(func(t *testing.T, isPacked bool, record, ops []byte) {
		feat := virtio.Features(0)
		if isPacked {
			feat = packed
		}
		w := fuzzWorld(t, feat)
		w.cfg.Inflight = make([]byte, ring.InflightBytes(8, feat))
		copy(w.cfg.Inflight, record)
		w.add(6)
		var err error
		if w.dev, err = ring.NewDevice(w.mem, w.cfg); err != nil {
			if !errors.Is(err, ring.ErrInflight) {
				t.Fatal(err)
			}
			return
		}
		var heads []uint16
		for _, op := range ops[:min(len(ops), 500)] {
			heads = fuzzStep(t, w.dev, &w.c, heads, op)
			if int(w.dev.InFlight()) != len(heads) || len(heads) > 8 {
				t.Fatalf("%d chains in flight, %d taken", w.dev.InFlight(), len(heads))
			}
			if op >= 128 {
				w.drv.Reap()
			}
		}
	})
}
