package qemuguest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// maxFlows is what local ports are set aside for.
const maxFlows = 10000

// Check says what of the scenario a real guest cannot do.
func (g *Guest) Check(s vmtest.Scenario) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := checkModelled(&s); err != nil {
		return err
	}
	if !strings.Contains(s.Kernel, "/") {
		if err := checkName(s.Kernel); err != nil {
			return err
		}
	}
	if s.Flows > maxFlows {
		return fmt.Errorf("flows: %d; a real guest takes up to %d", s.Flows, maxFlows)
	}
	if n := s.Ring.Size; n != 256 && n != 512 && n != 1024 {
		return fmt.Errorf("ring_size: %d; QEMU makes rings of 256, 512 and 1024 entries", n)
	}
	if err := s.OnlyStreams(); err != nil {
		return err
	}
	if err := s.OnlyLinuxRings(); err != nil {
		return err
	}
	if _, err := netdev.ParsePolicy(s.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if _, err := vmtest.GuestTable(s.GuestCPU); err != nil {
		return err
	}
	for i := range s.PerFlow {
		if s.PerFlow[i].Queue >= 0 {
			return fmt.Errorf("flow.%d.queue: a real guest chooses the queue by CPU; set flow.%d.cpu", i, i)
		}
	}
	return nil
}

func checkName(kernel string) error {
	if slices.Contains(Named, kernel) {
		return nil
	}
	return fmt.Errorf("kernel: %q; a QEMU guest has %s, or give VMLINUZ[:MODULES] with a slash in it; the nearest is %q",
		kernel, strings.Join(Named, " and "), vmtest.Nearest(kernel, Named))
}

// checkModelled refuses what only a model can have: a real kernel is as it is,
// and the network here is the memory of one machine.
func checkModelled(s *vmtest.Scenario) error {
	d := vmtest.Default()
	for name := range s.TCP {
		return fmt.Errorf("tcp.%s: an unpatched kernel has no such switch; use --guest sim, or give your kernel with --kernel VMLINUZ:MODULES", name)
	}
	for name := range s.Driver {
		return fmt.Errorf("driver.%s: an unpatched kernel has no such switch; use --guest sim, or give your kernel with --kernel VMLINUZ:MODULES", name)
	}
	switch {
	case s.Link.Rate != d.Link.Rate, s.Link.Queue != d.Link.Queue, s.Link.Loss != d.Link.Loss, s.Link.Delay != d.Link.Delay:
		return fmt.Errorf("link: a real guest sends to a receiver on the same host, without a link; use --guest sim")
	case s.Host.Wake != nil, s.Host.Rx != nil:
		return fmt.Errorf("host.wake, host.rx: the host of a real guest is this machine; its worker can be made to spend host.tx_base and host.tx_per_kb beside; use --guest sim")
	case s.NIC.TSOMaxSize != d.NIC.TSOMaxSize:
		return fmt.Errorf("nic.tso_max_size: %d; virtio_net's is %d; use gso_max_size", s.NIC.TSOMaxSize, d.NIC.TSOMaxSize)
	case !s.Receiver.GRO:
		return fmt.Errorf("receiver.gro: off; a tap passes packets on whole; use tso=off,gso=off, or --guest sim")
	case s.Receiver.Kernel != "":
		return fmt.Errorf("receiver.kernel: %q; the receiver is this machine's kernel; use --guest sim", s.Receiver.Kernel)
	case s.Guests != d.Guests:
		return fmt.Errorf("guests.senders: %d; there is one virtual machine; use --guest uml", s.Guests.Senders)
	case s.Receiver.Kind != d.Receiver.Kind:
		return fmt.Errorf("receiver.kind: %q; the receiver is this machine's kernel; use --guest uml", s.Receiver.Kind)
	case s.Trace.At != d.Trace.At:
		return fmt.Errorf("trace.at: %q; the packets of a real guest are seen at the device", s.Trace.At)
	}
	return nil
}
