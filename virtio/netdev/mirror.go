package netdev

import "sync/atomic"

// The counters of a queue that DEVICE_STATS tells the guest.
const (
	mirrorKicks = iota
	mirrorCalls
	mirrorPackets
	mirrorBytes
	mirrorDrops
	mirrorLost // RX: for want of buffers; TX: malformed
	mirrorNeedsCSum
	mirrorDataValid
	mirrorBadCSum
	mirrorGSOPackets
	mirrorGSOBytes
	mirrorGSOSegs
	mirrorGSOSegBytes
	mirrorWhole // GSO packets that were not cut here
	mirrorWholeBytes

	numMirrors
)

// mirror is a copy of some counters of a queue for the control queue to read,
// which may have another owner. It is written only if DEVICE_STATS is
// negotiated.
type mirror struct {
	on     bool
	values [numMirrors]atomic.Uint64
}

// reflect takes the counters over. Only what changed is stored, so that a queue
// that rests costs loads.
func (m *mirror) reflect(s *Stats, lost uint64) {
	if !m.on {
		return
	}
	now := [numMirrors]uint64{
		s.Kicks, s.Calls, s.Packets, s.Bytes, s.Drops.Total(), lost,
		s.NeedsCSum, s.DataValid, s.Drops[DropBadCSum],
		s.GSOPackets, s.GSOBytes, s.GSOSegs, s.GSOSegBytes,
		s.GSOPackets - s.CutGSO, s.GSOBytes - s.CutGSOBytes,
	}
	for i, v := range now {
		if m.values[i].Load() != v {
			m.values[i].Store(v)
		}
	}
}

func (m *mirror) get(i int) uint64 { return m.values[i].Load() }

// group appends the counters of a group, named by its reply type.
func (m *mirror) group(to []uint64, group int) []uint64 {
	switch group {
	case 0, 16: // basic
		return m.pick(to, mirrorKicks, mirrorPackets, mirrorBytes, mirrorCalls, mirrorDrops, mirrorLost)
	case 1: // RX checksums: valid, partial, none, bad
		none := m.get(mirrorPackets) - m.get(mirrorNeedsCSum) - m.get(mirrorDataValid)
		return append(m.pick(to, mirrorDataValid, mirrorNeedsCSum), none, m.get(mirrorBadCSum))
	case 17: // TX checksums: none, partial
		return append(to, m.get(mirrorPackets)-m.get(mirrorNeedsCSum), m.get(mirrorNeedsCSum))
	case 2: // RX GSO
		return m.pick(to, mirrorGSOPackets, mirrorGSOBytes, mirrorGSOSegs, mirrorGSOSegBytes)
	}
	return m.pick(to, mirrorGSOPackets, mirrorGSOBytes, mirrorGSOSegs, mirrorGSOSegBytes, mirrorWhole, mirrorWholeBytes)
}

func (m *mirror) pick(to []uint64, which ...int) []uint64 {
	for _, i := range which {
		to = append(to, m.get(i))
	}
	return to
}

// reflect brings the mirror of the queue up to date.
func (t *TX) reflect() {
	if t.mirror.on {
		t.mirror.reflect(&t.stats, t.stats.Drops.Malformed())
	}
}

// reflect brings the mirror of the queue up to date.
func (r *RX) reflect() {
	if r.mirror.on {
		r.mirror.reflect(&r.stats, r.stats.Drops[DropNoBuffers]+r.stats.Drops[DropNoRoom])
	}
}
