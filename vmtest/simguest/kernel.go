package simguest

import (
	"fmt"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// kernelConfig returns what all sockets of the scenario have in common.
func kernelConfig(s *vmtest.Scenario) (tcp.Config, error) {
	k, err := tcp.Release(s.Kernel)
	if err != nil {
		return tcp.Config{}, fmt.Errorf("kernel: %w; the nearest is %q", err, vmtest.Nearest(s.Kernel, tcp.Releases()))
	}
	if s.Topology == vmtest.TopologyVeth {
		_ = k.Sysctl.Set("tcp_rmem", s.VethRmem()) // three numbers
	}
	for name, v := range s.TCP {
		if err := k.Switches.Set(name, v); err != nil {
			return tcp.Config{}, fmt.Errorf("tcp.%s: %w", name, err)
		}
	}
	for name, v := range s.Sysctl {
		if err := k.Sysctl.Set(name, v); err != nil {
			return tcp.Config{}, fmt.Errorf("sysctl.%s: %w", name, err)
		}
	}
	c := tcp.Config{Switches: k.Switches, Sysctl: k.Sysctl, MaxHdr: k.MaxHdr, HZ: uint32(s.HZ)}
	if s.MaxHeader > 0 {
		c.MaxHdr = uint32(s.MaxHeader)
	}
	c.IPv6, c.MSS = s.IP == 6, uint32(s.EffectiveMSS())
	c.PeerMSS = uint32(peerMSS(s))
	c.CanGSO = s.TSO || s.GSO
	c.GSOMaxSize = uint32(min(s.GSOMaxSize, s.NIC.TSOMaxSize))
	c.GSOMaxSegs = uint32(s.GSOMaxSegs)
	return c, nil
}

// peerMSS is the MSS option that the receiver sends: what its own MTU has room
// for, without regard to timestamps.
func peerMSS(s *vmtest.Scenario) int {
	far := s.FarMTU()
	if s.Receiver.MTU == 0 && far == s.MTU {
		return s.EffectiveMSS() + 12
	}
	t := *s
	t.MTU, t.MSS = far, 0
	return t.EffectiveMSS() + 12
}

// driverConfig returns the driver that the scenario's kernel has.
func driverConfig(s *vmtest.Scenario) (driver.Config, error) {
	sw, err := driver.Release(s.Kernel)
	if err != nil {
		return driver.Config{}, fmt.Errorf("kernel: %w", err)
	}
	for name, v := range s.Driver {
		if err := sw.Set(name, v); err != nil {
			return driver.Config{}, fmt.Errorf("driver.%s: %w", name, err)
		}
	}
	release, err := releaseOf(s, sw)
	if err != nil {
		return driver.Config{}, err
	}
	if s.Ring.Kind == vmtest.RingPacked && !release50(s.Kernel) {
		return driver.Config{}, fmt.Errorf("ring: kernel %s has no packed rings; write split, or a kernel from 5.0 on", s.Kernel)
	}
	cfg := driver.Config{
		Switches: sw, Features: driver.DefaultFeatures | virtio.FeatureRingPacked | virtio.FeatureInOrder, Pairs: s.QueuePairs, RingSize: uint16(s.Ring.Size),
		NAPI: release == vmtest.ReleaseNAPI, ArenaBytes: arenaPages * tcp.ArenaPage, Serial: true,
	}
	cfg.Features &= offered(s)
	return cfg, nil
}

// releaseOf is when the driver lets go of packets: what the scenario says, or
// the kernel's default. napi_tx is on by default since v5.3.
func releaseOf(s *vmtest.Scenario, sw driver.Switches) (string, error) {
	switch {
	case s.Release == vmtest.ReleaseNAPI && !sw.HasNAPI:
		return "", fmt.Errorf("release: kernel %s has no napi_tx; write orphan, or a kernel from 4.12 on", s.Kernel)
	case s.Release != "":
		return s.Release, nil
	case napiByDefault(s.Kernel):
		return vmtest.ReleaseNAPI, nil
	}
	return vmtest.ReleaseOrphan, nil
}

// releaseName says in the scenario's words when a driver lets go of packets.
func releaseName(c driver.Config) string {
	if c.NAPI {
		return vmtest.ReleaseNAPI
	}
	return vmtest.ReleaseOrphan
}

// napiByDefault reports whether a release loads virtio_net with napi_tx on: the
// default changed in v5.3 (commit 31c03aef9bc2).
func napiByDefault(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && (major > 5 || major == 5 && minor >= 3)
}

// release50 reports whether a release has packed rings: they came with v5.0 (commit
// 1ce9e6055fa0).
func release50(release string) bool {
	var major int
	_, err := fmt.Sscanf(release, "%d.", &major)
	return err == nil && major >= 5
}

// offered is what the device offers.
func offered(s *vmtest.Scenario) virtio.Features {
	f := netdev.BaseFeatures &^ virtio.FeatureMTU
	if !s.Ring.EventIdx {
		f &^= virtio.FeatureEventIdx
	}
	if !s.Ring.Indirect {
		f &^= virtio.FeatureIndirectDesc
	}
	if s.Ring.Kind == vmtest.RingPacked {
		f |= virtio.FeatureRingPacked
	}
	if s.Ring.InOrder {
		f |= virtio.FeatureInOrder
	}
	if s.QueuePairs == 1 {
		f &^= virtio.FeatureMQ
	}
	return f
}

func qdiscConfig(s *vmtest.Scenario) (qdisc.Config, qdisc.Spec, error) {
	spec, err := qdisc.ParseSpec(s.Qdisc)
	if err != nil {
		return qdisc.Config{}, spec, fmt.Errorf("qdisc: %w", err)
	}
	sw, err := driver.Release(s.Kernel)
	return qdisc.Config{Bulk: sw.XmitMore, SoftGSO: !s.TSO}, spec, err
}

// softirqdKeeps reports whether softirqs but tasklets wait for ksoftirqd while it
// is awake (ksoftirqd_running, kernel/softirq.c: v4.9 to v6.4, and 6.1.192).
func softirqdKeeps(release string) bool {
	v := releaseNumber(release)
	return v >= 4009 && v <= 6004
}

// fairQueue reports whether a release has the scheduler CFS (v2.6.23 to v6.5) and
// not EEVDF.
func fairQueue(release string) bool { return releaseNumber(release) <= 6005 }

// releaseNumber is a release as a number that can be compared: 6012 for 6.12, 0
// if it is not one.
func releaseNumber(release string) int {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return 0
	}
	return major*1000 + minor
}
