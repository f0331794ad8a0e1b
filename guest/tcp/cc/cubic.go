package cc

import "math/bits"

// Constants of CUBIC with the kernel's default parameters: beta 717/1024 and
// scale 41 (net/ipv4/tcp_cubic.c).
const (
	cubicBeta     = 717
	cubicUnit     = 1024              // beta is out of this
	cubicRTTScale = 41 * 10           // growth per third power of time
	cubicFactor   = 2681735677        // 2^40 / cubicRTTScale
	cubicFriendly = 15                // beta_scale: 8*(1024+717)/3/(1024-717)
	cubicHZLog    = 10                // K and t are in 1/1024 s
	cubicShift    = 10 + 3*cubicHZLog // scale of the cube
	ackRatioShift = 4
	ackRatioLimit = 32 << ackRatioShift
)

// cubic is CUBIC (net/ipv4/tcp_cubic.c, v3.8 to v6.12). The cube root is exact,
// where the kernel's is a table and one Newton step, off by about 0.2 %.
type cubic struct {
	opt Options
	hy  hystart

	cnt      uint32 // segments to acknowledge for an increase
	lastMax  uint32 // window before the last reduction
	lastCwnd uint32
	lastTick uint32
	origin   uint32
	k        uint32 // time from epoch to origin, 1/1024 s
	delayMin uint32 // least round trip, µs; with old HyStart in ms times 8, as it kept it
	epoch    uint32 // tick of the start of this growth; 0: none
	hasEpoch bool
	ackCnt   uint32
	renoCwnd uint32 // what Reno would have
	ackRatio uint32 // segments per ACK, scaled
}

func newCubic(o Options) *cubic {
	c := &cubic{opt: o}
	c.hy.opt = &c.opt
	c.reset()
	return c
}

func (*cubic) Name() string { return "cubic" }

func (c *cubic) Init(_ *Window, s *Sample) {
	c.reset()
	if c.opt.Hystart != HystartOff {
		c.hy.start(s)
	}
}

// reset forgets everything but the options (bictcp_reset).
func (c *cubic) reset() {
	c.cnt, c.lastMax, c.lastCwnd, c.lastTick = 0, 0, 0, 0
	c.origin, c.k, c.delayMin = 0, 0, 0
	c.epoch, c.hasEpoch, c.ackCnt, c.renoCwnd = 0, false, 0, 0
	c.ackRatio = 2 << ackRatioShift
	c.hy.found = false
}

// Ssthresh is beta times the window. A window that did not reach the last one's
// height makes room for others (fast convergence).
func (c *cubic) Ssthresh(w *Window, _ *Sample) uint32 {
	c.hasEpoch = false
	if w.Cwnd < c.lastMax {
		c.lastMax = uint32(uint64(w.Cwnd) * (cubicUnit + cubicBeta) / (2 * cubicUnit))
	} else {
		c.lastMax = w.Cwnd
	}
	return max(uint32(uint64(w.Cwnd)*cubicBeta/cubicUnit), 2)
}

// Undo is the window before the reduction (tcp_reno_undo_cwnd, v4.14).
func (*cubic) Undo(w *Window, s *Sample) uint32 { return max(w.Cwnd, s.PriorCwnd) }

// OnState starts from nothing after a timeout.
func (c *cubic) OnState(_ *Window, s *Sample, to State) {
	if to == Loss {
		c.reset()
		c.hy.start(s)
	}
}

// OnEvent moves the epoch when the application was idle, so that idle time does
// not count as growth (v4.3).
func (c *cubic) OnEvent(_ *Window, s *Sample, e Event) {
	if e != TxStart || !c.opt.IdleShift || !c.hasEpoch {
		return
	}
	if idle := int32(s.Jiffies - s.LastSend); idle > 0 {
		c.epoch += uint32(idle)
		if int32(c.epoch-s.Jiffies) > 0 {
			c.epoch = s.Jiffies
		}
	}
}

