package vmtest

import "time"

// tsoLeftover is report 000: a packet that the write loop cuts leaves a small
// rest, which goes out alone, and the pattern locks.
func tsoLeftover() Plan {
	s := Default()
	s.Name, s.Kernel, s.GuestCPU = "tso-leftover", "6.1", "free"
	s.Flows, s.Write, s.IP = 1, 1<<20, 6
	s.NIC.TSOMaxSize, s.Receiver.Rmem = 524280, 32<<20
	s.Sysctl["tcp_wmem"] = "4096 65536 33554432"
	s.Host.Model, s.Link = "fast", LinkConfig{}
	s.WarmUp, s.Duration = 100*time.Millisecond, 200*time.Millisecond
	p := Plan{
		Name: s.Name,
		Doc:  "report 000: cut TSO packets leave a rest that goes out alone, in a pattern that locks",
		Base: s,
		Notes: []string{"nic.tso_max_size is 524280: no released virtio_net allows more than 65536, " +
			"and with that limit the report's sizes cannot occur"},
	}
	cases := []struct {
		name string
		set  []Setting
	}{
		{"big", []Setting{{"mtu", "4168"}, {"mss", "4096"}, {"gso_max_size", "181000"}, {"pacing", "85.7MB/s"}, {"link.delay", "480us"},
			{"router.rev", "netem:delay=1ms,limit=100000"}}},
		{"mss1428", []Setting{{"pacing", "50MB/s"}, {"link.delay", "1390us"}, {"router.rev", "netem:delay=2800us,limit=100000"}}},
		{"200flows", []Setting{{"mtu", "4168"}, {"mss", "4096"}, {"gso_max_size", "181000"}, {"pacing", "62.5MB/s"}, {"flows", "200"},
			{"vcpus", "8"}, {"queue_pairs", "8"}, {"link.rate", "100G"}, {"link.delay", "480us"}, {"duration", "50ms"},
			{"router.rev", "netem:delay=1ms,limit=100000"}}},
	}
	for _, c := range cases {
		p.Variants = append(p.Variants,
			Variant{Kernel: "6.1", Remedies: []string{}, Case: c.name, Settings: c.set},
			Variant{Kernel: "6.1", Remedies: []string{"grow"}, Case: c.name, Settings: c.set},
			Variant{Kernel: "6.12", Remedies: []string{}, Case: c.name, Settings: c.set})
	}
	return p
}

// bbrGSOOff is report 003: without segmentation offload BBR's window collapses,
// because its budget counts packets of one segment.
func bbrGSOOff() Plan {
	s := Default()
	s.Name, s.Kernel, s.GuestCPU, s.CC = "bbr-gso-off", "4.15", "free", "bbr"
	s.Flows, s.Write, s.TSO, s.GSO = 1, 64<<10, false, false
	s.Host = HostConfig{Model: "fast", Wake: new(time.Duration)}
	s.WarmUp, s.Duration = 500*time.Millisecond, time.Second
	p := Plan{
		Name: s.Name,
		Doc:  "report 003: BBR without segmentation offload, before and after its budget forgot gso_max_segs",
		Base: s,
		Notes: []string{"the time of one packet, 16.8 us before and 6.68 us after the patch, and the delay that makes a round trip of 12 to 18 us with it are assumed: " +
			"the time is the report's goodput turned round. What the model decides is the window"},
	}
	before, after := []Setting{{"host.tx_base", "16.8us"}, {"link.delay", "500ns"}}, []Setting{{"host.tx_base", "6.68us"}, {"link.delay", "3us"}}
	for _, c := range []struct {
		name string
		segs []Setting
	}{{"1seg", nil}, {"2segs", []Setting{{"gso_max_segs", "2"}, {"tso", "on"}, {"gso", "on"}}}} {
		p.Variants = append(p.Variants,
			Variant{Kernel: "4.15", Remedies: []string{}, Case: c.name, Settings: append(before[:2:2], c.segs...)},
			Variant{Kernel: "4.15", Remedies: []string{"bbr-gso-unaware"}, Case: c.name, Settings: append(after[:2:2], c.segs...)})
	}
	return p
}

// ccLinks asks how congestion controls send over four kinds of links: without loss,
// with loss by chance, with a queue that is too short, and by a program that paces.
// It is short enough to be run on real kernels beside their models.
func ccLinks() Plan {
	s := Default()
	s.Name, s.Kernel, s.GuestCPU = "cc-links", "6.12", "free"
	s.Flows, s.Write = 1, 64<<10
	s.Host.Model = "fast"
	s.Link = LinkConfig{Rate: 100e6, Delay: 5 * time.Millisecond, Queue: 1 << 20}
	s.WarmUp, s.Duration = 0, 200*time.Millisecond
	p := Plan{
		Name: s.Name,
		Doc:  "BBR, CUBIC and Reno on a clean, a lossy and a shallow link, and paced",
		Base: s,
		Axes: []Axis{{"cc", []string{"bbr", "cubic", "reno"}}},
	}
	for _, kernel := range []string{"6.1", "6.12"} {
		for _, c := range []struct {
			name string
			set  []Setting
		}{
			{"clean", nil},
			{"lossy", []Setting{{"link.loss", "0.01"}}},
			{"shallow", []Setting{{"link.queue", "32k"}}},
			{"paced", []Setting{{"pacing", "5MB/s"}}},
		} {
			p.Variants = append(p.Variants, Variant{Kernel: kernel, Remedies: []string{}, Case: c.name, Settings: c.set})
		}
	}
	return p
}
