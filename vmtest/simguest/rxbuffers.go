package simguest

import "github.com/vnetbench/vnetbench/virtio"

// rxBuffers is the receive ring of a guest's virtio-net driver, as far as the
// memory goes that sockets are charged for a packet (drivers/net/virtio_net.c,
// v6.1 and v6.12): buffers are cut from pages of 32 KiB, and grow with the mean
// length of the packets.
type rxBuffers struct {
	posted []rxBuffer // in the ring, the next one first
	offset int32      // used of the page that is cut now
	mean   int32      // of the packets' lengths
}

// rxBuffer is one buffer.
type rxBuffer struct {
	len   int32
	fresh bool // begins a page
}

const (
	rxRing    = 256
	rxRefill  = 32 // free buffers above which a poll posts new ones (half of the NAPI budget)
	rxPage    = 32 << 10
	rxMin     = 1518 // GOOD_PACKET_LEN
	rxMax     = 4096 - virtio.NetHdrLen
	rxWeight  = 64 // of the mean (DECLARE_EWMA)
	cacheLine = 64
	rxHead    = 1024
	headSize  = rxHead + 256 // with the sk_buff
)

// newRxBuffers is a full ring, as after the driver's start and some short packets.
func newRxBuffers(before int) *rxBuffers {
	b := &rxBuffers{}
	b.fill()
	for range before {
		b.take(shortFrame)
	}
	return b
}

// shortFrame is the least that crosses an Ethernet.
const shortFrame = 60

// framesBefore is how many packets a guest got before the first SYN. It was found by
// where the holes at the ends of pages are, and is the same in all open traces of a
// kernel.
func framesBefore(kernel string) int {
	if kernel == "6.1" {
		return 0
	}
	return 3
}

// fill posts buffers until the ring is full (add_recvbuf_mergeable and
// get_mergeable_buf_len). What is left of a page and too short for another buffer
// is the last one's.
func (b *rxBuffers) fill() {
	for len(b.posted) < rxRing {
		n := (virtio.NetHdrLen + min(max(b.mean, rxMin), rxMax) + cacheLine - 1) &^ (cacheLine - 1)
		if rxPage-b.offset < n {
			b.offset = 0
		}
		fresh := b.offset == 0
		b.offset += n
		if hole := rxPage - b.offset; hole < n {
			n += hole
			b.offset += hole
		}
		b.posted = append(b.posted, rxBuffer{n, fresh})
	}
}

// take receives a packet whose frame has so many bytes. It returns what a socket
// is charged for it and in how many fragments it is: a head of 1 KiB
// (napi_alloc_skb), and its buffers unless all of it fits the head (page_to_skb).
func (b *rxBuffers) take(frame int32) (truesize, frags int32) {
	const room = rxHead - 320 - 66 // less the end of it and the space kept in front
	used, size := int32(0), int32(0)
	frags = 1 // buffers that follow each other in a page are one fragment
	for left := frame + virtio.NetHdrLen; left > 0 && int(used) < len(b.posted); used++ {
		left -= b.posted[used].len
		size += b.posted[used].len
		if used > 0 && b.posted[used].fresh {
			frags++
		}
	}
	b.posted = b.posted[:copy(b.posted, b.posted[used:])]
	if b.mean == 0 {
		b.mean = frame
	} else {
		b.mean = (b.mean*(rxWeight-1) + frame) / rxWeight
	}
	if rxRing-len(b.posted) > rxRefill {
		b.fill()
	}
	if frame <= room {
		return headSize, 0
	}
	return headSize + size, frags
}
