package virtio

import (
	"fmt"
	"strings"
)

// Features is a set of virtio feature bits, bit n being feature n (virtio 1.3
// §2.2; the net device's are those of §5.1.3). Features above bit 63 are not
// represented: no feature of this device lies there.
type Features uint64

// Feature bits of the net device (virtio 1.3 §5.1.3).
const (
	FeatureCSum              Features = 1 << 0
	FeatureGuestCSum         Features = 1 << 1
	FeatureCtrlGuestOffloads Features = 1 << 2
	FeatureMTU               Features = 1 << 3
	FeatureMAC               Features = 1 << 5
	FeatureGuestTSO4         Features = 1 << 7
	FeatureGuestTSO6         Features = 1 << 8
	FeatureGuestECN          Features = 1 << 9
	FeatureGuestUFO          Features = 1 << 10
	FeatureHostTSO4          Features = 1 << 11
	FeatureHostTSO6          Features = 1 << 12
	FeatureHostECN           Features = 1 << 13
	FeatureHostUFO           Features = 1 << 14
	FeatureMrgRxBuf          Features = 1 << 15
	FeatureStatus            Features = 1 << 16
	FeatureCtrlVQ            Features = 1 << 17
	FeatureCtrlRX            Features = 1 << 18
	FeatureCtrlVLAN          Features = 1 << 19
	FeatureCtrlRXExtra       Features = 1 << 20
	FeatureGuestAnnounce     Features = 1 << 21
	FeatureMQ                Features = 1 << 22
	FeatureCtrlMACAddr       Features = 1 << 23
	FeatureDeviceStats       Features = 1 << 50
	FeatureVQNotfCoal        Features = 1 << 52
	FeatureNotfCoal          Features = 1 << 53
	FeatureGuestUSO4         Features = 1 << 54
	FeatureGuestUSO6         Features = 1 << 55
	FeatureHostUSO           Features = 1 << 56
	FeatureHashReport        Features = 1 << 57
	FeatureGuestHdrLen       Features = 1 << 59
	FeatureRSS               Features = 1 << 60
	FeatureSpeedDuplex       Features = 1 << 63
)

// Feature bits of the transport and the rings (virtio 1.3 §6).
const (
	FeatureNotifyOnEmpty    Features = 1 << 24
	FeatureAnyLayout        Features = 1 << 27
	FeatureIndirectDesc     Features = 1 << 28
	FeatureEventIdx         Features = 1 << 29
	FeatureVersion1         Features = 1 << 32
	FeatureAccessPlatform   Features = 1 << 33
	FeatureRingPacked       Features = 1 << 34
	FeatureInOrder          Features = 1 << 35
	FeatureOrderPlatform    Features = 1 << 36
	FeatureNotificationData Features = 1 << 38
	FeatureRingReset        Features = 1 << 40
)

var featureNames = []struct {
	bit  Features
	name string
}{
	{FeatureCSum, "CSUM"}, {FeatureGuestCSum, "GUEST_CSUM"},
	{FeatureCtrlGuestOffloads, "CTRL_GUEST_OFFLOADS"}, {FeatureMTU, "MTU"},
	{FeatureMAC, "MAC"}, {FeatureGuestTSO4, "GUEST_TSO4"},
	{FeatureGuestTSO6, "GUEST_TSO6"}, {FeatureGuestECN, "GUEST_ECN"},
	{FeatureGuestUFO, "GUEST_UFO"}, {FeatureHostTSO4, "HOST_TSO4"},
	{FeatureHostTSO6, "HOST_TSO6"}, {FeatureHostECN, "HOST_ECN"},
	{FeatureHostUFO, "HOST_UFO"}, {FeatureMrgRxBuf, "MRG_RXBUF"},
	{FeatureStatus, "STATUS"}, {FeatureCtrlVQ, "CTRL_VQ"},
	{FeatureCtrlRX, "CTRL_RX"}, {FeatureCtrlVLAN, "CTRL_VLAN"},
	{FeatureCtrlRXExtra, "CTRL_RX_EXTRA"}, {FeatureGuestAnnounce, "GUEST_ANNOUNCE"},
	{FeatureMQ, "MQ"}, {FeatureCtrlMACAddr, "CTRL_MAC_ADDR"},
	{FeatureNotifyOnEmpty, "NOTIFY_ON_EMPTY"}, {FeatureAnyLayout, "ANY_LAYOUT"},
	{FeatureIndirectDesc, "INDIRECT_DESC"}, {FeatureEventIdx, "EVENT_IDX"},
	{FeatureVersion1, "VERSION_1"}, {FeatureAccessPlatform, "ACCESS_PLATFORM"},
	{FeatureRingPacked, "RING_PACKED"}, {FeatureInOrder, "IN_ORDER"},
	{FeatureOrderPlatform, "ORDER_PLATFORM"},
	{FeatureNotificationData, "NOTIFICATION_DATA"}, {FeatureRingReset, "RING_RESET"},
	{FeatureDeviceStats, "DEVICE_STATS"}, {FeatureVQNotfCoal, "VQ_NOTF_COAL"},
	{FeatureNotfCoal, "NOTF_COAL"}, {FeatureGuestUSO4, "GUEST_USO4"},
	{FeatureGuestUSO6, "GUEST_USO6"}, {FeatureHostUSO, "HOST_USO"},
	{FeatureHashReport, "HASH_REPORT"}, {FeatureGuestHdrLen, "GUEST_HDRLEN"},
	{FeatureRSS, "RSS"}, {FeatureSpeedDuplex, "SPEED_DUPLEX"},
}

