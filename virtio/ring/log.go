package ring

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/shm"
)

// LogPage is the number of bytes of guest memory that one bit of a dirty log
// stands for (vhost-user, VHOST_LOG_PAGE).
const LogPage = 4096

// Log is where a Device notes which pages of guest memory it has written, while a
// guest migrates: bit n%8 of byte n/8 is the page at guest physical address
// n*LogPage. Bits are set by an atomic operation, since other queues set bits of
// the same bytes and the front-end clears them, and they are set before the
// driver sees a used element.
//
// The bytes that a guest may look at are noted: those of the chain's writable
// buffers that Push says were written, and the ring.
type Log struct {
	Bitmap []byte // aligned to 4 bytes; nil notes nothing
	Ring   bool   // note what is written to the ring itself
	// RingAddr is the guest physical address that stands for Config.Used: the log
	// address of SET_VRING_ADDR. The descriptors of a packed ring, which the device
	// writes too, are noted at Config.Desc.
	RingAddr uint64
}

// dirtyLog is a Device's side of a Log.
type dirtyLog struct {
	Log
	words  []uint32
	spans  [][]span // by handle: the writable buffers of the chains that are out
	noted  []span   // of the chain that is being taken
	missed uint64
}

// span is n bytes at a guest physical address.
type span struct {
	gpa uint64
	n   uint32
}

// SetLog begins to note what is written in l, or with the zero Log ends it.
// Buffers of chains that are out are not noted if there was no log when they were
// taken: put such chains back first. The error wraps ErrLog; nothing has changed
// then.
func (d *Device) SetLog(l Log) error {
	if l.Bitmap == nil {
		d.dirty = nil
		return nil
	}
	words, ok := shm.View[uint32](l.Bitmap)
	if !ok {
		return fmt.Errorf("%w: %d bytes", ErrLog, len(l.Bitmap))
	}
	if d.dirty == nil {
		d.dirty = &dirtyLog{spans: make([][]span, d.size)}
	}
	d.dirty.Log, d.dirty.words = l, words
	return nil
}

// LogMissed returns the number of written pages for which the log, as it is now,
// had no bit.
func (d *Device) LogMissed() uint64 {
	if d.dirty == nil {
		return 0
	}
	return d.dirty.missed
}

// note remembers a writable buffer of the chain that is being taken.
func (l *dirtyLog) note(gpa uint64, n uint32) { l.noted = append(l.noted, span{gpa, n}) }

// keep gives what was remembered to the chain with that handle.
func (l *dirtyLog) keep(handle uint16) {
	if int(handle) < len(l.spans) {
		l.spans[handle] = append(l.spans[handle][:0], l.noted...)
	}
	l.noted = l.noted[:0]
}

// wrote sets the bits of the first n bytes of a chain's writable buffers.
func (l *dirtyLog) wrote(handle uint16, n uint32) {
	if n == 0 || int(handle) >= len(l.spans) {
		return
	}
	for _, s := range l.spans[handle] {
		k := min(n, s.n)
		l.mark(s.gpa, uint64(k))
		if n -= k; n == 0 {
			return
		}
	}
}

// mark sets the bits of the n bytes at gpa, n not 0.
func (l *dirtyLog) mark(gpa, n uint64) {
	for page, last := gpa/LogPage, (gpa+n-1)/LogPage; page <= last; page++ {
		if page/32 >= uint64(len(l.words)) {
			l.missed += last - page + 1
			return
		}
		shm.Or32(&l.words[page/32], 1<<(page%32))
	}
}

// logUsed notes n bytes that were written at an offset of the used ring, or of the
// device's event structure.
func (d *Device) logUsed(off, n uint64) {
	if l := d.dirty; l != nil && l.Ring {
		l.mark(l.RingAddr+off, n)
	}
}

// logElements notes the elements of a split ring from index on that were staged,
// and the used index.
func (d *Device) logElements(index, staged uint16) {
	from, n := uint64(index&d.mask), uint64(staged)
	first := min(n, uint64(d.size)-from)
	d.logUsed(4+8*from, 8*first)
	if n > first {
		d.logUsed(4, 8*(n-first))
	}
	d.logUsed(2, 2)
}

// logRing notes n descriptors of a packed ring from s on.
func (d *Device) logRing(s spot, n uint32) {
	if !d.dirty.Ring {
		return
	}
	first := min(n, uint32(d.size-s.off))
	d.dirty.mark(d.cfg.Desc+16*uint64(s.off), 16*uint64(first))
	if n > first {
		d.dirty.mark(d.cfg.Desc, 16*uint64(n-first))
	}
}
