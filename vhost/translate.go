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
	tlbReadWrite = 3
)

// Translation is a run of the driver's addresses behind an IOMMU, and where it lies
// in a region of guest memory.
type Translation struct {
	IOVA, Size uint64
	Region     RegionID
	Offset     uint64 // in the region
}

// translates reports whether the driver's addresses, those of the rings included,
// are ones that the front-end has to translate.
func (s *Session) translates() bool { return s.acked.Has(virtio.FeatureAccessPlatform) }

// iotlbMsg takes a translation, or takes some back. Rings whose own memory has no
// translation any more stop, and go on when it has one again.
func (s *Session) iotlbMsg(m wire.Message, _ []int) {
	v := m.Payload.(wire.IOTLB)
	if v.Type == tlbUpdate && (v.Size == 0 || v.IOVA+v.Size < v.IOVA || v.UVA+v.Size < v.UVA) {
		s.note(m, fmt.Errorf("%w: translation of %#x bytes at %#x", ErrValue, v.Size, v.IOVA))
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
		s.answered(v.IOVA, v.Size)
	case tlbInvalidate:
		s.invalidate(v.IOVA, v.Size)
	default:
		s.note(m, fmt.Errorf("%w: IOTLB message of type %d, want %d or %d", ErrValue, v.Type, tlbUpdate, tlbInvalidate))
		s.reply(m, wire.U64(1))
		return
	}
	s.retranslate(m)
}

// invalidate takes translations back. A range whose length or end does not fit into
// 64 bits, and reads as 0 or less than its beginning, goes to the end of all
// addresses: it is better to ask once too often.
func (s *Session) invalidate(iova, n uint64) {
	switch {
	case n == 0 && iova == 0:
		s.tlb = nil
	case n == 0 || iova+n < iova:
		s.forget(iova, -iova-1)
		s.forget(math.MaxUint64-1, 1)
	default:
		s.forget(iova, n)
	}
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
	_, desc := s.covers(r.addr.Desc, need.Desc)
	_, avail := s.covers(r.addr.Avail, need.Avail)
	_, used := s.covers(r.addr.Used, need.Used)
	return desc && avail && used
}

// resolve makes the view: the translations as parts of regions, those that
// continue each other joined, by ascending address.
func (s *Session) resolve() {
	list := make([]Translation, 0, len(s.tlb))
	for _, t := range s.tlb {
		for i := range s.memory {
			r := &s.memory[i]
			if off := t.UVA - r.UVA; off < r.Size && t.Size <= r.Size-off {
				list = append(list, Translation{IOVA: t.IOVA, Size: t.Size, Region: r.id, Offset: off})
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
	return t.IOVA+t.Size == next.IOVA && t.Region == next.Region && t.Offset+t.Size == next.Offset
}

// covers reports whether one run of the view holds the n addresses, and if not
// which of them has no translation.
func (s *Session) covers(iova, n uint64) (missing uint64, ok bool) {
	for i := range s.view {
		t := &s.view[i]
		off := iova - t.IOVA
		if off >= t.Size {
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
// translation, where the device wants to read or write.
func (s *Session) Missing(iova uint64, write bool) []Action {
	if s.ended || slices.Contains(s.asking, iova) {
		return nil
	}
	if len(s.asking) == maxAsking {
		s.asking = nil
	}
	s.asking = append(s.asking, iova)
	perm := uint8(tlbRead)
	if write {
		perm = tlbReadWrite
	}
	s.stats.TranslationMisses++
	return []Action{AskTranslation{IOVA: iova, Perm: perm}}
}

// NotAsked notes that an AskTranslation came to nothing, so that it is asked for
// again when a ring next meets the address.
func (s *Session) NotAsked(iova uint64) { s.answered(iova, 1) }

// answered forgets what was asked for of a range.
func (s *Session) answered(iova, n uint64) {
	s.asking = slices.DeleteFunc(s.asking, func(at uint64) bool { return at-iova < n })
}