// Has reports whether every bit of want is in f.
func (f Features) Has(want Features) bool { return f&want == want }

// String lists the names of the bits in f, lowest first, joined by "|";
// a bit without a name is printed as "bit N".
func (f Features) String() string {
	if f == 0 {
		return "none"
	}
	var parts []string
	for _, n := range featureNames {
		if f.Has(n.bit) {
			parts = append(parts, n.name)
			f &^= n.bit
		}
	}
	for i := 0; f != 0; i, f = i+1, f>>1 {
		if f&1 != 0 {
			parts = append(parts, fmt.Sprintf("bit %d", i))
		}
	}
	return strings.Join(parts, "|")
}

// featureNeeds are the dependencies of virtio 1.3 §5.1.3.1: each bit on the
// left requires every bit on the right.
var featureNeeds = []struct{ bit, needs Features }{
	{FeatureGuestTSO4, FeatureGuestCSum}, {FeatureGuestTSO6, FeatureGuestCSum},
	{FeatureGuestUFO, FeatureGuestCSum}, {FeatureGuestUSO4, FeatureGuestCSum},
	{FeatureGuestUSO6, FeatureGuestCSum},
	{FeatureHostTSO4, FeatureCSum}, {FeatureHostTSO6, FeatureCSum},
	{FeatureHostUFO, FeatureCSum}, {FeatureHostUSO, FeatureCSum},
	{FeatureCtrlRX, FeatureCtrlVQ}, {FeatureCtrlVLAN, FeatureCtrlVQ},
	{FeatureGuestAnnounce, FeatureCtrlVQ}, {FeatureMQ, FeatureCtrlVQ},
	{FeatureCtrlMACAddr, FeatureCtrlVQ}, {FeatureRSS, FeatureCtrlVQ},
	{FeatureNotfCoal, FeatureCtrlVQ}, {FeatureVQNotfCoal, FeatureCtrlVQ},
}

// CheckOffer validates a set that a device offers against the dependencies of
// virtio 1.3 §5.1.3.1 and names the first one that is broken. It is for the
// device's own configuration; what a front-end acknowledges is not held to it,
// since DPDK's virtio-user acknowledges MQ without CTRL_VQ.
func (f Features) CheckOffer() error {
	for _, d := range featureNeeds {
		if f.Has(d.bit) && !f.Has(d.needs) {
			return fmt.Errorf("feature %v needs %v", d.bit, d.needs&^f)
		}
	}
	if f&(FeatureGuestECN) != 0 && f&(FeatureGuestTSO4|FeatureGuestTSO6) == 0 {
		return fmt.Errorf("feature %v needs GUEST_TSO4 or GUEST_TSO6", FeatureGuestECN)
	}
	if f&(FeatureHostECN) != 0 && f&(FeatureHostTSO4|FeatureHostTSO6) == 0 {
		return fmt.Errorf("feature %v needs HOST_TSO4 or HOST_TSO6", FeatureHostECN)
	}
	return nil
}

// ParseFeature returns the bit of that name, in upper or lower case, and false if
// there is none.
func ParseFeature(name string) (Features, bool) {
	for _, n := range featureNames {
		if strings.EqualFold(n.name, name) {
			return n.bit, true
		}
	}
	return 0, false
}

// Names returns the names of the bits in f that have one, lowest first.
func (f Features) Names() (names []string) {
	for _, n := range featureNames {
		if f.Has(n.bit) {
			names = append(names, n.name)
		}
	}
	return names
}
