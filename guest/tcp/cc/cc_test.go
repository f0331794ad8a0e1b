package cc_test

import (
	"errors"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/guest/tcp/cc"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

func modern(t *testing.T, name string) cc.Controller {
	c, err := cc.New(name, cc.Options{HZ: 1000, Hystart: cc.HystartRound, StretchSlowStart: true, StretchAvoid: true,
		IdleShift: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lossBased are the algorithms that grow a window until it loses packets.
var lossBased = []string{"cubic", "dctcp", "reno"}

func TestNew(t *testing.T) {
	for _, n := range cc.Names() {
		if c := modern(t, n); c.Name() != n {
			t.Errorf("%s calls itself %s", n, c.Name())
		}
	}
	if _, err := cc.New("vegas", cc.Options{}); !errors.Is(err, cc.ErrUnknown) {
		t.Errorf("vegas: %v", err)
	}
	if cc.Loss.String() != "loss" || cc.State(9).String() != "unknown" {
		t.Error("state names")
	}
}

// TestSsthresh: thresholds that real kernels set on loss.
func TestSsthresh(t *testing.T) {
	for _, c := range []struct {
		alg        string
		cwnd, want uint32
	}{
		{"cubic", 194, 135}, {"cubic", 135, 94}, {"cubic", 212, 148}, {"cubic", 148, 103}, {"cubic", 2, 2},
		{"reno", 993, 496}, {"reno", 3, 2},
	} {
		w := cc.Window{Cwnd: c.cwnd, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 30}
		if got := modern(t, c.alg).Ssthresh(&w, &cc.Sample{}); got != c.want {
			t.Errorf("%s at %d: %d, want %d", c.alg, c.cwnd, got, c.want)
		}
	}
}

func TestRenoGrowth(t *testing.T) {
	r := modern(t, "reno")
	w := cc.Window{Cwnd: 10, Ssthresh: 14, Clamp: 1 << 30}
	ack := func(n uint32) uint32 {
		r.OnAck(&w, &cc.Sample{Acked: n, CwndLimited: true})
		return w.Cwnd
	}
	for i, want := range []uint32{12, 14, 14, 14, 14, 14, 14, 14, 15} {
		if got := ack(2); got != want {
			t.Fatalf("ack %d: window %d, want %d", i, got, want)
		}
	}
	r.OnAck(&w, &cc.Sample{Acked: 50})
	if w.Cwnd != 15 {
		t.Errorf("window %d grew although it was not used", w.Cwnd)
	}
}

// TestOldGrowth: before v3.13 an ACK counts for one segment, and the threshold
// itself belongs to slow start.
func TestOldGrowth(t *testing.T) {
	for _, alg := range lossBased {
		c, _ := cc.New(alg, cc.Options{HZ: 1000, Hystart: cc.HystartOld, DelayShift: 4, AckRatio: true})
		w := cc.Window{Cwnd: 10, Ssthresh: 11, Clamp: 1 << 30}
		for i, want := range []uint32{11, 12, 12} {
			c.OnAck(&w, &cc.Sample{Acked: 40, CwndLimited: true, Jiffies: uint32(100 + i)})
			if w.Cwnd != want {
				t.Errorf("%s, ack %d: window %d, want %d", alg, i, w.Cwnd, want)
			}
		}
	}
}

// TestCubicCurve: after a loss the window comes back to where it was after K
// seconds, K being the cube root of the distance over C, and not before.
func TestCubicCurve(t *testing.T) {
	c := modern(t, "cubic")
	w := cc.Window{Cwnd: 1000, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 30}
	w.Ssthresh = c.Ssthresh(&w, &cc.Sample{})
	w.Cwnd = w.Ssthresh
	at := uint32(0) // ms until 99 % of the old window
	for now := uint32(1000); now < 30000 && w.Cwnd < 1100; now += 20 {
		for range 20 {
			onRTT(c, &w, &cc.Sample{Jiffies: now, RTT: 20000, Now: vtime.Time(now) * 1e6})
			c.OnAck(&w, &cc.Sample{Acked: w.Cwnd / 20, CwndLimited: true, Jiffies: now, Now: vtime.Time(now) * 1e6})
		}
		if at == 0 && w.Cwnd >= 990 {
			at = now - 1000
		}
	}
	// (1000-700)/0.4 = 750, its cube root 9.08 s; 99 % is reached (10/0.4)^(1/3) = 2.9 s earlier.
	if at < 5900 || at > 6500 {
		t.Errorf("99 %% of the old window after %d ms, want about 6160", at)
	}
}

// TestTimeoutForgets: a timeout starts CUBIC from nothing.
func TestTimeoutForgets(t *testing.T) {
	c := modern(t, "cubic")
	w := cc.Window{Cwnd: 100, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 30}
	c.Ssthresh(&w, &cc.Sample{})
	c.OnState(&w, &cc.Sample{}, cc.Loss)
	w.Cwnd = 80
	if got := c.Ssthresh(&w, &cc.Sample{}); got != 56 {
		t.Errorf("threshold %d", got)
	}
	w.Cwnd = 60 // below the last maximum of 80: fast convergence, which the threshold does not show
	if got := c.Ssthresh(&w, &cc.Sample{}); got != 42 {
		t.Errorf("threshold %d", got)
	}
}

// TestHystartTrain: slow start ends when the ACKs of a round, none more than
// 2 ms after the last, span more than (RTT + ack delay)/2.
func TestHystartTrain(t *testing.T) {
	for _, paced := range []bool{false, true} {
		c := modern(t, "cubic")
		w := cc.Window{Cwnd: 100, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 30}
		s := cc.Sample{RTT: 10000, SndNxt: 1 << 20, PacingRate: 1 << 40, GSOMaxSize: 65215, Paced: paced, CwndLimited: true}
		s.Now = 1e9
		c.Init(&w, &s)
		s.SndUna = 1
		for w.Ssthresh == cc.InfiniteSsthresh && s.Now < 2e9 {
			s.Now += 1e6
			onRTT(c, &w, &s)
		}
		want := vtime.Time(1e9 + 6e6)
		if paced {
			want = 1e9 + 11e6
		}
		if s.Now != want || w.Ssthresh != 100 {
			t.Errorf("paced %v: found after %d ns, threshold %d", paced, s.Now-1e9, w.Ssthresh)
		}
	}
}

// TestHystartDelay: eight round trips are taken, then one that is clearly longer
// than the least ends slow start.
func TestHystartDelay(t *testing.T) {
	for _, c := range []struct {
		form  cc.HystartKind
		extra int64
		found bool
	}{
		{cc.HystartRound, 12600, true}, {cc.HystartRound, 12400, false},
		{cc.HystartOld, 13000, true}, {cc.HystartOld, 12000, false},
	} {
		ctl, _ := cc.New("cubic", cc.Options{HZ: 1000, Hystart: c.form, HystartDetect: 2, DelayShift: 3,
			StretchSlowStart: true, StretchAvoid: true})
		w := cc.Window{Cwnd: 100, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 30}
		s := cc.Sample{RTT: 100_000, Now: 1e9, SndNxt: 1000}
		ctl.Init(&w, &s)
		onRTT(ctl, &w, &s)
		s.SndUna = 2000
		ctl.OnAck(&w, &s)
		s.CwndLimited = true
		ctl.OnAck(&w, &s)
		s.RTT += c.extra
		s.SndNxt, s.SndUna = 1<<20, 3000
		for range 12 {
			s.Now += 10e6
			onRTT(ctl, &w, &s)
			if c.form == cc.HystartOld {
				s.SndUna++
			}
		}
		if got := w.Ssthresh != cc.InfiniteSsthresh; got != c.found {
			t.Errorf("form %d, %d µs more: found %v", c.form, c.extra, got)
		}
	}
}

// TestRandomAcks: no sequence of events moves a window out of its bounds or
// panics.
func TestRandomAcks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := cc.Options{
			HZ:               rapid.SampledFrom([]uint32{1, 100, 250, 1000}).Draw(rt, "hz"),
			Hystart:          cc.HystartKind(rapid.IntRange(0, int(cc.HystartRound)).Draw(rt, "hystart")),
			StretchSlowStart: rapid.Bool().Draw(rt, "ss"), StretchAvoid: rapid.Bool().Draw(rt, "ca"),
			AckRatio: rapid.Bool().Draw(rt, "ratio"), IdleShift: rapid.Bool().Draw(rt, "idle"), DelayShift: 3,
		}
		c, _ := cc.New(rapid.SampledFrom(lossBased).Draw(rt, "alg"), o)
		w := cc.Window{Cwnd: 10, Ssthresh: cc.InfiniteSsthresh, Clamp: 1 << 20}
		s := cc.Sample{Now: 1e9, MSS: 1448, PacingRate: 1e6, GSOMaxSize: 65536}
		c.Init(&w, &s)
		for range rapid.IntRange(1, 100).Draw(rt, "n") {
			s.Now += vtime.Time(rapid.Int64Range(0, 1e9).Draw(rt, "dt"))
			s.Jiffies = uint32(int64(s.Now) * int64(o.HZ) / 1e9)
			s.Acked = rapid.Uint32Range(0, 1000).Draw(rt, "acked")
			s.RTT = rapid.Int64Range(-1, 1e7).Draw(rt, "rtt")
			s.SndUna += s.Acked
			s.SndNxt = s.SndUna + 1000
			s.CwndLimited = rapid.Bool().Draw(rt, "limited")
			switch rapid.IntRange(0, 6).Draw(rt, "event") {
			case 0:
				w.Ssthresh = c.Ssthresh(&w, &s)
				w.Cwnd = w.Ssthresh
			case 1:
				c.OnState(&w, &s, cc.Loss)
				w.Cwnd = 1
			case 2:
				c.OnEvent(&w, &s, cc.TxStart)
			default:
				before := w.Cwnd
				onRTT(c, &w, &s)
				c.OnAck(&w, &s)
				if w.Cwnd < before {
					rt.Fatalf("an ACK lowered the window from %d to %d", before, w.Cwnd)
				}
			}
			if w.Cwnd < 1 || w.Cwnd > w.Clamp || w.Ssthresh < 2 {
				rt.Fatalf("%+v", w)
			}
		}
	})
}

// TestCbrt compares the integer root with exact arithmetic.
func TestCbrt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Uint64Range(0, 1<<62).Draw(rt, "n")
		r := new(big.Int).SetUint64(uint64(cc.Cbrt(n)))
		next := new(big.Int).Add(r, big.NewInt(1))
		want := new(big.Int).SetUint64(n)
		if new(big.Int).Exp(r, big.NewInt(3), nil).Cmp(want) > 0 || new(big.Int).Exp(next, big.NewInt(3), nil).Cmp(want) <= 0 {
			rt.Fatalf("cube root of %d is not %v", n, r)
		}
	})
}

// onRTT gives an algorithm that looks at round trips one.
func onRTT(c cc.Controller, w *cc.Window, s *cc.Sample) {
	if r, ok := c.(cc.RTTController); ok {
		r.OnRTT(w, s)
	}
}
