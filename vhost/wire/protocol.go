package wire

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/virtio"
)

// FeatureProtocol is the virtio feature bit by which a back-end says that it
// has protocol features, and a front-end that it knows of them. A front-end
// that does not acknowledge it never enables a ring: all are enabled then.
const FeatureProtocol virtio.Features = 1 << 30

// FeatureLogAll is the virtio feature bit that switches the dirty log on.
const FeatureLogAll virtio.Features = 1 << 26

// ProtocolFeatures is a set of vhost-user protocol feature bits.
type ProtocolFeatures uint64

// The protocol features.
const (
	ProtocolMQ                 ProtocolFeatures = 1 << 0
	ProtocolLogSHMFD           ProtocolFeatures = 1 << 1
	ProtocolRARP               ProtocolFeatures = 1 << 2
	ProtocolReplyAck           ProtocolFeatures = 1 << 3
	ProtocolMTU                ProtocolFeatures = 1 << 4
	ProtocolBackendReq         ProtocolFeatures = 1 << 5
	ProtocolCrossEndian        ProtocolFeatures = 1 << 6
	ProtocolPagefault          ProtocolFeatures = 1 << 8
	ProtocolConfig             ProtocolFeatures = 1 << 9
	ProtocolBackendSendFD      ProtocolFeatures = 1 << 10
	ProtocolHostNotifier       ProtocolFeatures = 1 << 11
	ProtocolInflightSHMFD      ProtocolFeatures = 1 << 12
	ProtocolResetDevice        ProtocolFeatures = 1 << 13
	ProtocolInband             ProtocolFeatures = 1 << 14
	ProtocolConfigureMemSlots  ProtocolFeatures = 1 << 15
	ProtocolStatus             ProtocolFeatures = 1 << 16
	ProtocolSharedObject       ProtocolFeatures = 1 << 18
	ProtocolDeviceState        ProtocolFeatures = 1 << 19
	ProtocolVringBaseInflight  ProtocolFeatures = 1 << 20
	ProtocolGPAAddresses       ProtocolFeatures = 1 << 21
	ProtocolSHMEM              ProtocolFeatures = 1 << 22
	ProtocolVringBaseSkipDrain ProtocolFeatures = 1 << 23
)

var protocolNames = map[int]string{
	0: "MQ", 1: "LOG_SHMFD", 2: "RARP", 3: "REPLY_ACK", 4: "MTU", 5: "BACKEND_REQ",
	6: "CROSS_ENDIAN", 7: "CRYPTO_SESSION", 8: "PAGEFAULT", 9: "CONFIG",
	10: "BACKEND_SEND_FD", 11: "HOST_NOTIFIER", 12: "INFLIGHT_SHMFD",
	13: "RESET_DEVICE", 14: "INBAND_NOTIFICATIONS", 15: "CONFIGURE_MEM_SLOTS",
	16: "STATUS", 17: "XEN_MMAP", 18: "SHARED_OBJECT", 19: "DEVICE_STATE",
	20: "GET_VRING_BASE_INFLIGHT", 21: "GPA_ADDRESSES", 22: "SHMEM",
	23: "GET_VRING_BASE_SKIP_DRAIN",
}

// Has reports whether every bit of want is in f.
func (f ProtocolFeatures) Has(want ProtocolFeatures) bool { return f&want == want }

// String lists the names of the bits in f, lowest first, joined by "|".
func (f ProtocolFeatures) String() string {
	if f == 0 {
		return "none"
	}
	var parts []string
	for i := range 64 {
		if f&(1<<i) == 0 {
			continue
		}
		name, ok := protocolNames[i]
		if !ok {
			name = fmt.Sprintf("bit %d", i)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, "|")
}
