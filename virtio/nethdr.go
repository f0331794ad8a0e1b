package virtio

import "encoding/binary"

// NetHdrLen is the length in bytes of the virtio-net header with num_buffers,
// as used with VERSION_1 or MRG_RXBUF (virtio 1.3 §5.1.6). LegacyNetHdrLen is
// that of a legacy device without MRG_RXBUF. HashNetHdrLen is that with
// HASH_REPORT: in both directions, 8 bytes for a hash follow the 12.
const (
	NetHdrLen       = 12
	LegacyNetHdrLen = 10
	HashNetHdrLen   = 20
)

// Flags of the net header (virtio 1.3 §5.1.6).
const (
	HdrNeedsCSum uint8 = 1
	HdrDataValid uint8 = 2
)

// GSO types of the net header (virtio 1.3 §5.1.6).
const (
	GSONone  uint8 = 0
	GSOTCPv4 uint8 = 1
	GSOUDP   uint8 = 3
	GSOTCPv6 uint8 = 4
	GSOUDPL4 uint8 = 5
	GSOECN   uint8 = 0x80
)

// NetHdr is struct virtio_net_hdr in host order (virtio 1.3 §5.1.6).
type NetHdr struct {
	Flags      uint8
	GSOType    uint8
	HdrLen     uint16 // bytes of headers before the payload: a hint only
	GSOSize    uint16 // payload bytes of each segment; 0 without GSO
	CSumStart  uint16 // bytes from the start of the frame
	CSumOffset uint16 // bytes from CSumStart
	NumBuffers uint16 // receive only
}

// Decode reads the header from the first NetHdrLen bytes of b, or, if b is
// shorter, the first LegacyNetHdrLen bytes with NumBuffers 0. It returns false
// if b is shorter than that.
func (h *NetHdr) Decode(b []byte) bool {
	if len(b) < LegacyNetHdrLen {
		return false
	}
	h.Flags, h.GSOType = b[0], b[1]
	h.HdrLen = binary.LittleEndian.Uint16(b[2:])
	h.GSOSize = binary.LittleEndian.Uint16(b[4:])
	h.CSumStart = binary.LittleEndian.Uint16(b[6:])
	h.CSumOffset = binary.LittleEndian.Uint16(b[8:])
	h.NumBuffers = 0
	if len(b) >= NetHdrLen {
		h.NumBuffers = binary.LittleEndian.Uint16(b[10:])
	}
	return true
}

// Encode writes the header to b, which must hold LegacyNetHdrLen bytes;
// NumBuffers is written if b holds NetHdrLen.
func (h *NetHdr) Encode(b []byte) {
	_ = b[LegacyNetHdrLen-1]
	b[0], b[1] = h.Flags, h.GSOType
	binary.LittleEndian.PutUint16(b[2:], h.HdrLen)
	binary.LittleEndian.PutUint16(b[4:], h.GSOSize)
	binary.LittleEndian.PutUint16(b[6:], h.CSumStart)
	binary.LittleEndian.PutUint16(b[8:], h.CSumOffset)
	if len(b) >= NetHdrLen {
		binary.LittleEndian.PutUint16(b[10:], h.NumBuffers)
	}
}

// EncodeCSum writes to b, as Encode does, the header of a packet of which only the
// checksum is left to be done, in few stores.
func EncodeCSum(b []byte, start, offset uint16) {
	_ = b[LegacyNetHdrLen-1]
	binary.LittleEndian.PutUint64(b, uint64(HdrNeedsCSum)|uint64(start)<<48)
	binary.LittleEndian.PutUint16(b[8:], offset)
	if len(b) >= NetHdrLen {
		binary.LittleEndian.PutUint16(b[10:], 0)
	}
}

// EncodeHash writes the hash of a packet and its report, one of the Report
// constants of package frame, to the last 8 bytes of the HashNetHdrLen bytes of b (virtio 1.3
// §5.1.6.4.4).
func EncodeHash(b []byte, hash uint32, report uint16) {
	_ = b[HashNetHdrLen-1]
	binary.LittleEndian.PutUint32(b[12:], hash)
	binary.LittleEndian.PutUint16(b[16:], report)
	binary.LittleEndian.PutUint16(b[18:], 0)
}
