package sim

import "github.com/vnetbench/vnetbench/virtio/vtime"

// key is an entry of the heap. It holds no pointer, so that moving it costs no
// write barrier.
type key struct {
	t     vtime.Time
	order uint64
	slot  int32
}

// before is the order of events: by time, then by when they were set.
func (k *key) before(o *key) bool {
	return k.t < o.t || (k.t == o.t && k.order < o.order)
}

// heap holds the events of later times. A timer has one key in it at most, and
// that key need not be its slot's: a timer that moves to a later time, or stops,
// leaves its key where it is, and settle puts that right once the key has come
// to the root.
type heap struct {
	keys []key
	hole bool // the root ran and was not replaced yet
}

// arity of the heap. Four children share a cache line and a half, and halve the
// depth of the binary heap.
const arity = 4

// push adds a key. After an event that sets another, which most do, it costs one
// way down instead of one up and one down.
func (l *Loop) push(k key) {
	h := &l.heap
	if h.hole {
		h.hole = false
		l.down(k)
		return
	}
	h.keys = append(h.keys, k)
	l.up(len(h.keys)-1, k)
}

// pop takes the root out of the heap. Its slot has no key afterwards.
func (l *Loop) pop() {
	l.slots[l.heap.keys[0].slot].pos = idle
	l.heap.hole = true
}

// advance moves time to that of the first event in the heap, unless it is after
// limit, makes all of that time due, and returns the slot of the first.
func (l *Loop) advance(limit vtime.Time) (slot int32, ok bool) {
	l.settle()
	if len(l.heap.keys) == 0 || l.heap.keys[0].t > limit {
		return 0, false
	}
	t := l.heap.keys[0].t
	slot = l.heap.keys[0].slot
	l.now = t
	for {
		k := l.heap.keys[0]
		l.pop()
		l.slots[k.slot].due = true
		l.due.push(dueEvent{k.order, k.slot})
		if !l.more(t) {
			return slot, true
		}
		if l.settle(); len(l.heap.keys) == 0 || l.heap.keys[0].t != t {
			return slot, true
		}
	}
}

// more reports whether a key below the root may be of time t, before which there
// is none.
func (l *Loop) more(t vtime.Time) bool {
	keys := l.heap.keys
	for c := 1; c < min(1+arity, len(keys)); c++ {
		if keys[c].t <= t {
			return true
		}
	}
	return false
}

// fill replaces a root that ran by the last key.
func (l *Loop) fill() {
	h := &l.heap
	h.hole = false
	n := len(h.keys) - 1
	last := h.keys[n]
	h.keys = h.keys[:n]
	if n > 0 {
		l.down(last)
	}
}

// settle makes the root the key of the event that runs first of those in the
// heap, if there is one: keys that timers left behind go where their timers are.
func (l *Loop) settle() {
	for {
		if l.heap.hole {
			l.fill()
		}
		if len(l.heap.keys) == 0 {
			return
		}
		k := &l.heap.keys[0]
		s := &l.slots[k.slot]
		switch {
		case s.order == k.order:
			return
		case s.t == vtime.Never || s.due:
			l.pop()
		default:
			l.down(key{t: s.t, order: s.order, slot: k.slot})
		}
	}
}

// up moves the hole at p towards the root until k fits in it.
func (l *Loop) up(p int, k key) {
	keys := l.heap.keys
	for p > 0 {
		parent := (p - 1) / arity
		if !k.before(&keys[parent]) {
			break
		}
		l.set(p, keys[parent])
		p = parent
	}
	l.set(p, k)
}

// down moves the hole at the root towards the leaves until k fits in it.
func (l *Loop) down(k key) {
	keys, p := l.heap.keys, 0
	for {
		first := p*arity + 1
		if first >= len(keys) {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, len(keys)); c++ {
			if keys[c].before(&keys[least]) {
				least = c
			}
		}
		if !keys[least].before(&k) {
			break
		}
		l.set(p, keys[least])
		p = least
	}
	l.set(p, k)
}

func (l *Loop) set(p int, k key) {
	l.heap.keys[p] = k
	l.slots[k.slot].pos = int32(p)
}
