package vhost

import (
	"fmt"
	"slices"

	"github.com/vnetbench/vnetbench/vhost/wire"
)

// region is a mapped region of guest memory.
type region struct {
	wire.Region
	id   RegionID
	ours uint64 // its address in our own process, if the executor says so
}

// gpaOf translates an address of the front-end's process, n bytes in one
// region, to a guest physical address.
func (s *Session) gpaOf(uva, n uint64) (gpa uint64, ok bool) {
	for i := range s.memory {
		r := &s.memory[i]
		off := uva - r.UVA
		if off < r.Size && n <= r.Size-off {
			return r.GPA + off, true
		}
	}
	return 0, false
}

// holds reports whether one region holds the n bytes at a guest physical
// address.
func (s *Session) holds(gpa, n uint64) bool {
	for i := range s.memory {
		r := &s.memory[i]
		off := gpa - r.GPA
		if off < r.Size && n <= r.Size-off {
			return true
		}
	}
	return false
}

// checkRegions validates a memory table.
func checkRegions(rs []wire.Region) error {
	for i, r := range rs {
		switch {
		case r.Size == 0:
			return fmt.Errorf("%w: %v: it is empty", ErrMemory, r)
		case r.GPA+r.Size < r.GPA, r.UVA+r.Size < r.UVA, r.Offset+r.Size < r.Offset:
			return fmt.Errorf("%w: %v: it wraps around", ErrMemory, r)
		}
		for _, o := range rs[:i] {
			if r.GPA < o.GPA+o.Size && o.GPA < r.GPA+r.Size {
				return fmt.Errorf("%w: %v: it overlaps %v", ErrMemory, r, o)
			}
		}
	}
	return nil
}

// setMemTable replaces the whole of guest memory. If a region cannot be mapped
// the old table stays. Rings that run are stopped and started again in the new
// memory; it is an error if one of them does not lie in it.
func (s *Session) setMemTable(m wire.Message, fds []int) {
	rs := m.Payload.(wire.MemTable).Regions
	if s.postcopy.confirm != nil {
		s.confirmMemory(m, rs)
		return
	}
	if err := checkRegions(rs); err != nil {
		s.close(fds)
		s.refuse(m, err)
		return
	}
	s.mapRegions(m, rs, fds, func(added []region) {
		if s.postcopy.listens {
			s.offerMemory(m, added)
			return
		}
		s.changeMemory(m, added, true)
	})
}

func (s *Session) getMaxMemSlots(m wire.Message, _ []int) { s.reply(m, wire.U64(MaxMemSlots)) }

// addMemReg adds a region. One that is there already, to the byte, is no error
// and stays: QEMU 7.2 adds each region once for every queue pair, while the
// first pair runs.
func (s *Session) addMemReg(m wire.Message, fds []int) {
	r := m.Payload.(wire.MemRegion).Region
	if slices.Contains(s.table(), r) {
		s.close(fds)
		s.ack(m)
		return
	}
	err := checkRegions(append(s.table(), r))
	if len(s.memory) >= MaxMemSlots {
		err = fmt.Errorf("%w: %d are taken", ErrSlots, len(s.memory))
	}
	if err != nil {
		s.close(fds)
		s.refuse(m, err)
		return
	}
	s.mapRegions(m, []wire.Region{r}, fds, func(added []region) {
		s.changeMemory(m, append(slices.Clone(s.memory), added...), false)
	})
}

// remMemReg removes a region, found by its addresses and size. A ring that lies
// in it waits for memory that holds it again. Removing one twice is no error,
// for the reason that adding it twice is none.
func (s *Session) remMemReg(m wire.Message, fds []int) {
	s.close(fds) // some front-ends send one, which means nothing
	want := m.Payload.(wire.MemRegion).Region
	i := slices.IndexFunc(s.memory, func(r region) bool { return sameRegion(r.Region, want) })
	if i < 0 && slices.ContainsFunc(s.removed, func(r wire.Region) bool { return sameRegion(r, want) }) {
		s.ack(m)
		return
	}
	if i < 0 {
		s.refuse(m, fmt.Errorf("%w: %v", ErrNoRegion, want))
		return
	}
	if len(s.removed) == MaxMemSlots {
		s.removed = s.removed[1:]
	}
	s.removed = append(s.removed, s.memory[i].Region)
	s.changeMemory(m, slices.Delete(slices.Clone(s.memory), i, i+1), false)
}

// sameRegion reports whether two regions have the same addresses and size,
// which is how REM_MEM_REG names one.
func sameRegion(a, b wire.Region) bool {
	return a.GPA == b.GPA && a.Size == b.Size && a.UVA == b.UVA
}

// table returns the regions as the front-end described them.
func (s *Session) table() []wire.Region {
	rs := make([]wire.Region, 0, len(s.memory)+1)
	for i := range s.memory {
		rs = append(rs, s.memory[i].Region)
	}
	return rs
}

// mapRegions has regions mapped; then is called with them, or m is refused.
func (s *Session) mapRegions(m wire.Message, rs []wire.Region, fds []int, then func([]region)) {
	added := make([]region, len(rs))
	ids := make([]RegionID, len(rs))
	for i, r := range rs {
		s.lastID++
		added[i], ids[i] = region{Region: r, id: s.lastID}, s.lastID
	}
	if len(rs) == 0 {
		then(nil)
		return
	}
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.refuse(m, fmt.Errorf("%w: %w", ErrMemory, r.Err))
			return
		}
		for i, uva := range r.UVAs {
			added[i].ours = uva
		}
		then(added)
	})
	s.emit(MapRegions{Token: t, IDs: ids, Regions: rs, FDs: fds})
}

// changeMemory stops what runs, makes rs the guest memory, and starts what ran
// and whatever else is now complete. With strict, m fails if a ring that ran
// does not lie in the new memory.
func (s *Session) changeMemory(m wire.Message, rs []region, strict bool) {
	s.stopAll(func(ran []int) {
		s.memory = rs
		s.stats.MemoryChanges++
		set := SetMemory{Regions: s.table()}
		for i := range rs {
			set.IDs = append(set.IDs, rs[i].id)
		}
		s.emit(set)
		if s.resolve(); len(s.tlb) > 0 {
			s.emit(SetTranslations{List: s.view})
		}
		s.startAll(m, func(m wire.Message) { s.reportLost(m, ran, strict) })
	})
}

// reportLost answers a memory change.
func (s *Session) reportLost(m wire.Message, ran []int, strict bool) {
	for _, i := range ran {
		if strict && !s.rings[i].running {
			s.note(m, fmt.Errorf("ring %d: %w", i, ErrUnmapped))
			return
		}
	}
	s.ack(m)
}
