package cc

// maxFilter is a windowed maximum of three samples: the best, the best after
// it, and the best after that (lib/win_minmax.c, v4.9). Times are in any unit
// that counts up.
type maxFilter struct{ t, v [3]uint32 }

func (f *maxFilter) value() uint32 { return f.v[0] }

// set puts a sample in places i to 2.
func (f *maxFilter) set(i int, t, v uint32) {
	for ; i < 3; i++ {
		f.t[i], f.v[i] = t, v
	}
}

// update takes a sample at time t over a window of win.
func (f *maxFilter) update(win, t, v uint32) {
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
func (f *maxFilter) shift(t, v uint32) {
	f.t = [3]uint32{f.t[1], f.t[2], t}
	f.v = [3]uint32{f.v[1], f.v[2], v}
}