// OnRTT feeds the delayed ACK ratio, the least round trip and HyStart
// (bictcp_acked). Samples right after a recovery are not used.
func (c *cubic) OnRTT(w *Window, s *Sample) {
	if c.opt.AckRatio && s.Acked > 0 {
		r := c.ackRatio - c.ackRatio>>ackRatioShift + s.Acked
		c.ackRatio = min(r, ackRatioLimit)
	}
	if s.RTT < 0 || (c.hasEpoch && int32(s.Jiffies-c.epoch) < int32(c.opt.HZ)) {
		return
	}
	delay := c.hy.unit(s.RTT)
	if c.delayMin == 0 || c.delayMin > delay {
		c.delayMin = delay
	}
	if c.opt.Hystart != HystartOff && !c.hy.found && c.hy.slowStart(w) {
		c.hy.update(w, s, delay, c.delayMin)
	}
}

func (c *cubic) OnAck(w *Window, s *Sample) {
	if !s.CwndLimited {
		return
	}
	if h := c.opt.Hystart; (h == HystartOld || h == HystartUs) && c.hy.slowStart(w) && c.hy.roundOver(s) {
		c.hy.start(s)
	}
	acked, more := c.opt.slowStart(w, s.Acked)
	if !more {
		return
	}
	acked = c.opt.avoidAcked(acked)
	c.update(w.Cwnd, acked, s)
	additive(w, c.cnt, acked)
}

// update computes how many segments must be acknowledged before the window
// grows by one (bictcp_update).
func (c *cubic) update(cwnd, acked uint32, s *Sample) {
	c.ackCnt += acked
	if c.lastCwnd == cwnd && int32(s.Jiffies-c.lastTick) <= int32(c.opt.HZ/32) {
		return
	}
	if !c.hasEpoch || s.Jiffies != c.lastTick {
		c.lastCwnd, c.lastTick = cwnd, s.Jiffies
		c.curve(cwnd, acked, s)
	}
	c.friendly(cwnd)
	if c.opt.AckRatio {
		c.cnt = max((c.cnt<<ackRatioShift)/c.ackRatio, 1)
		return
	}
	c.cnt = max(c.cnt, 2)
}

// curve follows the cubic function towards, and beyond, the last maximum.
func (c *cubic) curve(cwnd, acked uint32, s *Sample) {
	if !c.hasEpoch {
		c.startEpoch(cwnd, acked, s.Jiffies)
	}
	ticks := int64(int32(s.Jiffies-c.epoch)) + c.hy.ticks(c.delayMin)
	t := uint64(ticks) << cubicHZLog / uint64(c.opt.HZ)
	off := t - uint64(c.k)
	if t < uint64(c.k) {
		off = uint64(c.k) - t
	}
	delta := uint32(cubicRTTScale * off * off * off >> cubicShift)
	target := c.origin + delta
	if t < uint64(c.k) {
		target = c.origin - delta
	}
	if target > cwnd {
		c.cnt = cwnd / (target - cwnd)
	} else {
		c.cnt = 100 * cwnd
	}
	if c.lastMax == 0 && c.cnt > 20 {
		c.cnt = 20 // the first growth, without a maximum known, is 5 % per round trip
	}
}

// startEpoch begins a period of growth.
func (c *cubic) startEpoch(cwnd, acked, now uint32) {
	c.epoch, c.hasEpoch = now, true
	c.ackCnt, c.renoCwnd = acked, cwnd
	if c.lastMax <= cwnd {
		c.k, c.origin = 0, cwnd
		return
	}
	c.k = cbrt(cubicFactor * uint64(c.lastMax-cwnd))
	c.origin = c.lastMax
}

// friendly never grows slower than Reno would.
func (c *cubic) friendly(cwnd uint32) {
	step := cwnd * cubicFriendly >> 3
	if step > 0 && c.ackCnt > step {
		n := (c.ackCnt - 1) / step
		c.ackCnt -= n * step
		c.renoCwnd += n
	}
	if c.renoCwnd > cwnd {
		c.cnt = min(c.cnt, cwnd/(c.renoCwnd-cwnd))
	}
}

// cbrt is the integer cube root.
func cbrt(n uint64) uint32 {
	if n == 0 {
		return 0
	}
	x := uint64(1) << ((bits.Len64(n) + 2) / 3) // at least the root
	for {
		y := (2*x + n/(x*x)) / 3
		if y >= x {
			return uint32(x)
		}
		x = y
	}
}
