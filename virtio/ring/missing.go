package ring

// Missing is an address of the driver's for which the memory has nothing, as a
// device behind an IOMMU meets it (ACCESS_PLATFORM; vhost-user, IOTLB_MSG).
type Missing struct {
	Addr  uint64
	Write bool // the device wants to write there
}

// Missing returns what a chain waits for that Next could not take; ok is false if
// none waits.
func (d *Device) Missing() (m Missing, ok bool) { return d.missing, d.wants }

// miss notes that of the n bytes at addr some are not in the memory that may be
// read, or written, if so, and if that may change.
func (d *Device) miss(addr, n uint64, write bool) {
	if !d.translates || d.wants {
		return
	}
	if at, ok := d.cursor(write).Memory().FirstUnmapped(addr, n); ok {
		d.missing, d.wants = Missing{Addr: at, Write: write}, true
	}
}
