package wire

import (
	"encoding/binary"
	"fmt"
)

// kind is the form of a payload.
type kind uint8

const (
	none kind = iota // no message at all
	empty
	number
	vringState
	vringAddr
	vringFD
	memTable
	memRegion
	config
	logArea
	logAnswer
	iotlb
	inflight
	uuid
	stateTransfer
	raw
)

// sizes are the payload lengths in bytes that a kind may have, least and most.
// QEMU before 5.2 cuts 4 bytes off a memory region, some front-ends pad an
// inflight description, and User Mode Linux always sends a table of 2 regions.
var sizes = [...]struct{ least, most int }{
	empty:         {0, 0},
	number:        {8, 8},
	vringState:    {8, 8},
	vringAddr:     {40, 40},
	vringFD:       {8, 8},
	memTable:      {8, MaxPayload},
	memRegion:     {36, 40},
	config:        {12, 12 + MaxConfig},
	logArea:       {16, 16},
	logAnswer:     {0, 16},
	iotlb:         {26, 32},
	inflight:      {20, 24},
	uuid:          {16, 16},
	stateTransfer: {8, 8},
	raw:           {0, MaxPayload},
}

// Decode reads the message in b, header and payload, and validates the payload
// for its request: its size, and whatever can be judged without a session. With
// an error about the payload the message's Request and Flags are right and its
// Payload is Empty, so that it can be answered. Nothing of the result refers to
// b.
func Decode(b []byte) (Message, error) { return decode(b, Message.form) }

// DecodeBackend is Decode for a message of the back-end's own, in the numbers of
// BackendRequest.
func DecodeBackend(b []byte) (Message, error) { return decode(b, Message.backendForm) }

func decode(b []byte, form func(Message) kind) (Message, error) {
	h, err := ParseHeader(b)
	m := Message{Request: h.Request, Flags: h.Flags &^ VersionMask, Payload: Empty{}}
	if err != nil {
		return m, err
	}
	body := b[HeaderLen:]
	if uint64(len(body)) != uint64(h.Size) {
		return m, fmt.Errorf("%v: %w: payload of %d bytes, header says %d", m.Request, ErrShort, len(body), h.Size)
	}
	k := form(m)
	if m.Request == SetMemTable && m.IsReply() && len(body) > 8 {
		k = memTable // the regions' addresses in the back-end, for post-copy
		if len(body) < sizes[k].least || u32(body) == 0 {
			return m, fmt.Errorf("%v: %w: %d bytes without a region; an answer has those that were sent, or is a number of 8 bytes", m.Request, ErrPayloadSize, len(body))
		}
	}
	p, err := decodePayload(k, body)
	if err != nil {
		return m, fmt.Errorf("%v: %w", m.Request, err)
	}
	m.Payload = p
	return m, nil
}

// backendForm is form for a message of the back-end's own.
func (m Message) backendForm() kind {
	switch BackendRequest(m.Request) {
	case BackendIOTLB:
		return iotlb
	case BackendConfigChange:
		return empty
	case BackendVringCall, BackendVringErr:
		return vringState
	}
	return raw
}

// form is the kind of payload that m has by its request and direction.
func (m Message) form() kind {
	s := m.Request.spec()
	if !m.IsReply() {
		return s.payload
	}
	if s.reply == none {
		return number // an acknowledgement
	}
	return s.reply
}

