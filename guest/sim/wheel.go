package sim

import (
	"math/bits"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// wheel holds the events of later times, in buckets whose width grows with the
// distance. A bucket of level 0 is grain nanoseconds wide and sorted by time and
// order; one of level n holds what a level n-1 covers, in no order, and is emptied
// into the levels below when time comes to it. What a bucket is for depends on
// base: an event is on the level of the highest digit in which it differs from
// base.
//
// A timer that moves to a later time, or stops, stays in its bucket unless that
// is of level 0; it goes where it belongs when the bucket is emptied.
type wheel struct {
	base    vtime.Time     // not after any event in the wheel, or the loop's time
	levels  uint16         // those with buckets in use
	used    [levels]uint64 // buckets in use, by level
	buckets [levels << digitBits]bucket
}

const (
	grainBits = 10 // of a bucket of level 0
	digitBits = 6
	digitMask = 1<<digitBits - 1
	levels    = (63-grainBits)/digitBits + 1
)

// bucket is a doubly linked list of slots, each end's number + 1; 0 if it is empty.
// The tail counts on level 0 only.
type bucket struct{ head, tail int32 }

// nowhere is the bucket of a slot that is in none.
const nowhere = ^uint16(0)

// place returns the bucket that is for t. Later times have no lower numbers.
func (w *wheel) place(t vtime.Time) uint16 {
	x := uint64(t^w.base) >> grainBits
	if x <= digitMask {
		return uint16(uint64(t)>>grainBits) & digitMask
	}
	level := uint(bits.Len64(x)-1) / digitBits
	return uint16(level<<digitBits) | uint16(uint64(t)>>(grainBits+digitBits*level))&digitMask
}

// file puts slot i, which is s, where its time belongs, unless it may stay where
// it is.
func (l *Loop) file(i int32, s *slot) {
	w := &l.wheel
	if s.t < w.base {
		if l.rewind(); s.bucket != nowhere {
			return // with the others
		}
	}
	n := w.place(s.t)
	if s.bucket != nowhere {
		if s.bucket > digitMask && n >= s.bucket {
			return
		}
		l.pull(s)
	}
	s.bucket = n
	b := &w.buckets[n]
	level := n >> digitBits
	w.used[level] |= 1 << (n & digitMask)
	w.levels |= 1 << level
	if level == 0 {
		l.sort(b, i, s)
		return
	}
	s.prev, s.next = 0, b.head
	if b.head != 0 {
		l.slots[b.head-1].prev = i + 1
	}
	b.head = i + 1
}

// sort puts slot i into a bucket of level 0.
func (l *Loop) sort(b *bucket, i int32, s *slot) {
	after := b.tail
	for after != 0 && s.before(&l.slots[after-1]) {
		after = l.slots[after-1].prev
	}
	next := &b.head
	if after != 0 {
		next = &l.slots[after-1].next
	}
	s.prev, s.next, *next = after, *next, i+1
	if s.next == 0 {
		b.tail = i + 1
	} else {
		l.slots[s.next-1].prev = i + 1
	}
}

// before is the order of events: by time, then by when they were set.
func (s *slot) before(o *slot) bool {
	return s.t < o.t || (s.t == o.t && s.order < o.order)
}

// pull takes a slot out of its bucket.
func (l *Loop) pull(s *slot) {
	w := &l.wheel
	b := &w.buckets[s.bucket]
	if s.prev == 0 {
		b.head = s.next
	} else {
		l.slots[s.prev-1].next = s.next
	}
	if s.next == 0 {
		b.tail = s.prev
	} else {
		l.slots[s.next-1].prev = s.prev
	}
	if b.head == 0 {
		w.clear(s.bucket)
	}
	s.bucket = nowhere
}

// clear says that bucket n is empty.
func (w *wheel) clear(n uint16) {
	level := n >> digitBits
	if w.used[level] &^= 1 << (n & digitMask); w.used[level] == 0 {
		w.levels &^= 1 << level
	}
}

// advance moves time to that of the first event in the wheel, unless it is after
// limit, makes what else there is of that time due, and returns the first's slot.
func (l *Loop) advance(limit vtime.Time) (i int32, ok bool) {
	w := &l.wheel
	for w.levels&1 == 0 {
		if !l.descend(limit) {
			return 0, false
		}
	}
	b := &w.buckets[bits.TrailingZeros64(w.used[0])]
	i = b.head - 1
	s := &l.slots[i]
	t := s.t
	if t > limit {
		return 0, false
	}
	l.now = t
	for s = l.shift(b, s); s != nil && s.t == t; {
		s.due = true
		l.due.push(dueEvent{s.order, b.head - 1})
		s = l.shift(b, s)
	}
	return i, true
}

// shift takes the first slot, which is s, out of a bucket of level 0, and returns
// what is the first then, or nil.
func (l *Loop) shift(b *bucket, s *slot) *slot {
	n := s.bucket
	s.bucket = nowhere
	if b.head = s.next; b.head != 0 {
		next := &l.slots[b.head-1]
		next.prev = 0
		return next
	}
	b.tail = 0
	l.wheel.clear(n)
	return nil
}

// first returns the first bucket in use, and the time at which it begins.
func (w *wheel) first() (n uint16, start vtime.Time) {
	level := bits.TrailingZeros16(w.levels)
	digit := bits.TrailingZeros64(w.used[level])
	shift := grainBits + digitBits*level
	start = w.base>>(shift+digitBits)<<(shift+digitBits) | vtime.Time(digit)<<shift
	return uint16(level<<digitBits | digit), start
}

// free reports whether it is certain that no event of the wheel is at t or before.
func (w *wheel) free(l *Loop, t vtime.Time) bool {
	if w.levels&1 != 0 {
		return l.slots[w.buckets[bits.TrailingZeros64(w.used[0])].head-1].t > t
	}
	if w.levels == 0 {
		return true
	}
	_, start := w.first()
	return start > t
}

// descend moves base to the first bucket above level 0, unless that begins after
// limit or there is none, and what is in it to where it belongs.
func (l *Loop) descend(limit vtime.Time) bool {
	w := &l.wheel
	if w.levels == 0 {
		return false
	}
	n, start := w.first()
	if start > limit {
		return false
	}
	w.base = start
	i := w.buckets[n].head
	w.buckets[n] = bucket{}
	w.clear(n)
	for i != 0 {
		s := &l.slots[i-1]
		next := s.next
		s.bucket = nowhere
		if s.t != vtime.Never && !s.due {
			l.file(i-1, s)
		}
		i = next
	}
	return true
}

// rewind moves base back to the loop's time: buckets were emptied in which nothing
// stood any more.
func (l *Loop) rewind() {
	l.wheel = wheel{base: l.now}
	for i := range l.slots {
		s := &l.slots[i]
		if filed := s.bucket != nowhere; filed {
			s.bucket = nowhere
			if s.t != vtime.Never && !s.due {
				l.file(int32(i), s)
			}
		}
	}
}

// soonest returns the time of the first event in the wheel, or vtime.Never.
func (l *Loop) soonest() vtime.Time {
	if w := &l.wheel; w.levels&1 != 0 {
		return l.slots[w.buckets[bits.TrailingZeros64(w.used[0])].head-1].t
	}
	t := vtime.Never
	for i := range l.slots {
		if s := &l.slots[i]; s.bucket != nowhere {
			t = min(t, s.t)
		}
	}
	return t
}
