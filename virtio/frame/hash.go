package frame

// HashTypes is a set of the kinds of hash that RSS and HASH_REPORT know (virtio
// 1.3 §5.1.6.4.3.1).
type HashTypes uint32

// The kinds of hash. Those with EX are over the home addresses that IPv6
// extension headers name.
const (
	HashIPv4  HashTypes = 1 << 0
	HashTCPv4 HashTypes = 1 << 1
	HashUDPv4 HashTypes = 1 << 2
	HashIPv6  HashTypes = 1 << 3
	HashTCPv6 HashTypes = 1 << 4
	HashUDPv6 HashTypes = 1 << 5
	HashIPEx  HashTypes = 1 << 6
	HashTCPEx HashTypes = 1 << 7
	HashUDPEx HashTypes = 1 << 8

	// HashAll is every kind.
	HashAll HashTypes = 1<<9 - 1
)

// Reports of a hash in the net header (virtio 1.3 §5.1.6.4.4).
const (
	ReportNone    uint16 = 0
	ReportIPv4    uint16 = 1
	ReportTCPv4   uint16 = 2
	ReportUDPv4   uint16 = 3
	ReportIPv6    uint16 = 4
	ReportTCPv6   uint16 = 5
	ReportUDPv6   uint16 = 6
	ReportIPv6Ex  uint16 = 7
	ReportTCPv6Ex uint16 = 8
	ReportUDPv6Ex uint16 = 9
)
