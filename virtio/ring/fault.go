package ring

// Fault is a way in which a guest breaks the rules of the ring: the error that
// Device.Next returns, as itself and not wrapped, so that it can index an array
// of counters. The values are comparable sentinels: errors.Is(err, ErrLoop).
type Fault uint8

// The faults of a chain. All but ErrAvailJump and ErrWrap concern one chain, which
// the caller gives back with length 0.
const (
	_ Fault = iota
	// ErrAvailJump: more chains are available than the ring has room for. The
	// indices cannot be trusted any more: the Device takes nothing until it is
	// made anew.
	ErrAvailJump
	// ErrWrap: a descriptor in the middle of a packed ring's chain is not marked
	// available. Where the next chain begins is not known: the Device takes nothing
	// until it is made anew.
	ErrWrap
	// ErrHead: the entry of the available ring is not below the queue size.
	ErrHead
	// ErrNext: a next field points beyond the table.
	ErrNext
	// ErrLoop: the chain has more descriptors than its table, so it has a loop.
	ErrLoop
	// ErrZeroLen: a descriptor has length 0.
	ErrZeroLen
	// ErrAddrOverflow: address plus length exceeds 64 bits.
	ErrAddrOverflow
	// ErrBadAddress: a buffer is not, or not wholly, guest memory.
	ErrBadAddress
	// ErrOrder: a device-readable descriptor follows a writable one.
	ErrOrder
	// ErrTooLong: the buffers hold more bytes in total than the limit, or lie in
	// too many pieces.
	ErrTooLong
	// ErrIndirectOff: an indirect descriptor, but INDIRECT_DESC was not
	// negotiated.
	ErrIndirectOff
	// ErrIndirectNext: an indirect descriptor with the NEXT flag.
	ErrIndirectNext
	// ErrIndirectNested: an indirect descriptor within an indirect table.
	ErrIndirectNested
	// ErrIndirectLen: the table's length is 0, no multiple of 16, or over 1 MiB.
	ErrIndirectLen
	// ErrIndirectTable: the table is not, or not wholly, in one memory region.
	ErrIndirectTable
	// NumFaults is the length of an array that is indexed by Fault.
	NumFaults
)

var faultNames = [NumFaults]struct{ name, text string }{
	0:                 {"none", "no fault"},
	ErrAvailJump:      {"avail_jump", "more chains available than the queue size"},
	ErrWrap:           {"bad_wrap", "descriptor of a chain is not marked available"},
	ErrHead:           {"bad_head", "available entry is not below the queue size"},
	ErrNext:           {"bad_next", "next descriptor is beyond the table"},
	ErrLoop:           {"loop", "descriptor chain has a loop"},
	ErrZeroLen:        {"zero_len", "descriptor has length 0"},
	ErrAddrOverflow:   {"addr_overflow", "descriptor ends beyond the address space"},
	ErrBadAddress:     {"bad_address", "descriptor points outside guest memory"},
	ErrOrder:          {"bad_order", "readable descriptor after a writable one"},
	ErrTooLong:        {"too_long", "descriptor chain exceeds the byte limit"},
	ErrIndirectOff:    {"indirect_off", "indirect descriptor without INDIRECT_DESC"},
	ErrIndirectNext:   {"indirect_next", "indirect descriptor with NEXT"},
	ErrIndirectNested: {"indirect_nested", "indirect descriptor in an indirect table"},
	ErrIndirectLen:    {"indirect_len", "indirect table length is not 1 to 65536 times 16"},
	ErrIndirectTable:  {"indirect_table", "indirect table is not in one memory region"},
}

// Error describes the fault.
func (f Fault) Error() string {
	if f >= NumFaults {
		f = 0
	}
	return faultNames[f].text
}

// Name returns the fault's name as a counter: lower case, joined by "_".
func (f Fault) Name() string {
	if f >= NumFaults {
		f = 0
	}
	return faultNames[f].name
}
