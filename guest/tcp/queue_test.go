package tcp_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
)

// captured is a world that keeps the payload runs of its packets.
type captured struct {
	*world
	frags [][]skb.Frag
}

func (c *captured) Transmit(s *tcp.Sock, p *skb.SKB) bool {
	c.frags = append(c.frags, append([]skb.Frag(nil), p.Frags[:p.NFrags]...))
	return c.world.Transmit(s, p)
}

func capture(t *testing.T, kernel string, mod func(*tcp.Config)) *captured {
	c := &captured{world: newWorld(t, kernel)}
	k, _ := tcp.Release(kernel)
	cfg := k.Config()
	cfg.Sndbuf, cfg.NoDelay = 1<<22, true
	mod(&cfg)
	var err error
	if c.s, err = tcp.NewSock(0, cfg, c, &c.pool); err != nil {
		t.Fatal(err)
	}
	c.noAck = true
	c.open()
	c.s.SetCwnd(1000, 1<<30)
	return c
}

// TestPageFrags: payload lies in pages of 32 KiB, one write after the other;
// what continues in a page extends the run.
func TestPageFrags(t *testing.T) {
	c := capture(t, "6.12", func(c *tcp.Config) { c.ArenaBase, c.ArenaPages = 1<<20, 4 })
	for range 3 {
		c.send(40000, 0)
	}
	base := uint64(1 << 20)
	want := [][]skb.Frag{
		{{Addr: base, Len: 32768}, {Addr: base + 32768, Len: 40000 - 32768}},
		{{Addr: base + 40000, Len: 65536 - 40000}, {Addr: base + 65536, Len: 80000 - 65536}},
		{{Addr: base + 80000, Len: 98304 - 80000}, {Addr: base, Len: 120000 - 98304}},
	}
	if d := cmp.Diff(want, c.frags); d != "" {
		t.Error(d)
	}
}

// TestLinear: in v3.8 the head of every entry takes the first 1424 bytes, so that
// a small packet needs no page; since v5.15 none does.
func TestLinear(t *testing.T) {
	for k, want := range map[string][]uint32{"3.8": {1424, 576}, "6.12": {2000}} {
		c := capture(t, k, func(c *tcp.Config) { c.MSS = 4000 })
		c.send(2000, 0)
		var got []uint32
		for _, f := range c.frags[0] {
			got = append(got, f.Len)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", k, d)
		}
	}
}

// TestFragLimit: an entry with max_skb_frags runs is closed, with PSH, and the
// bytes go on in a new one.
func TestFragLimit(t *testing.T) {
	c := capture(t, "6.12", func(c *tcp.Config) {
		c.IPv6, c.MSS, c.GSOMaxSize = true, 4000, 400000
		c.Sysctl.MaxSKBFrags = 2
	})
	c.s.SetRate(1<<50, 10)
	c.send(200_000, 0)
	for i, f := range c.frags {
		if len(f) > 17 {
			t.Errorf("packet %d has %d runs", i, len(f))
		}
	}
	// Growing shifts runs of the follower, up to the limit of 17, not that of the sysctl.
	if n := c.s.Info().Counters; n.Writes != 1 || n.Bytes == 0 {
		t.Errorf("%+v", n)
	}
}

// TestSizeGoal: the goal per era, S4 among them.
func TestSizeGoal(t *testing.T) {
	for _, c := range []struct {
		kernel string
		want   uint32
	}{{"3.8", 65160}, {"4.1", 65160}, {"5.18", 65160}, {"6.12", 65160}} {
		w := newWorld(t, c.kernel, func(f *tcp.Config) { f.Sndbuf = 1 << 22 })
		w.noAck = true
		w.open()
		w.s.SetCwnd(1, 1<<30)
		w.write(200_000, 200_000)
		if got := w.s.Info().SizeGoal; got != c.want {
			t.Errorf("%s: size goal %d, want %d", c.kernel, got, c.want)
		}
	}
	w := newWorld(t, "3.12")
	w.open()
	w.s.SetRate(20_000_000, 1000)
	w.send(1, 0)
	if got := w.s.Info().SizeGoal; got != 6*1448 {
		t.Errorf("3.12 at 20 MB/s: goal %d, want what fits in half a millisecond, %d", got, 6*1448)
	}
	w = newWorld(t, "6.12")
	w.first = 20000
	w.open()
	w.send(1, 0)
	if got := w.s.Info().SizeGoal; got != 6*1448 {
		t.Errorf("goal %d under a window of 20000, want %d", got, 6*1448)
	}
}

