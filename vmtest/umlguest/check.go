package umlguest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/internal/host"
)

// maxFlows is how many flows the guest's program has room for.
const maxFlows = 1024

// qdiscs and ccs are what our kernels have built in.
var (
	qdiscs = []string{"pfifo_fast", "noqueue", "fq", "fq_codel"}
	ccs    = []string{"cubic", "reno", "bbr", "dctcp"}
)

// Check says what of the scenario this guest cannot do.
func (*Guest) Check(s vmtest.Scenario) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if !strings.Contains(s.Kernel, "/") {
		if err := checkName(s.Kernel); err != nil {
			return fmt.Errorf("kernel: %w", err)
		}
	}
	checks := []func(*vmtest.Scenario) error{checkPatched, checkMachine, checkDevice, checkTraffic}
	if s.Topology == vmtest.TopologyVeth {
		checks = []func(*vmtest.Scenario) error{checkPatched, checkMachine, checkTraffic, checkVeth}
	}
	for _, check := range checks {
		if err := check(&s); err != nil {
			return err
		}
	}
	if err := checkKinds(&s); err != nil {
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
	_, err := host.NewModel(s.Host)
	return err
}

// checkKinds refuses what the guest's program does not do: it has no clock in
// common with the receiver, and a second kernel answers nothing.
func checkKinds(s *vmtest.Scenario) error {
	for i := range s.PerFlow {
		switch k := s.Flow(i).Kind; {
		case k == vmtest.FlowMessage:
			return fmt.Errorf("flow.%d.kind: %s; a real kernel's program knows no arrivals; use --guest sim, or kind request", i, k)
		case k == vmtest.FlowRequest && (s.Receiver.Kind == vmtest.ReceiverKernel || s.Topology == vmtest.TopologyVeth):
			return fmt.Errorf("flow.%d.kind: %s; only the modelled receiver answers; leave receiver.kind and topology as they are", i, k)
		}
	}
	return nil
}

// checkPatched refuses what only a model of a kernel has.
func checkPatched(s *vmtest.Scenario) error {
	for name := range s.TCP {
		return fmt.Errorf("tcp.%s: an unpatched kernel has no such switch; use --guest sim, or give your kernel with --kernel PATH", name)
	}
	for name := range s.Driver {
		return fmt.Errorf("driver.%s: an unpatched kernel has no such switch; use --guest sim, or give your kernel with --kernel PATH", name)
	}
	return nil
}

// checkMachine refuses what a kernel in user mode has not.
func checkMachine(s *vmtest.Scenario) error {
	switch {
	case s.HZ != 0 && s.HZ != 100:
		return fmt.Errorf("hz: %d; these kernels have 100", s.HZ)
	case s.MaxHeader != 0 && s.MaxHeader != 192:
		return fmt.Errorf("max_tcp_header: %d; these kernels have 192", s.MaxHeader)
	}
	return nil
}

// checkDevice refuses what the driver of a kernel in user mode has not.
func checkDevice(s *vmtest.Scenario) error {
	switch {
	case s.Ring.Size != 256:
		return fmt.Errorf("ring_size: %d; the driver of a kernel in user mode makes rings of 256 entries", s.Ring.Size)
	case s.QueuePairs > 31:
		return fmt.Errorf("queue_pairs: %d; the driver of a kernel in user mode takes 31", s.QueuePairs)
	case !slices.Contains(qdiscs, s.Qdisc):
		return fmt.Errorf("qdisc: %q is not one of %s", s.Qdisc, strings.Join(qdiscs, ", "))
	case s.Trace.At != "device" && s.Trace.At != "host":
		return fmt.Errorf("trace.at: %q; the packets of a real kernel are seen at the device and at the host", s.Trace.At)
	}
	return nil
}

func checkTraffic(s *vmtest.Scenario) error {
	switch {
	case s.Flows > maxFlows:
		return fmt.Errorf("flows: %d; this guest takes up to %d", s.Flows, maxFlows)
	case s.BBRPhase != 0:
		return fmt.Errorf("bbr_phase: %d; a real kernel's is by its seed", s.BBRPhase)
	}
	for i := range s.Flows {
		f := s.Flow(i)
		if !slices.Contains(ccs, f.CC) {
			return fmt.Errorf("cc: %q is not one of %s", f.CC, strings.Join(ccs, ", "))
		}
		if i < len(s.PerFlow) && s.PerFlow[i].Queue >= 0 {
			return fmt.Errorf("flow.%d.queue: a kernel with one CPU chooses the queue by hash", i)
		}
	}
	return nil
}
