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

// arity of the heap. Four children share a cache line and a half, and halve the
// depth of the binary heap.
const arity = 4

// push queues slot i at time t, not before the current time.
func (l *Loop) push(t vtime.Time, i int32) {
	k := key{t: max(t, l.now), order: l.order, slot: i}
	l.order++
	l.heap = append(l.heap, k)
	l.up(len(l.heap)-1, k)
}

// remove takes the entry at index p out of the heap.
func (l *Loop) remove(p int) {
	l.slots[l.heap[p].slot].pos = idle
	n := len(l.heap) - 1
	last := l.heap[n]
	l.heap = l.heap[:n]
	if p < n {
		l.fix(p, last)
	}
}

// fix puts k where the heap has a hole at p.
func (l *Loop) fix(p int, k key) {
	if p > 0 && k.before(&l.heap[(p-1)/arity]) {
		l.up(p, k)
		return
	}
	l.down(p, k)
}

// up moves the hole at p towards the root until k fits in it.
func (l *Loop) up(p int, k key) {
	for p > 0 {
		parent := (p - 1) / arity
		if !k.before(&l.heap[parent]) {
			break
		}
		l.set(p, l.heap[parent])
		p = parent
	}
	l.set(p, k)
}

// down moves the hole at p towards the leaves until k fits in it.
func (l *Loop) down(p int, k key) {
	n := len(l.heap)
	for {
		first := p*arity + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, n); c++ {
			if l.heap[c].before(&l.heap[least]) {
				least = c
			}
		}
		if !l.heap[least].before(&k) {
			break
		}
		l.set(p, l.heap[least])
		p = least
	}
	l.set(p, k)
}

func (l *Loop) set(p int, k key) {
	l.heap[p] = k
	l.slots[k.slot].pos = int32(p)
}