// TestSndbuf: the buffer starts at ten segments with the worst overhead, twice,
// and a write sleeps when it is full.
func TestSndbuf(t *testing.T) {
	w := newWorld(t, "6.1", func(c *tcp.Config) { c.MaxHdr = 320 }).open()
	if got := w.s.Info().Sndbuf; got != 87040 {
		t.Errorf("send buffer %d, want 87040", got)
	}
	w.noAck = true
	n := w.send(1<<20, 0)
	i := w.s.Info()
	if n >= 1<<20 || n < 87040-1280 || i.Counters.Sleeps != 1 || i.WmemQueued < i.Sndbuf {
		t.Errorf("accepted %d bytes; %+v", n, i)
	}
	w.blocked = true
	for range 2 { // opens a third of the buffer, and lets it grow with the window
		_, nxt, _, _ := w.s.Seqs()
		w.ack(nxt)
	}
	if got := w.s.Info(); w.blocked || got.Sndbuf <= 87040 {
		t.Errorf("writer still waits, or the buffer did not grow: %+v", got)
	}
}

// TestRules: packets say which decision bounded them.
func TestRules(t *testing.T) {
	rules := func(w *world) []tcp.Rule {
		var r []tcp.Rule
		for _, p := range w.sent {
			r = append(r, p.rule)
		}
		return r
	}
	w := newWorld(t, "6.1")
	w.noAck = true
	w.open().write(1000, 1000)
	w2 := newWorld(t, "6.1")
	w2.noAck = true
	w2.open().write(50_000, 50_000)
	w3 := scripted(t, "6.1", 10*ms, 5500)
	w3.noAck = true
	w3.write(10_000, 10_000)
	w4 := newWorld(t, "3.8")
	w4.noAck = true
	w4.open()
	w4.s.SetCwnd(1000, 1<<30)
	w4.write(1024*3, 1024)
	w5 := newWorld(t, "6.1", func(c *tcp.Config) { c.Sndbuf = 1 << 20 })
	w5.noAck, w5.rtt = true, 100*us
	w5.open()
	w5.s.SetCwnd(1000, 1<<30)
	w5.write(200_000, 200_000)
	for name, c := range map[string]struct{ got, want []tcp.Rule }{
		"tail":  {rules(w), []tcp.Rule{tcp.RuleTail}},
		"cwnd":  {rules(w2), []tcp.Rule{tcp.RuleCwnd, tcp.RuleCwnd}},
		"rwnd":  {rules(w3), []tcp.Rule{tcp.RuleAutosize, tcp.RuleAutosize, tcp.RuleRwnd}},
		"nagle": {rules(w4), []tcp.Rule{tcp.RuleTail, tcp.RuleNagle}},
		"size":  {rules(w5)[:3], []tcp.Rule{tcp.RuleAutosize, tcp.RuleAutosize, tcp.RuleAutosize}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestOtherQueue: a packet may change its queue only if nothing else of the
// socket is below TCP, or since v6.7 if nothing else is outstanding.
func TestOtherQueue(t *testing.T) {
	for _, v := range []struct {
		kernel    string
		hold, ack bool
		again     bool
	}{
		{"6.1", false, false, true}, {"6.1", true, false, false}, {"6.1", true, true, false},
		{"6.12", false, false, true}, {"6.12", true, false, false}, {"6.12", true, true, true},
	} {
		var ok []bool
		c := &asking{world: newWorld(t, v.kernel), ask: func(s *tcp.Sock, p *skb.SKB) { ok = append(ok, s.OOOOkay(p)) }}
		k, _ := tcp.Release(v.kernel)
		cfg := k.Config()
		cfg.NoDelay, cfg.Sysctl.Autocorking = true, 0
		c.s, _ = tcp.NewSock(0, cfg, c, &c.pool)
		c.noAck = true
		if v.hold {
			c.napi = ms
		}
		c.open()
		c.send(1000, 0)
		if v.ack {
			c.ack(1001)
		}
		c.send(1000, 0)
		if d := cmp.Diff([]bool{true, v.again}, ok); d != "" {
			t.Errorf("%+v: %s", v, d)
		}
	}
}

type asking struct {
	*world
	ask func(*tcp.Sock, *skb.SKB)
}

func (a *asking) Transmit(s *tcp.Sock, p *skb.SKB) bool {
	a.ask(s, p)
	return a.world.Transmit(s, p)
}
