// Package minmax has the kernel's filters for the extreme of a window in three
// samples: the best, the best after it, and the best after that
// (lib/win_minmax.c, v4.9). They are approximate on purpose: they may forget the
// best a quarter of the window early, but never keep one that is too old. Times
// are in any unit that counts up, and may wrap. The types are not safe for
// concurrent use.
package minmax

// Max is a windowed maximum. The zero value has seen nothing and is 0.
type Max struct{ t, v [3]uint32 }

// Value is the maximum.
func (f *Max) Value() uint32 { return f.v[0] }

// Reset forgets all samples for one at time t.
func (f *Max) Reset(t, v uint32) { f.set(0, t, v) }

// set puts a sample in places i to 2.
func (f *Max) set(i int, t, v uint32) {
	for ; i < 3; i++ {
		f.t[i], f.v[i] = t, v
	}
}

// Update takes a sample at time t over a window of win.
func (f *Max) Update(win, t, v uint32) {
	if v >= f.v[0] || t-f.t[2] > win {
		f.set(0, t, v)
		return
	}
	if v >= f.v[1] {
		f.set(1, t, v)
	} else if v >= f.v[2] {
		f.set(2, t, v)
	}
	switch age := t - f.t[0]; {
	case age > win:
		f.shift(t, v)
		if t-f.t[0] > win {
			f.shift(t, v)
		}
	case f.t[1] == f.t[0] && age > win/4:
		f.set(1, t, v)
	case f.t[2] == f.t[1] && age > win/2:
		f.set(2, t, v)
	}
}

// shift forgets the best sample.
func (f *Max) shift(t, v uint32) {
	f.t = [3]uint32{f.t[1], f.t[2], t}
	f.v = [3]uint32{f.v[1], f.v[2], v}
}

// Min is a windowed minimum: the maximum of the complements. The zero value has
// seen nothing and is all ones.
type Min struct{ of Max }

// Value is the minimum.
func (f *Min) Value() uint32 { return ^f.of.Value() }

// Reset forgets all samples for one at time t.
func (f *Min) Reset(t, v uint32) { f.of.Reset(t, ^v) }

// Update takes a sample at time t over a window of win.
func (f *Min) Update(win, t, v uint32) { f.of.Update(win, t, ^v) }
