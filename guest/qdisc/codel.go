package qdisc

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// codelTime is CoDel's clock: units of 1024 ns that wrap around
// (include/net/codel.h, v6.1).
type codelTime uint32

func codelClock(t vtime.Time) codelTime        { return codelTime(t >> 10) }
func codelSpan(d time.Duration) codelTime      { return codelTime(d >> 10) }
func (t codelTime) after(u codelTime) bool     { return int32(t-u) > 0 }
func (t codelTime) before(u codelTime) bool    { return int32(t-u) < 0 }
func (t codelTime) notBefore(u codelTime) bool { return int32(t-u) >= 0 }

// codel is the state of CoDel for one queue (RFC 8289; include/net/codel_impl.h,
// v6.1 and v6.12, which agree). Each packet that is taken out tells how long it
// waited. Once packets have waited longer than the target for a whole interval,
// the first is dropped, or marked, and others follow, at times that come closer
// with the square root of their number, until one has waited for less. If that
// was not long ago when it begins again, the pace goes on from what was reached.
type codel struct {
	count, last uint32 // drops since it began; count when it began
	dropping    bool
	inverse     uint16    // 1/sqrt(count), as a fraction of 2^16
	above       codelTime // when packets will have waited too long for an interval; 0 if they do not
	next        codelTime // of the next drop
	waited      codelTime // by the last packet taken out
}

// begin enters the dropping state with the first drop done.
func (c *codel) begin(now, interval codelTime) {
	c.dropping = true
	delta := c.count - c.last
	if delta > 1 && (now - c.next).before(16*interval) {
		c.count = delta
		c.improve()
	} else {
		c.count, c.inverse = 1, 0xffff
	}
	c.last = c.count
	c.schedule(now, interval)
}

// schedule sets the next drop to an interval over the square root of the count
// after from.
func (c *codel) schedule(from, interval codelTime) {
	c.next = from + codelTime(uint64(interval)*(uint64(c.inverse)<<16)>>32)
}

// improve brings the inverse square root closer to that of count, by one step of
// Newton's method in fixed point, with the kernel's roundings.
func (c *codel) improve() {
	x := uint64(c.inverse) << 16
	v := 3<<32 - uint64(c.count)*((x*x)>>32)
	c.inverse = uint16(((v >> 2) * x) >> 47)
}

// tooLong reports whether a packet that waited for so long may be dropped. calm
// says that the wait does not count, because hardly anything else waits.
func (c *codel) tooLong(now, waited, target, interval codelTime, calm bool) bool {
	c.waited = waited
	switch {
	case waited.before(target) || calm:
		c.above = 0
	case c.above == 0:
		c.above = now + interval
	default:
		return now.after(c.above)
	}
	return false
}
