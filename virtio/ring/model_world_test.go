package ring_test

import (
	"slices"

	"pgregory.net/rapid"
)

// units is what a number of chains counts.
func (m *machine) units(jobs []*job) (n int) {
	for _, j := range jobs {
		switch {
		case j == &gone:
		case m.packed:
			n += j.slots
		default:
			n++
		}
	}
	return n
}

// on is the position n units after p.
func (m *machine) on(p uint16, n int) uint16 {
	if !m.packed {
		return p + uint16(n)
	}
	for ; n > 0; n-- {
		if p++; p&0x7fff == m.cfg.Size {
			p = (p - m.cfg.Size) ^ 0x8000
		}
	}
	return p
}

// passes reports whether one of the n positions from p on is event.
func (m *machine) passes(event, p uint16, n int) bool {
	for ; n > 0; n-- {
		if p == event {
			return true
		}
		p = m.on(p, 1)
	}
	return false
}

// wish is what an event structure of a packed ring says: whether it asks at all,
// and at which position if it names one.
func (m *machine) wish(gpa uint64) (asks, at bool, event uint16) {
	b := m.b[gpa-memBase:]
	flags := le.Uint16(b[2:])
	return flags != 1, flags == 2, le.Uint16(b)
}

// Restart puts a new device on the ring, which nothing of the old one is out of.
func (m *machine) Restart(t *rapid.T) {
	if m.dev.InFlight() > 0 || len(m.staged) > 0 || m.dev.Pending() != uint16(len(m.avail)) {
		return
	}
	m.cfg.Base, m.cfg.BaseFromUsed = m.dev.Base(), rapid.Bool().Draw(t, "from used")
	m.dev.Close()
	m.replace(t, m.dev.Base())
}

// Die puts a new device on the ring in the middle of all, which finds the chains
// that the old one had in the record.
func (m *machine) Die(t *rapid.T) {
	if m.cfg.Inflight == nil {
		return
	}
	base := m.dev.Base() // m.cfg.Base is what the front-end last knew
	again := slices.DeleteFunc(append(slices.Clone(m.taken), m.staged...), func(j *job) bool { return j == &gone })
	slices.SortFunc(again, func(a, b *job) int { return a.seq - b.seq })
	for _, j := range again {
		j.pushed = false
	}
	m.avail = append(again, m.avail...)
	m.taken, m.staged = nil, nil
	m.replace(t, base)
}

func (m *machine) replace(t *rapid.T, base uint32) {
	used := m.dev.UsedIdx()
	m.restart()
	if m.packed {
		used = 0
	}
	if m.dev.UsedIdx() != used || m.dev.Base()>>16 != base>>16 {
		t.Fatalf("restarted at %#x with %d used, want %#x", m.dev.Base(), m.dev.UsedIdx(), base)
	}
	m.first, m.uncalled, m.called, m.devAsleep = true, 0, used, false
	if m.packed {
		m.called = uint16(base >> 16)
	}
	// Calls that the old device owed are not to come; the vhost side raises one.
	m.drvAsleep = false
}
