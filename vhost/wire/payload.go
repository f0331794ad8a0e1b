package wire

import (
	"encoding/binary"
	"fmt"
)

// MaxRegions is how many regions a SET_MEM_TABLE may hold. MaxConfig is the
// size in bytes of the window that GET_CONFIG and SET_CONFIG see.
const (
	MaxRegions = 8
	MaxConfig  = 256
)

// Payload is what follows a header: one of the types of this file.
type Payload interface {
	append(dst []byte) []byte
}

// Empty is the payload of no bytes.
type Empty struct{}

// U64 is a number: feature bits, a count, or an acknowledgement, where 0 is
// success.
type U64 uint64

// VringState is a ring's index and a number: its size, its base or whether it
// is enabled.
type VringState struct {
	Index, Num uint32
}

// VringAddr is where a ring lies, as addresses of the front-end's process, or
// guest physical ones with GPA_ADDRESSES.
type VringAddr struct {
	Index             uint32
	Flags             uint32 // bit 0: log writes to the used ring at Log
	Desc, Used, Avail uint64
	Log               uint64 // guest physical
}

// VringFD says which ring a descriptor belongs to, and whether there is one.
type VringFD struct {
	Index uint8
	NoFD  bool // poll the ring instead of waiting for a descriptor
}

// Region is one contiguous part of guest memory.
type Region struct {
	GPA    uint64 // guest physical address
	Size   uint64 // bytes
	UVA    uint64 // address in the front-end's process
	Offset uint64 // of the region's start in its descriptor's file, bytes
}

// MemTable is the whole of guest memory. The message carries one descriptor
// for each region.
type MemTable struct {
	Regions []Region
}

// MemRegion is one region that is added or removed.
type MemRegion struct {
	Region Region
}

// Config is a part of the device's configuration space. Data is as long as the
// part; in an answer, an empty Data means failure and nothing is sent.
type Config struct {
	Offset uint32
	Flags  uint32
	Data   []byte
}

// LogArea is the shared memory of the dirty log.
type LogArea struct {
	Size, Offset uint64 // bytes
}

// IOTLB is a translation, or the want of one.
type IOTLB struct {
	IOVA, Size, UVA uint64
	Perm, Type      uint8
}

// Inflight is the shared memory in which a back-end notes what it has taken
// from the rings.
type Inflight struct {
	MapSize, MapOffset   uint64
	NumQueues, QueueSize uint16
}

// UUID names a shared object.
type UUID [16]byte

// StateTransfer says in which direction device state goes: 0 saves, 1 loads.
type StateTransfer struct {
	Direction, Phase uint32
}

// Raw is a payload without a form: that of an unknown request.
type Raw []byte

// String shows the region's addresses in hexadecimal.
func (r Region) String() string {
	return fmt.Sprintf("gpa %#x size %#x uva %#x offset %#x", r.GPA, r.Size, r.UVA, r.Offset)
}

// String shows the ring's addresses in hexadecimal.
func (v VringAddr) String() string {
	return fmt.Sprintf("ring %d flags %d desc %#x avail %#x used %#x log %#x", v.Index, v.Flags, v.Desc, v.Avail, v.Used, v.Log)
}

func (Empty) append(dst []byte) []byte { return dst }

func (v U64) append(dst []byte) []byte { return put64(dst, uint64(v)) }

func (v VringState) append(dst []byte) []byte { return put32(dst, v.Index, v.Num) }

func (v VringAddr) append(dst []byte) []byte {
	dst = put32(dst, v.Index, v.Flags)
	return put64(dst, v.Desc, v.Used, v.Avail, v.Log)
}

// noFD is the bit of a VringFD that says that there is no descriptor.
const noFD = 1 << 8

func (v VringFD) append(dst []byte) []byte {
	n := uint64(v.Index)
	if v.NoFD {
		n |= noFD
	}
	return put64(dst, n)
}

func (v Region) append(dst []byte) []byte { return put64(dst, v.GPA, v.Size, v.UVA, v.Offset) }

func (v MemTable) append(dst []byte) []byte {
	dst = put32(dst, uint32(len(v.Regions)), 0)
	for _, r := range v.Regions {
		dst = r.append(dst)
	}
	return dst
}

func (v MemRegion) append(dst []byte) []byte { return v.Region.append(put64(dst, 0)) }

func (v Config) append(dst []byte) []byte {
	if len(v.Data) == 0 {
		return dst
	}
	dst = put32(dst, v.Offset, uint32(len(v.Data)), v.Flags)
	return append(dst, v.Data...)
}

func (v LogArea) append(dst []byte) []byte { return put64(dst, v.Size, v.Offset) }

func (v IOTLB) append(dst []byte) []byte {
	dst = put64(dst, v.IOVA, v.Size, v.UVA)
	return append(dst, v.Perm, v.Type, 0, 0, 0, 0, 0, 0)
}

func (v Inflight) append(dst []byte) []byte {
	dst = put64(dst, v.MapSize, v.MapOffset)
	dst = binary.LittleEndian.AppendUint16(dst, v.NumQueues)
	return binary.LittleEndian.AppendUint16(dst, v.QueueSize)
}

func (v UUID) append(dst []byte) []byte { return append(dst, v[:]...) }

func (v StateTransfer) append(dst []byte) []byte { return put32(dst, v.Direction, v.Phase) }

func (v Raw) append(dst []byte) []byte { return append(dst, v...) }

func put32(dst []byte, vs ...uint32) []byte {
	for _, v := range vs {
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	return dst
}

func put64(dst []byte, vs ...uint64) []byte {
	for _, v := range vs {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return dst
}
