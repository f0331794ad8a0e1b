package frame

// EtherTypeRARP is the EtherType of reverse ARP (RFC 903).
const EtherTypeRARP uint16 = 0x8035

// AppendRARP appends the frame that tells switches where a station is now, as
// hosts send it after a migration: a broadcast reverse ARP request in which the
// station asks for its own address (RFC 903), padded to the 60 bytes that
// Ethernet asks for. It returns the extended slice.
func AppendRARP(b []byte, station MAC) []byte {
	at := len(b)
	b = append(b, make([]byte, 60)...)
	f := b[at:]
	*(*MAC)(f[0:]) = MAC{255, 255, 255, 255, 255, 255}
	*(*MAC)(f[6:]) = station
	be.PutUint16(f[12:], EtherTypeRARP)
	be.PutUint16(f[14:], 1) // Ethernet
	be.PutUint16(f[16:], EtherTypeIPv4)
	f[18], f[19] = 6, 4
	be.PutUint16(f[20:], 3) // request reverse
	*(*MAC)(f[22:]) = station
	*(*MAC)(f[32:]) = station
	return b
}