func decodePayload(k kind, b []byte) (Payload, error) {
	if s := sizes[k]; len(b) < s.least || len(b) > s.most {
		if k == config && len(b) == 0 {
			return Config{}, nil // an answer that says "failed"
		}
		return nil, fmt.Errorf("%w: %d bytes, want %d to %d", ErrPayloadSize, len(b), s.least, s.most)
	}
	switch k {
	case number:
		return U64(u64(b)), nil
	case vringState:
		return VringState{Index: u32(b), Num: u32(b[4:])}, nil
	case vringAddr:
		return VringAddr{Index: u32(b), Flags: u32(b[4:]), Desc: u64(b[8:]), Used: u64(b[16:]),
			Avail: u64(b[24:]), Log: u64(b[32:])}, nil
	case vringFD:
		return decodeVringFD(u64(b))
	case memTable:
		return decodeMemTable(b)
	case memRegion:
		return decodeMemRegion(b)
	case config:
		return decodeConfig(b)
	case logArea:
		return LogArea{Size: u64(b), Offset: u64(b[8:])}, nil
	case logAnswer:
		return decodeLogAnswer(b)
	case iotlb:
		return IOTLB{IOVA: u64(b), Size: u64(b[8:]), UVA: u64(b[16:]), Perm: b[24], Type: b[25]}, nil
	case inflight:
		return Inflight{MapSize: u64(b), MapOffset: u64(b[8:]),
			NumQueues: binary.LittleEndian.Uint16(b[16:]), QueueSize: binary.LittleEndian.Uint16(b[18:])}, nil
	case uuid:
		return UUID(b), nil
	case stateTransfer:
		return StateTransfer{Direction: u32(b), Phase: u32(b[4:])}, nil
	case raw:
		return append(Raw{}, b...), nil
	}
	return Empty{}, nil
}

func decodeVringFD(v uint64) (Payload, error) {
	if v&^(noFD|0xff) != 0 {
		return nil, fmt.Errorf("%w: ring %#x", ErrReserved, v)
	}
	return VringFD{Index: uint8(v), NoFD: v&noFD != 0}, nil
}

func decodeMemTable(b []byte) (Payload, error) {
	n := u32(b)
	if n > MaxRegions {
		return nil, fmt.Errorf("%w: %d, limit %d", ErrRegions, n, MaxRegions)
	}
	if len(b) < 8+32*int(n) {
		return nil, fmt.Errorf("%w: %d bytes for %d regions", ErrPayloadSize, len(b), n)
	}
	t := MemTable{Regions: make([]Region, n)}
	for i := range t.Regions {
		t.Regions[i] = decodeRegion(b[8+32*i:])
	}
	return t, nil
}

func decodeRegion(b []byte) Region {
	return Region{GPA: u64(b), Size: u64(b[8:]), UVA: u64(b[16:]), Offset: u64(b[24:])}
}

// decodeMemRegion reads a region of 40 bytes, or one of 36 whose offset lost
// its upper half on the way: it is taken for 0, and refused if the lower half
// says otherwise.
func decodeMemRegion(b []byte) (Payload, error) {
	if len(b) >= 40 {
		return MemRegion{Region: decodeRegion(b[8:])}, nil
	}
	if len(b) != 36 {
		return nil, fmt.Errorf("%w: %d bytes, want 40 or 36", ErrPayloadSize, len(b))
	}
	if u32(b[32:]) != 0 {
		return nil, fmt.Errorf("%w: payload of %d bytes, want 40", ErrLostOffset, len(b))
	}
	return MemRegion{Region: Region{GPA: u64(b[8:]), Size: u64(b[16:]), UVA: u64(b[24:])}}, nil
}

// decodeLogAnswer reads the answer to SET_LOG_BASE, on whose form back-ends
// differ: nothing (DPDK), a number (libvhost-user, and Session here), or the
// request's own payload. That to POSTCOPY_ADVISE has no bytes.
func decodeLogAnswer(b []byte) (Payload, error) {
	switch len(b) {
	case 0:
		return Empty{}, nil
	case 8:
		return U64(u64(b)), nil
	case 16:
		return LogArea{Size: u64(b), Offset: u64(b[8:])}, nil
	}
	return nil, fmt.Errorf("%w: %d bytes, want 0, 8 or 16", ErrPayloadSize, len(b))
}

func decodeConfig(b []byte) (Payload, error) {
	off, size := u32(b), u32(b[4:])
	if size == 0 || off > MaxConfig || size > MaxConfig || off+size > MaxConfig {
		return nil, fmt.Errorf("%w: offset %d, size %d, limit %d", ErrConfigRange, off, size, MaxConfig)
	}
	if len(b) != 12+int(size) {
		return nil, fmt.Errorf("%w: %d bytes for a part of %d", ErrPayloadSize, len(b), size)
	}
	return Config{Offset: off, Flags: u32(b[8:]), Data: append([]byte{}, b[12:]...)}, nil
}

func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
