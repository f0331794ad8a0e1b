// Package link is the simulated wire behind the device, and the receiver at its
// far end: rate, delay, a drop-tail queue and loss; GRO, delayed
// acknowledgements, the receive window and selective acknowledgements. It is
// without clock, timers, goroutines and packet bytes: it is called with the
// time and with lengths, and answers with times.
package link

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ErrConfig is wrapped by errors that name the field and its bound.
var ErrConfig = errors.New("link configuration")

// Dice decides random losses, so that a run is reproducible: the simulator's
// random stream is one.
type Dice interface {
	Chance(p float64) bool
}

// Config describes one direction of a wire. The zero value is a wire of
// infinite rate, no delay and no loss.
type Config struct {
	RateBps      int64         // bits per second; 0 is infinite
	Delay        time.Duration // of propagation, one way
	QueueBytes   int64         // bytes that may wait or be under way onto the wire; 0 is no limit
	QueuePackets int           // the same in packets; 0 is no limit
	Loss         float64       // probability that a packet that was queued is lost
	Dice         Dice          // needed if Loss is not 0
	Lose         []uint64      // numbers of packets to lose, ascending, the first packet being 0
}

// Stats count what a link did.
type Stats struct {
	Packets uint64 // offered
	Bytes   uint64 // of these, as given to Send
	Tail    uint64 // dropped by a full queue
	Lost    uint64 // lost by Loss or Lose
}

// Link is one direction of a wire. It is not safe for concurrent use.
type Link struct {
	Stats Stats

	cfg    Config
	free   vtime.Time // when the wire is free
	carry  int64      // bit-nanoseconds that did not make a nanosecond yet
	queue  []waiting  // ring of what has not left yet
	head   int
	n      int
	queued int64 // bytes of these
	loses  bool  // packets may be lost on the wire
	last   onWire
}

// onWire is what the last packet took on the wire, so that others of its length
// need no division.
type onWire struct {
	bytes int64
	ns    int64
	rest  int64 // of the division by the rate: bit-nanoseconds
}

// waiting is a packet that has not left the queue.
type waiting struct {
	depart vtime.Time
	bytes  int64
}

// New returns an idle link. The error wraps ErrConfig.
func New(cfg Config) (*Link, error) {
	switch {
	case cfg.RateBps < 0 || cfg.Delay < 0 || cfg.QueueBytes < 0 || cfg.QueuePackets < 0:
		return nil, fmt.Errorf("%w: rate, delay and queue must not be negative", ErrConfig)
	case !(cfg.Loss >= 0 && cfg.Loss < 1):
		return nil, fmt.Errorf("%w: loss %v, want 0 to below 1", ErrConfig, cfg.Loss)
	case cfg.Loss > 0 && cfg.Dice == nil:
		return nil, fmt.Errorf("%w: loss needs dice", ErrConfig)
	case !slices.IsSorted(cfg.Lose):
		return nil, fmt.Errorf("%w: packets to lose are not in ascending order", ErrConfig)
	}
	return &Link{cfg: cfg, loses: cfg.Loss > 0 || len(cfg.Lose) > 0}, nil
}

// Fate is what becomes of a packet.
type Fate uint8

// The fates.
const (
	Arrives  Fate = iota
	TailDrop      // the queue was full
	Lost          // on the wire, after it took its time there
)

// Send puts a packet of so many bytes on the link, and returns when its last bit
// leaves and when it arrives. To lose segments of a GSO packet one by one, send
// them one by one. Times of calls must not go back.
func (l *Link) Send(now vtime.Time, bytes int64) (depart, arrive vtime.Time, fate Fate) {
	number := l.Stats.Packets
	l.Stats.Packets++
	l.Stats.Bytes += uint64(bytes)
	l.leave(now)
	if l.full(bytes) {
		l.Stats.Tail++
		return vtime.Never, vtime.Never, TailDrop
	}
	if l.free < now {
		l.free, l.carry = now, 0
	}
	if bytes != l.last.bytes {
		l.last = l.onWire(bytes)
	}
	l.free = l.free.Add(l.serialize())
	l.enqueue(waiting{l.free, bytes})
	if l.loses && l.lose(number) {
		l.Stats.Lost++
		return l.free, vtime.Never, Lost
	}
	return l.free, l.free.Add(l.cfg.Delay), Arrives
}

// Backlog returns the bytes and packets that have not left at now.
func (l *Link) Backlog(now vtime.Time) (bytes int64, packets int) {
	l.leave(now)
	return l.queued, l.n
}

// onWire returns what so many bytes take on the wire.
func (l *Link) onWire(bytes int64) onWire {
	w, rate := onWire{bytes: bytes}, uint64(l.cfg.RateBps)
	if rate == 0 {
		return w
	}
	hi, lo := bits.Mul64(uint64(bytes)*8, uint64(time.Second))
	if hi >= rate { // centuries
		w.ns = int64(vtime.Never)
		return w
	}
	ns, rest := bits.Div64(hi, lo, rate)
	w.ns, w.rest = int64(min(ns, uint64(vtime.Never))), int64(rest)
	return w
}

// serialize returns the time that a packet like the last one takes on the wire.
// Fractions of a nanosecond are carried over, so that the rate is exact in the long
// run.
func (l *Link) serialize() time.Duration {
	ns := l.last.ns
	if l.carry += l.last.rest; l.carry >= l.cfg.RateBps && l.carry > 0 {
		l.carry -= l.cfg.RateBps
		if ns < int64(vtime.Never) {
			ns++
		}
	}
	return time.Duration(ns)
}

func (l *Link) full(bytes int64) bool {
	return (l.cfg.QueueBytes > 0 && l.queued+bytes > l.cfg.QueueBytes) ||
		(l.cfg.QueuePackets > 0 && l.n >= l.cfg.QueuePackets)
}

func (l *Link) lose(number uint64) bool {
	if k := len(l.cfg.Lose); k > 0 && l.cfg.Lose[0] == number {
		l.cfg.Lose = l.cfg.Lose[1:]
		return true
	}
	return l.cfg.Loss > 0 && l.cfg.Dice.Chance(l.cfg.Loss)
}

// leave forgets what has left at now.
func (l *Link) leave(now vtime.Time) {
	for l.n > 0 && l.queue[l.head].depart <= now {
		l.queued -= l.queue[l.head].bytes
		l.head = (l.head + 1) & (len(l.queue) - 1)
		l.n--
	}
}

// enqueue remembers a packet until it leaves; only limits and Backlog need it.
func (l *Link) enqueue(w waiting) {
	if l.n == len(l.queue) {
		grown := make([]waiting, max(64, 2*l.n))
		for i := range l.n {
			grown[i] = l.queue[(l.head+i)&(l.n-1)]
		}
		l.queue, l.head = grown, 0
	}
	l.queue[(l.head+l.n)&(len(l.queue)-1)] = w
	l.n++
	l.queued += w.bytes
}

// WireBytes returns the length on the wire of a packet of segs segments: the
// payload once, headers for every segment, and extra bytes (preamble, gap,
// checksum) for every segment.
func WireBytes(payload, segs, header, extra int64) int64 {
	return payload + segs*(header+extra)
}
