package driver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

func TestConfigurationsThatAreRefused(t *testing.T) {
	modern, old := release(t, "6.12").Switches, release(t, "3.8").Switches
	for _, c := range []struct {
		cfg  driver.Config
		want error
		says string
	}{
		{driver.Config{Switches: old, NAPI: true}, driver.ErrNoNAPI, "napi_tx"},
		{driver.Config{Switches: modern, Pairs: -1}, driver.ErrConfig, "-1 queue pairs"},
		{driver.Config{Switches: modern, RingSize: 100}, driver.ErrConfig, "100 entries"},
		{driver.Config{Switches: modern, RingSize: 16}, driver.ErrConfig, "from 32"},
		{driver.Config{Switches: modern, RxBufLen: 64}, driver.ErrConfig, "64 bytes"},
	} {
		_, err := driver.MemoryNeeded(c.cfg)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}

func TestTooLittleMemory(t *testing.T) {
	cfg := release(t, "6.12")
	cfg.ArenaBytes = 1 << 20
	need, err := driver.MemoryNeeded(cfg)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := shm.NewMemory([]shm.Region{{GPA: base, Mem: make([]byte, need)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.New(mem, driver.NewLayout(base, need-1), new(counts), cfg); !errors.Is(err, driver.ErrNoMemory) {
		t.Errorf("a layout one byte short: %v", err)
	}
	if _, err := driver.New(mem, driver.NewLayout(base+need, need), new(counts), cfg); !errors.Is(err, shm.ErrUnmapped) {
		t.Errorf("a layout beside the memory: %v", err)
	}
}

// TestQueuesDoNotOverlap writes to each queue's place by using it.
func TestQueuesDoNotOverlap(t *testing.T) {
	cfg := release(t, "6.12")
	cfg.Pairs = 3
	w := newWorld(t, cfg)
	end := uint64(0)
	for i := range 3 {
		for _, r := range []uint64{w.net.RxRing(i).Desc, w.net.TxRing(i).Desc} {
			if r <= end {
				t.Errorf("pair %d: ring at %#x, the one before ends behind it", i, r)
			}
			end = r
		}
	}
	if w.net.Arena() <= w.net.CtrlRing().Desc || w.net.Config().Pairs != 3 {
		t.Errorf("arena at %#x", w.net.Arena())
	}
}

func TestControlQueue(t *testing.T) {
	cfg := release(t, "6.12")
	cfg.Pairs = 4
	w := newWorld(t, cfg)
	c := w.net.Ctrl()
	for _, answer := range []byte{0, 1} {
		kick, err := c.SetPairs(4)
		if err != nil || kick != (answer == 0) { // the device does not ask for the second
			t.Fatalf("kick %v, %v", kick, err)
		}
		if _, err := c.SetPairs(2); !errors.Is(err, driver.ErrCtrlBusy) {
			t.Fatalf("a second command: %v", err)
		}
		if done, _ := c.Done(); done {
			t.Fatal("done before the device looked")
		}
		ok, err := w.ctl.Next(&w.chain)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if d := cmp.Diff([][]byte{{4, 0}, {4, 0}}, w.chain.Out); d != "" {
			t.Fatalf("command (-want +got):\n%s", d)
		}
		w.chain.In[0][0] = answer
		w.ctl.Push(w.chain.Head, 1)
		w.ctl.Publish()
		done, err := c.Done()
		if !done || errors.Is(err, driver.ErrCtrlNAK) != (answer == 1) {
			t.Fatalf("answer %d: done %v, %v", answer, done, err)
		}
	}
	if _, err := c.Send(1, 0, make([]byte, 57)); !errors.Is(err, driver.ErrCtrlData) {
		t.Errorf("57 bytes: %v", err)
	}
	cfg.Features = driver.DefaultFeatures &^ (virtio.FeatureCtrlVQ | virtio.FeatureMQ)
	if newWorld(t, cfg).net.Ctrl() != nil {
		t.Error("a control queue that was not negotiated")
	}
}

func TestReleases(t *testing.T) {
	if _, err := driver.Release("7.0"); !errors.Is(err, driver.ErrRelease) || !strings.Contains(err.Error(), "3.8") {
		t.Error(err)
	}
	var zero driver.Switches
	if got := release(t, "3.8").Switches; got != zero {
		t.Errorf("3.8 is %+v", got)
	}
	want := driver.Switches{InlineHeader: true, XmitMore: true, HasNAPI: true, ZeroEvent: true,
		CleanRxCalls: true, RefillEarly: true, BQL: true, Steering: driver.SteerStriped}
	if d := cmp.Diff(want, release(t, "6.12").Switches); d != "" {
		t.Errorf("6.12 (-want +got):\n%s", d)
	}
}

func TestSwitches(t *testing.T) {
	for _, name := range driver.SwitchNames() {
		values := driver.SwitchValues(name)
		for _, v := range values {
			var s driver.Switches
			if err := s.Set("driver."+name, v); err != nil || s.Get(name) != v {
				t.Errorf("%s=%s: %v, then %q", name, v, err, s.Get(name))
			}
		}
	}
	var s driver.Switches
	for _, kv := range [][2]string{{"turbo", "on"}, {"bql", "maybe"}, {"steering", "off"}} {
		if err := s.Set(kv[0], kv[1]); !errors.Is(err, driver.ErrSwitch) {
			t.Errorf("%v: %v", kv, err)
		}
	}
	if s.Get("turbo") != "" || driver.SwitchValues("turbo") != nil {
		t.Error("a switch that is none has values")
	}
}

func TestCanGSO(t *testing.T) {
	var c driver.Config
	if !c.CanGSO() {
		t.Error("the default device cannot segment")
	}
	c.Features = driver.DefaultFeatures &^ virtio.FeatureHostTSO4
	if c.CanGSO() {
		t.Error("without HOST_TSO4 it can")
	}
}
