package vhost

import (
	"fmt"
	"math"
	"slices"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// maxTranslations bounds the translations that a session keeps. A front-end that
// sends more finds the older ones asked for again.
const maxTranslations = 2048

// maxAsking bounds the addresses that are remembered as asked for. Each ring waits
// for one at a time.
const maxAsking = 64

// Types of an IOTLB message, and its permissions.
const (
	tlbMiss       = 1
	tlbUpdate     = 2
	tlbInvalidate = 3

	tlbRead      = 1
	tlbWrite     = 2
	tlbReadWrite = tlbRead | tlbWrite
)

// Translation is a run of the driver's addresses behind an IOMMU, and where it lies
// in a region of guest memory.
type Translation struct {
	IOVA, Size uint64
	Region     RegionID
	Offset     uint64 // in the region
	Perm       uint8  // what the device may do there: 1 read, 2 write, 3 both
}

// wanted is an address that the front-end was asked for, and the access.
type wanted struct {
	iova uint64
	perm uint8
}

// translates reports whether the driver's addresses, those of the rings included,
// are ones that the front-end has to translate.
func (s *Session) translates() bool { return s.acked.Has(virtio.FeatureAccessPlatform) }

// iotlbMsg takes a translation, or takes some back. Rings whose own memory has no
// translation any more stop, and go on when it has one again.
func (s *Session) iotlbMsg(m wire.Message, _ []int) {
	v := m.Payload.(wire.IOTLB)
	if err := checkIOTLB(v); err != nil {
		s.note(m, err)
		s.reply(m, wire.U64(1))
		return
	}
	switch v.Type {
	case tlbUpdate:
		s.forget(v.IOVA, v.Size)
		if len(s.tlb) >= maxTranslations {
			s.tlb = nil
		}
		s.tlb = append(s.tlb, v)
		s.answered(v.IOVA, v.Size, v.Perm)
	case tlbInvalidate:
		s.invalidate(v.IOVA, v.Size)
	}
	s.retranslate(m)
}

// checkIOTLB returns what is wrong with a front-end's translation.
func checkIOTLB(v wire.IOTLB) error {
	switch {
	case v.Type == tlbInvalidate:
		return nil
	case v.Type != tlbUpdate:
		return fmt.Errorf("%w: IOTLB message of type %d, want %d or %d", ErrValue, v.Type, tlbUpdate, tlbInvalidate)
	case v.Perm == 0 || v.Perm > tlbReadWrite:
		return fmt.Errorf("%w: translation of %#x with permissions %d, want 1 to 3", ErrValue, v.IOVA, v.Perm)
	case v.Size == 0 || v.IOVA+v.Size < v.IOVA || v.UVA+v.Size < v.UVA:
		return fmt.Errorf("%w: translation of %#x bytes at %#x", ErrValue, v.Size, v.IOVA)
	}
	return nil
}

// invalidate takes translations back. A range whose length or end does not fit into
// 64 bits, and reads as 0 or less than its beginning, goes to the end of all
// addresses: it is better to ask once too often.
func (s *Session) invalidate(iova, n uint64) {
	switch {
	case n == 0 && iova == 0:
		s.tlb, s.asking = nil, nil
		return
	case n == 0 || iova+n < iova:
		s.forget(iova, -iova-1)
		s.forget(math.MaxUint64-1, 1)
		n = -iova
	default:
		s.forget(iova, n)
	}
	// What was denied there may be allowed the next time.
	s.asking = slices.DeleteFunc(s.asking, func(w wanted) bool { return w.iova-iova < n })
}

// forget cuts a range out of the translations.
func (s *Session) forget(iova, n uint64) {
	end := iova + n
	kept := make([]wire.IOTLB, 0, len(s.tlb)+1)
	for _, t := range s.tlb {
		if t.IOVA >= end || t.IOVA+t.Size <= iova {
			kept = append(kept, t)
			continue
		}
		if t.IOVA < iova {
			head := t
			head.Size = iova - t.IOVA
			kept = append(kept, head)
		}
		if last := t.IOVA + t.Size; last > end {
			tail := t
			tail.UVA += end - t.IOVA
			tail.IOVA, tail.Size = end, last-end
			kept = append(kept, tail)
		}
	}
	s.tlb = kept
}

// retranslate puts the translations into effect and answers m.
func (s *Session) retranslate(m wire.Message) {
	s.resolve()
	s.stopUncovered(0, func() {
		s.emit(SetTranslations{List: s.view})
		s.startAll(m, func(m wire.Message) { s.reply(m, wire.U64(0)) })
	})
}

// stopUncovered stops the rings from i on that run and lie where there is no
// translation.
func (s *Session) stopUncovered(i int, then func()) {
	for ; i < len(s.rings); i++ {
		r := &s.rings[i]
		if !r.running || !s.translates() {
			continue
		}
		if !s.inView(r) {
			s.stopRing(i, func() { s.stopUncovered(i+1, then) })
			return
		}
	}
	then()
}

// inView reports whether all parts of a ring have translations.
func (s *Session) inView(r *ringState) bool {
	cfg := ring.Config{Size: r.size, Features: s.acked}
	need := cfg.BytesNeeded()
	_, desc := s.covers(r.addr.Desc, need.Desc, s.ringPerm(0))
	_, avail := s.covers(r.addr.Avail, need.Avail, s.ringPerm(1))
	_, used := s.covers(r.addr.Used, need.Used, s.ringPerm(2))
	return desc && avail && used
}

// ringPerm is the access to a part of a ring: to the descriptors, and to what the
// driver and the device write. The device writes what is its own, and reads it
// again when it starts; the descriptors of a packed ring are of both.
func (s *Session) ringPerm(part int) uint8 {
	if part == 2 || part == 0 && s.packed() {
		return tlbReadWrite
	}
	return tlbRead
}

// resolve makes the view: the translations as parts of regions, those that
// continue each other joined, by ascending address.
func (s *Session) resolve() {
	list := make([]Translation, 0, len(s.tlb))
	for _, t := range s.tlb {
		for i := range s.memory {
			r := &s.memory[i]
			if off := t.UVA - r.UVA; off < r.Size && t.Size <= r.Size-off {
				list = append(list, Translation{IOVA: t.IOVA, Size: t.Size, Region: r.id, Offset: off, Perm: t.Perm})
				break
			}
		}
	}
	slices.SortFunc(list, func(a, b Translation) int {
		if a.IOVA < b.IOVA {
			return -1
		}
		return 1
	})
	s.view = list[:0]
	for _, t := range list {
		if n := len(s.view); n > 0 && s.view[n-1].continuedBy(t) {
			s.view[n-1].Size += t.Size
			continue
		}
		s.view = append(s.view, t)
	}
	s.view = slices.Clip(s.view)
}

func (t Translation) continuedBy(next Translation) bool {
	return t.IOVA+t.Size == next.IOVA && t.Perm == next.Perm && t.Region == next.Region && t.Offset+t.Size == next.Offset
}

// covers reports whether one run of the view holds the n addresses and allows the
// access, and if not which of them has no such translation.
func (s *Session) covers(iova, n uint64, perm uint8) (missing uint64, ok bool) {
	for i := range s.view {
		t := &s.view[i]
		off := iova - t.IOVA
		if off >= t.Size || t.Perm&perm != perm {
			continue
		}
		if n <= t.Size-off {
			return 0, true
		}
		return t.IOVA + t.Size, false
	}
	return iova, false
}

// Missing notes that a chain of a ring that runs lies at an address without a
// translation that allows what the device wants there: to read or to write.
func (s *Session) Missing(iova uint64, write bool) []Action {
	if write {
		return s.want(iova, tlbWrite)
	}
	return s.want(iova, tlbRead)
}

// want asks for a translation, once until it is answered.
func (s *Session) want(iova uint64, perm uint8) []Action {
	w := wanted{iova, perm}
	if s.ended || slices.Contains(s.asking, w) {
		return nil
	}
	if len(s.asking) == maxAsking {
		s.asking = nil
	}
	s.asking = append(s.asking, w)
	s.stats.TranslationMisses++
	return []Action{AskTranslation{IOVA: iova, Perm: perm}}
}

// NotAsked notes that an AskTranslation came to nothing, so that it is asked for
// again when a ring next meets the address.
func (s *Session) NotAsked(iova uint64) {
	s.asking = slices.DeleteFunc(s.asking, func(w wanted) bool { return w.iova == iova })
}

// answered forgets what was asked for of a range, if the answer allows it. If not,
// the device may not do there what the driver's descriptor is for: that is counted,
// the chain waits, and it is not asked for again until another answer comes.
func (s *Session) answered(iova, n uint64, perm uint8) {
	s.asking = slices.DeleteFunc(s.asking, func(w wanted) bool {
		if w.iova-iova >= n {
			return false
		}
		if w.perm&perm != w.perm {
			s.stats.TranslationDenials++
			return false
		}
		return true
	})
}
