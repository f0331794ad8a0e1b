package umlguest

import "github.com/vnetbench/vnetbench/vmtest"

// Model returns the scenario that a simulated guest has to run so that its
// packets can be held against those of a real kernel that runs s: what these
// kernels' builds have (their clock ticks, the length of their headers, one CPU
// that costs nothing but the time that a reading of the clock takes), the pauses
// that represent the real guest's CPU, and the limits of its device. queues are
// the transmit queues that the real kernel chose, by flow, and phase is its run's
// ClockPhase; nil leaves them to the model.
func Model(s vmtest.Scenario, queues []int, phase *int) vmtest.Scenario {
	m := s.Clone()
	m.HZ, m.MaxHeader, m.VCPUs, m.GuestCPU, m.Work = 100, 192, 1, "uml", 0
	m.GuestCosts = map[string]string{}
	m.Driver["bql"] = "off" // these kernels are built without CONFIG_BQL
	m.GSOMaxSize, m.NIC.TSOMaxSize = gsoMaxSize(&s), maxGSOSize
	if s.Topology == vmtest.TopologyVeth {
		m.GSOMaxSize, m.NIC.TSOMaxSize = s.GSOMaxSize, max(s.GSOMaxSize, maxGSOSize)
	}
	if phase != nil {
		m.ClockPhase = *phase
	}
	if s.Topology == vmtest.TopologyVeth {
		m.Receiver.Kind = vmtest.ReceiverModel
	}
	m.Kernel = modelled(s.Kernel)
	m.PerFlow = nil
	for i := range s.Flows {
		f := s.Flow(i)
		f.CPU, f.Queue = 0, -1
		f.Think = think(&s, f)
		if i < len(queues) {
			f.Queue = queues[i]
		}
		m.PerFlow = append(m.PerFlow, f)
	}
	return m
}
