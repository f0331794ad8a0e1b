package ring_test

import (
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

func TestOneChain(t *testing.T) {
	for _, f := range []virtio.Features{0, indirect, eventIdx, indirect | eventIdx} {
		t.Run(f.String(), func(t *testing.T) { oneChain(t, newWorld(t, 8, f)) })
	}
}

func oneChain(t *testing.T, w *world) {
	copy(w.data(0, 8), "headtail")
	b := bufs(4, 4, 100, 20)
	if err := w.drv.Add(b[:2], b[2:], 77); err != nil {
		t.Fatal(err)
	}
	if ok, err := w.dev.Next(&w.c); ok || err != nil {
		t.Fatalf("a chain before Publish: %v, %v", ok, err)
	}
	w.drv.Publish()
	head := w.take()
	if got := string(w.c.Out[0]) + "|" + string(w.c.Out[1]); got != "head|tail" {
		t.Errorf("out = %q", got)
	}
	if w.c.OutLen != 8 || w.c.InLen != 120 || len(w.c.In) != 2 || w.c.Descs != 4 {
		t.Errorf("chain = %+v", w.c)
	}
	copy(w.c.In[0], "answer")
	w.dev.Push(head, 6)
	if w.drv.HasUsed() {
		t.Error("used before Publish")
	}
	if n := w.dev.Publish(); n != 1 {
		t.Errorf("Publish = %d", n)
	}
	token, n, ok := w.drv.Reap()
	if token != 77 || n != 6 || !ok || string(w.data(8, 6)) != "answer" {
		t.Errorf("Reap = %d, %d, %v", token, n, ok)
	}
	if w.drv.Free() != 8 {
		t.Errorf("free = %d", w.drv.Free())
	}
}

func TestSetupErrors(t *testing.T) {
	w := newWorld(t, 8, 0)
	for name, tc := range map[string]struct {
		mutate func(*ring.Config)
		want   error
	}{
		"size 0":          {func(c *ring.Config) { c.Size = 0 }, ring.ErrSize},
		"size 3":          {func(c *ring.Config) { c.Size = 3 }, ring.ErrSize},
		"size 255":        {func(c *ring.Config) { c.Size = 255 }, ring.ErrSize},
		"size 65535":      {func(c *ring.Config) { c.Size = 65535 }, ring.ErrSize},
		"desc alignment":  {func(c *ring.Config) { c.Desc += 8 }, ring.ErrMisplaced},
		"avail alignment": {func(c *ring.Config) { c.Avail++ }, ring.ErrMisplaced},
		"used alignment":  {func(c *ring.Config) { c.Used += 2 }, ring.ErrMisplaced},
		"desc unmapped":   {func(c *ring.Config) { c.Desc = 0 }, shm.ErrUnmapped},
		"avail unmapped":  {func(c *ring.Config) { c.Avail = memBase + memSize }, shm.ErrUnmapped},
		"used unmapped":   {func(c *ring.Config) { c.Used = 1 << 63 }, shm.ErrUnmapped},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := w.cfg
			tc.mutate(&cfg)
			if _, err := ring.NewDevice(w.mem, cfg); !errors.Is(err, tc.want) {
				t.Errorf("NewDevice: %v, want %v", err, tc.want)
			}
			if _, err := ring.NewDriver(w.mem, cfg); !errors.Is(err, tc.want) {
				t.Errorf("NewDriver: %v, want %v", err, tc.want)
			}
		})
	}
	for _, size := range []uint16{1, 256, 4096} {
		cfg := w.cfg
		cfg.Size = size
		if _, err := ring.NewDevice(w.mem, cfg); err != nil {
			t.Errorf("size %d: %v", size, err)
		}
	}
}
