package driver

import (
	"math"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// bqlHold is how long slack is watched before the limit goes down
// (slack_hold_time, lib/dynamic_queue_limits.c, all releases).
const bqlHold = time.Second

// bql is a dynamic limit of the bytes that are in the ring: high enough that the
// device is never without work while packets wait for it, and no higher (byte
// queue limits, lib/dynamic_queue_limits.c, v6.11).
//
// It goes up when the device ran dry although the limit had held packets back,
// by what had been queued since. It goes down by the least slack seen within
// bqlHold.
type bql struct {
	in, done int64 // bytes queued and completed, ever
	limit    int64
	ceiling  int64 // in may go beyond this by one packet: limit + done

	lastIn    int64 // in at the last completion
	lastOver  int64 // by how much in was over the limit then
	lastSize  int64 // size of the packet queued last
	prevSize  int64 // the same at the last completion
	slack     int64 // least seen since slackFrom
	slackFrom vtime.Time
	stopped   bool
}

func (b *bql) init() { b.slack = math.MaxInt64 }

// queued counts a packet that went into the ring.
func (b *bql) queued(n int64) {
	b.lastSize = n
	b.in += n
}

// room is how many bytes fit below the limit; negative if it is passed.
func (b *bql) room() int64 { return b.ceiling - b.in }

func (b *bql) full() bool { return b.room() < 0 }

// completed counts n bytes reaped at once, and moves the limit.
func (b *bql) completed(now vtime.Time, n int64) {
	var (
		over    = max(0, b.in-b.done-b.limit)
		done    = b.done + n
		left    = b.in - done
		hadLeft = b.lastIn - b.done
		allOld  = done >= b.lastIn // all that was queued at the last completion
		limit   = b.limit
	)
	switch {
	case over > 0 && left == 0, b.lastOver > 0 && allOld:
		limit += max(0, done-b.lastIn) + b.lastOver
		b.slackFrom, b.slack = now, math.MaxInt64
	case left > 0 && hadLeft > 0 && !allOld:
		limit -= b.excess(now, n)
	}
	if limit = max(limit, 0); limit != b.limit {
		b.limit, over = limit, 0
	}
	b.ceiling = limit + done
	b.lastOver, b.prevSize, b.done, b.lastIn = over, b.lastSize, done, b.in
}

// excess watches the slack of a busy device, and returns how much the limit is
// too high once it was watched for long enough.
func (b *bql) excess(now vtime.Time, n int64) int64 {
	slack := max(0, b.limit+b.lastOver-2*n)
	if b.lastOver > 0 {
		slack = max(slack, b.prevSize-b.lastOver)
	}
	b.slack = min(b.slack, slack)
	if now <= b.slackFrom.Add(bqlHold) {
		return 0
	}
	least := b.slack
	b.slackFrom, b.slack = now, math.MaxInt64
	return min(least, b.limit)
}
