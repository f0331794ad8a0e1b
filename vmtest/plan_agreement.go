package vmtest

import "time"

// Of the plans that are run on a simulated guest and on one in QEMU, without KVM:
// an emulated guest is some fifty times slower than one on KVM, so everything else is
// too. The pause makes the guest's processors idle more than half of the time, so
// that threads that share the machine's few cores hardly hold each other up; the
// host is as slow against the pace of the writes as host model med2 is in
// the experiments: one worker falls behind two flows, two keep up.
const (
	agreementThink = 200 * time.Microsecond
	agreementHost  = 400 * time.Microsecond // for a packet
)

// agreementBase is what both kinds of guests run.
func agreementBase(name string) Scenario {
	s := Default()
	s.Name, s.GuestCPU, s.VCPUs, s.Write = name, "tcg", 2, 1024
	s.Think, s.WarmUp, s.Duration = agreementThink, realWarmUp, realDuration
	s.PerFlow = []FlowConfig{{CPU: 0, Queue: -1}, {CPU: 1, Queue: -1}}
	base, wake, rx := agreementHost, 30*time.Microsecond, 10*time.Microsecond
	perKB := time.Duration(0)
	s.Host.TxBase, s.Host.TxPerKB, s.Host.Wake, s.Host.Rx = &base, &perKB, &wake, &rx
	// No two pauses of a real guest are alike.
	s.Work = 50 * time.Microsecond
	return s
}

// unpretend takes out of a scenario what a guest in real time has by itself: the
// wake-up of a thread, the way to the guest, and pauses that differ.
func unpretend(s *Scenario) { s.Host.Wake, s.Host.Rx, s.Work = nil, nil, 0 }

// agreement is the regression, for both kinds of guests.
func agreement() Plan {
	return Plan{Name: "agreement", Doc: "the regression under conditions that the simulated guest and QEMU's emulated processor can share",
		Base: agreementBase("agreement"), Variants: realVariants("6.1", "6.12"), ForReal: unpretend,
		Axes: []Axis{{"queue_pairs", []string{"1", "2"}}, {"write", []string{"64", "256", "1k", "16k"}}}}
}

// agreementEffects is what remedies and policies do, for both kinds of guests. The
// policies' times are as long against the pauses as those of the experiments.
func agreementEffects() Plan {
	s := agreementBase("agreement-effects")
	s.QueuePairs = 2
	p := Plan{Name: s.Name, Doc: "remedies and policies under the conditions of agreement", Base: s, ForReal: unpretend}
	cases := []struct {
		name     string
		set      []Setting
		napiOnly bool // with orphaning it changes nothing
	}{
		{"none", nil, false},
		{"win-divisor-1", []Setting{{"remedies", "win-divisor-1"}}, false},
		{"no-offload", []Setting{{"tso", "off"}, {"gso", "off"}}, true},
		{"no-autocorking", []Setting{{"tcp_autocorking", "0"}}, true},
		{"MSG_MORE", []Setting{{"more", "on"}}, true},
		{"one-queue", []Setting{{"flow.1.cpu", "0"}}, false},
		{"fast-host", []Setting{{"host.tx_base", "40us"}}, false},
		{"slow-host", []Setting{{"host.tx_base", "1ms"}}, false},
		{"hold", []Setting{{"policy", "hold:time=10ms"}}, true},
		{"thin-acks", []Setting{{"policy", "thin-acks:time=10ms"}}, false},
		{"hold+thin-acks", []Setting{{"policy", "hold:time=10ms+thin-acks:time=10ms"}}, true},
		{"coalesce-calls", []Setting{{"policy", "coalesce-calls:time=5ms"}}, false},
		{"delay-service", []Setting{{"policy", "delay-service:time=5ms"}}, false},
		{"adaptive", []Setting{{"policy", "adaptive"}}, true},
	}
	for _, release := range []string{ReleaseOrphan, ReleaseNAPI} {
		for _, c := range cases {
			if c.napiOnly && release != ReleaseNAPI {
				continue
			}
			p.Variants = append(p.Variants, Variant{Kernel: "6.12", Release: release, Remedies: []string{}, Case: c.name, Settings: c.set})
		}
	}
	return p
}
