package link_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/link"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func newLink(t testing.TB, cfg link.Config) *link.Link {
	l, err := link.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRateAndDelay(t *testing.T) {
	for _, c := range []struct {
		cfg            link.Config
		bytes          int64
		depart, arrive vtime.Time
	}{
		{link.Config{}, 1514, 1000, 1000},
		{link.Config{Delay: 2 * time.Microsecond}, 1514, 1000, 3000},
		{link.Config{RateBps: 1e9}, 1250, 11000, 11000},
		{link.Config{RateBps: 100e9, Delay: time.Millisecond}, 125, 1010, 1001010},
		{link.Config{RateBps: 1}, 1, 8e9 + 1000, 8e9 + 1000},
	} {
		depart, arrive, fate := newLink(t, c.cfg).Send(1000, c.bytes)
		if depart != c.depart || arrive != c.arrive || fate != link.Arrives {
			t.Errorf("%+v: departs %d arrives %d, fate %d; want %d, %d", c.cfg, depart, arrive, fate, c.depart, c.arrive)
		}
	}
}

// TestRateIsExactInTheLongRun sends 3 Gbit/s, where a byte takes 2 2/3 ns.
func TestRateIsExactInTheLongRun(t *testing.T) {
	l := newLink(t, link.Config{RateBps: 3e9})
	var depart vtime.Time
	for range 300 {
		depart, _, _ = l.Send(0, 1)
	}
	if depart != 800 {
		t.Fatalf("300 bytes took %d ns, want 800", depart)
	}
}

func TestPacketsQueueBehindEachOther(t *testing.T) {
	l := newLink(t, link.Config{RateBps: 8e9, QueuePackets: 3, QueueBytes: 2500}) // a byte per ns
	for i, c := range []struct {
		now    vtime.Time
		bytes  int64
		depart vtime.Time
		fate   link.Fate
	}{
		{0, 1000, 1000, link.Arrives},
		{0, 1000, 2000, link.Arrives},
		{0, 1000, vtime.Never, link.TailDrop}, // 3000 bytes would wait
		{500, 100, 2100, link.Arrives},
		{600, 100, vtime.Never, link.TailDrop}, // a fourth packet
		{1000, 100, 2200, link.Arrives},        // the first has left
		{9000, 1000, 10000, link.Arrives},
	} {
		depart, arrive, fate := l.Send(c.now, c.bytes)
		if depart != c.depart || arrive != c.depart || fate != c.fate {
			t.Errorf("packet %d: departs %d arrives %d fate %d", i, depart, arrive, fate)
		}
	}
	if bytes, packets := l.Backlog(9500); bytes != 1000 || packets != 1 {
		t.Errorf("backlog of %d bytes in %d packets", bytes, packets)
	}
	if bytes, packets := l.Backlog(10000); bytes != 0 || packets != 0 {
		t.Errorf("backlog of %d bytes in %d packets at the end", bytes, packets)
	}
	if s := l.Stats; s.Packets != 7 || s.Tail != 2 || s.Lost != 0 || s.Bytes != 4300 {
		t.Errorf("%+v", s)
	}
}

// loaded are dice with known results.
type loaded []bool

func (d *loaded) Chance(float64) bool {
	v := (*d)[0]
	*d = (*d)[1:]
	return v
}

func TestLoss(t *testing.T) {
	l := newLink(t, link.Config{Lose: []uint64{1, 3}})
	m := newLink(t, link.Config{Loss: 0.5, Dice: &loaded{false, true, false, true, false}})
	for i := range 5 {
		want := link.Arrives
		if i == 1 || i == 3 {
			want = link.Lost
		}
		if _, _, fate := l.Send(0, 1); fate != want {
			t.Errorf("listed loss, packet %d: fate %d", i, fate)
		}
		if _, _, fate := m.Send(0, 1); fate != want {
			t.Errorf("random loss, packet %d: fate %d", i, fate)
		}
	}
	if l.Stats.Lost != 2 || m.Stats.Lost != 2 {
		t.Errorf("lost %d and %d", l.Stats.Lost, m.Stats.Lost)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		cfg  link.Config
		says string
	}{
		{link.Config{RateBps: -1}, "negative"},
		{link.Config{Loss: 1}, "loss 1"},
		{link.Config{Loss: 0.1}, "dice"},
		{link.Config{Lose: []uint64{2, 1}}, "ascending"},
	} {
		if _, err := link.New(c.cfg); !errors.Is(err, link.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	for _, c := range []struct {
		cfg  link.ReceiverConfig
		says string
	}{
		{link.ReceiverConfig{MSS: 10}, "MSS 10"},
		{link.ReceiverConfig{WindowScale: 15}, "scale 15"},
		{link.ReceiverConfig{WindowMax: 100}, "grows to 100"},
		{link.ReceiverConfig{ReadDelay: -1}, "read delay"},
	} {
		if _, err := link.NewReceiver(c.cfg); !errors.Is(err, link.ErrConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}

func TestWireBytes(t *testing.T) {
	// 100 Mbit/s carry 11.956e6 bytes of payload a second at MSS 1448, headers
	// of 66 bytes charged for every segment.
	wire := link.WireBytes(45*1448, 45, 66, 0)
	if got := 100e6 / 8 * 45 * 1448 / float64(wire); got < 11.955e6 || got > 11.957e6 {
		t.Errorf("%.0f bytes of payload a second", got)
	}
}
