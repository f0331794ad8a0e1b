package frontend

import (
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// qemuFeatures is what QEMU's vhost-user network passes on; the control queue and
// what depends on it stays in QEMU.
const qemuFeatures = virtio.FeatureNotifyOnEmpty | virtio.FeatureIndirectDesc | virtio.FeatureEventIdx |
	virtio.FeatureAnyLayout | virtio.FeatureVersion1 | virtio.FeatureCSum | virtio.FeatureGuestCSum |
	virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN | virtio.FeatureGuestUFO |
	virtio.FeatureHostTSO4 | virtio.FeatureHostTSO6 | virtio.FeatureHostECN | virtio.FeatureHostUFO |
	virtio.FeatureMrgRxBuf | virtio.FeatureMTU | virtio.FeatureRingPacked | virtio.FeatureGuestAnnounce |
	virtio.FeatureMQ

const qemu7Protocol = wire.ProtocolMQ | wire.ProtocolLogSHMFD | wire.ProtocolRARP | wire.ProtocolReplyAck |
	wire.ProtocolMTU | wire.ProtocolBackendReq | wire.ProtocolBackendSendFD | wire.ProtocolHostNotifier |
	wire.ProtocolInflightSHMFD | wire.ProtocolResetDevice | wire.ProtocolConfigureMemSlots |
	wire.ProtocolStatus | wire.ProtocolPagefault

// QEMU7 is QEMU 7.2: what concerns the device as a whole comes once for each pair,
// and at a reset status 0 comes before the rings' bases are asked for.
func QEMU7() *Profile {
	return &Profile{
		Name: "QEMU 7.2", Protocol: qemu7Protocol, Features: qemuFeatures, PacksRings: true,
		needsReply: only(wire.SetMemTable, wire.AddMemReg, wire.RemMemReg, wire.NetSetMTU),
		open:       qemuOpen,
		start:      func(f *Front) []step { return qemuStart(f, true) },
		stop: func(f *Front) []step {
			return join([]step{setStatus(0)}, f.each(func(r *RingInfo) []step { return []step{r.getBase()} }))
		},
	}
}

// QEMU10 is QEMU from 8.1 on, as of release 10: the device's messages come once,
// and status 0 comes last.
func QEMU10() *Profile {
	return &Profile{
		Name: "QEMU 10", Protocol: qemu7Protocol | wire.ProtocolDeviceState | wire.ProtocolSHMEM,
		Features: qemuFeatures | virtio.FeatureInOrder, PacksRings: true,
		needsReply: only(wire.SetMemTable, wire.AddMemReg, wire.RemMemReg, wire.NetSetMTU, wire.SetStatus,
			wire.SetVringAddr, wire.SetVringEnable),
		open:  qemuOpen,
		start: func(f *Front) []step { return qemuStart(f, false) },
		stop: func(f *Front) []step {
			return join(f.each(func(r *RingInfo) []step { return []step{r.getBase()} }), []step{setStatus(0)})
		},
	}
}

// qemuOpen is the initialisation of a back-end for each pair.
func qemuOpen(f *Front) (steps []step) {
	for pair := range f.Pairs {
		steps = append(steps, getFeatures, getProtocol, setProtocol)
		if pair == 0 {
			steps = append(steps, getQueueNum)
		}
		steps = append(steps, getSlots)
		if pair == 0 {
			steps = append(steps, f.backendFD()...)
			steps = append(steps, setOwner)
		}
		steps = append(steps, getFeatures)
	}
	return steps
}

// Status bits (virtio 1.3 §2.1).
const (
	featuresOK = 1 | 2 | 8
	driverOK   = featuresOK | 4
)

// qemuStart starts pair by pair. Rings are enabled before anything else of them
// is known: those of the first pair, if there are several.
func qemuStart(f *Front, each bool) (steps []step) {
	for i := range f.Rings {
		steps = append(steps, f.Rings[i].call(), f.Rings[i].err())
	}
	for i := range f.Rings {
		steps = append(steps, f.Rings[i].enable(i < 2))
	}
	for pair := 0; 2*pair < len(f.Rings); pair++ {
		steps = append(steps, setFeatures, getStatus, setStatus(featuresOK))
		if pair == 0 || each {
			steps = append(steps, f.addRegions()...)
		}
		for i := 2 * pair; i < min(2*pair+2, len(f.Rings)); i++ {
			r := &f.Rings[i]
			steps = append(steps, r.num(), r.base(), r.addr(), r.kick(), r.call())
		}
	}
	steps = append(steps, setStatus(driverOK))
	for i := 2; i < len(f.Rings); i++ {
		steps = append(steps, f.Rings[i].enable(true))
	}
	return steps
}
