package netdev

import (
	"encoding/binary"
	"slices"

	"github.com/vnetbench/vnetbench/virtio/frame"
)

// maxIndirection is the most entries of an indirection table that a guest may
// set: what Linux uses (virtio_net, v6.12: VIRTIO_NET_RSS_MAX_TABLE_LEN).
const maxIndirection = 128

// rss is what the guest has set of hashes and of steering by them. It never
// changes once a filter has it.
type rss struct {
	types frame.HashTypes
	key   frame.Toeplitz
	raw   []byte // the key as the guest gave it; never changed

	steers       bool // the table decides which pair receives
	table        [maxIndirection]uint8
	mask         uint32
	unclassified uint8 // the pair for frames that have no hash
}

// setRSS carries RSS_CONFIG out (virtio 1.3 §5.1.6.5.7.1): kinds of hash, table
// and key. pairs is how many pairs there are.
func (f *filter) setRSS(data []byte, pairs int) bool {
	le := binary.LittleEndian
	if len(data) < 8 {
		return false
	}
	types, mask := le.Uint32(data), uint32(le.Uint16(data[4:]))
	n := int(mask) + 1
	if n > maxIndirection || n&(n-1) != 0 {
		return false
	}
	r := &rss{steers: true, mask: mask}
	if !r.setQueue(&r.unclassified, data[6:], pairs) || len(data) < 8+2*n+2 {
		return false
	}
	last := r.unclassified
	for i := range n {
		if !r.setQueue(&r.table[i], data[8+2*i:], pairs) {
			return false
		}
		last = max(last, r.table[i])
	}
	data = data[8+2*n:]
	if tx := int(le.Uint16(data)); tx < 1 || tx > pairs {
		return false
	}
	if !r.setKey(types, data[2:]) {
		return false
	}
	f.rss, f.pairs = r, int(last)+1
	return true
}

// setQueue reads the number of a receive queue: 15 bits, the top bit is
// reserved.
func (r *rss) setQueue(to *uint8, data []byte, pairs int) bool {
	v := binary.LittleEndian.Uint16(data)
	*to = uint8(v)
	return int(v) < pairs
}

// setKey reads the length of the key and the key, which end the command.
func (r *rss) setKey(types uint32, data []byte) bool {
	if types&^uint32(frame.HashAll) != 0 || len(data) < 1 {
		return false
	}
	n := int(data[0])
	if n > frame.ToeplitzKeyMax || len(data) < 1+n {
		return false
	}
	r.types = frame.HashTypes(types)
	r.raw = slices.Clone(data[1 : 1+n])
	r.key.SetKey(r.raw)
	return true
}

// setHash carries HASH_CONFIG out (virtio 1.3 §5.1.6.5.6.4): kinds of hash, eight
// reserved bytes, and the key. The steering stays as it is.
func (f *filter) setHash(data []byte) bool {
	if len(data) < 12 {
		return false
	}
	var r rss
	if f.rss != nil {
		r = *f.rss
	}
	if !r.setKey(binary.LittleEndian.Uint32(data), data[12:]) {
		return false
	}
	f.rss = &r
	return true
}

// withoutTable returns r with the device's own steering.
func (r *rss) withoutTable() *rss {
	if r == nil || !r.steers {
		return r
	}
	c := *r
	c.steers = false
	return &c
}

// steer returns the pair that the parsed frame b goes to.
func (r *rss) steer(b []byte, in *frame.Info) int {
	hash, report := r.key.Hash(b, in, r.types)
	if report == frame.ReportNone {
		return int(r.unclassified)
	}
	return int(r.table[hash&r.mask])
}

// hash returns what a net header says of the frame in v.
func (f *filter) hash(v *frameView) (hash uint32, report uint16) {
	if f.rss == nil {
		return 0, frame.ReportNone
	}
	return f.rss.key.Hash(v.front, &v.info, f.rss.types)
}
