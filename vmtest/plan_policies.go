package vmtest

import "time"

// experiment is the scenario of the experiments on real kernels in virtual time:
// their host model, pause and settings, a guest whose CPU time is free but for
// the readings of its clock, one CPU, and flows spread over the queues.
func experiment(name string) Scenario {
	s := Default()
	s.Name, s.GuestCPU, s.VCPUs, s.Host.Model, s.Spread = name, "uml", 1, "med2", true
	s.Think, s.WarmUp, s.Duration = 2*time.Microsecond, 2*time.Millisecond, 20*time.Millisecond
	s.Receiver.Rmem, s.MaxHeader, s.HZ = 32<<20, 192, 100
	s.Sysctl["tcp_rmem"] = "4096 6291456 33554432"
	s.Driver["bql"], s.Receiver.Kind = "off", ReceiverKernel
	return s
}

// unmodel takes out of a scenario what only tells the model of the build that a
// real kernel is. Its receiver is the model's, which can answer requests and holds
// nothing up.
func unmodel(s *Scenario) { s.Driver, s.Receiver.Kind = map[string]string{}, ReceiverModel }

// Both releases of skbs on the kernels that real guests have.
func realVariants(kernels ...string) []Variant {
	var out []Variant
	for _, k := range kernels {
		out = append(out, Variant{Kernel: k, Release: ReleaseOrphan, Remedies: []string{}}, Variant{Kernel: k, Release: ReleaseNAPI, Remedies: []string{}})
	}
	return out
}

// realKernels is the regression on the kernels that run in virtual time as well.
func realKernels() Plan {
	return Plan{Name: "real-kernels", Doc: "small writes over one queue pair and over two on 6.1 and 6.12, under the conditions in which real ones run in virtual time",
		Base: experiment("real-kernels"), Variants: realVariants("6.1", "6.12"),
		Axes: []Axis{{"queue_pairs", []string{"1", "2"}}}, ForReal: unmodel}
}

// staticHold is the policy that shows the way: completions and ACKs held, for
// every flow and always.
const staticHold = "hold:time=100us+thin-acks:time=100us"

// Beside adds a flow of requests of one byte to a scenario's two, behind the
// first of them.
func Beside(s *Scenario) {
	s.QueuePairs, s.Flows = 2, 3
	s.PerFlow = []FlowConfig{{CPU: -1, Queue: 0}, {CPU: -1, Queue: -1}, {CPU: -1, Queue: 0, Kind: FlowRequest, Write: 1, NoDelay: true, Think: 200 * time.Microsecond}}
}

// policies is every policy of the device against the regression.
func policies() Plan {
	s := experiment("policies")
	Beside(&s)
	return Plan{Name: s.Name, Doc: "what each policy of the device does to small writes over two queue pairs, and to requests beside them",
		Base: s, Variants: realVariants("6.12"), ForReal: unmodel,
		Axes: []Axis{{"policy", []string{"none", "hold:time=100us", "thin-acks:time=100us", staticHold, "coalesce-calls:time=50us",
			"poll:time=100us", "delay-service:time=50us", "share-worker:pairs=2", "merge",
			"poll:time=200us,every=50us+merge+thin-acks:time=50us", "adaptive"}}}}
}

// frontier are the settings to choose from where the adaptive policy is not enough.
var frontier = []string{"none", "adaptive", staticHold, "thin-acks:time=200us", "share-worker:pairs=2", "share-worker:pairs=2+thin-acks:time=200us",
	"share-worker:pairs=2+" + staticHold, "poll:time=100us", "poll:time=200us,every=50us+merge+thin-acks:time=50us",
	"share-worker:pairs=2+poll:time=200us,every=50us+merge+thin-acks:time=50us", "merge+thin-acks:time=100us"}

// fix is the regression without a policy, with the static one, and with the
// adaptive one.
func fix() Plan {
	return Plan{Name: "fix", Doc: "small writes over one queue pair and over two: no policy, completions and ACKs held always, and the adaptive policy",
		Base: experiment("fix"), Variants: realVariants("6.1", "6.12"), ForReal: unmodel,
		Axes: []Axis{{"policy", []string{"none", staticHold, "adaptive"}}, {"queue_pairs", []string{"1", "2"}}}, Frontier: frontier}
}

// workload is a case of fixWorkloads.
type workload struct {
	name string
	set  []Setting
}

// small are the flows that a policy must not hurt: alone, and beside two bulk
// flows.
var small = []workload{
	{"ping-pong", []Setting{{"kind", "request"}, {"write", "1"}, {"nodelay", "on"}}},
	{"write-write-read", []Setting{{"kind", "request"}, {"write", "1"}, {"request", "2"}, {"nodelay", "on"}}},
	{"messages-50us", []Setting{{"kind", "message"}, {"write", "64"}, {"nodelay", "on"}, {"think", "50us"}}},
	{"messages-5us", []Setting{{"kind", "message"}, {"write", "64"}, {"nodelay", "on"}, {"think", "5us"}}},
	{"request-16k", []Setting{{"kind", "request"}, {"write", "16k"}}},
	{"request-64k", []Setting{{"kind", "request"}, {"write", "16k"}, {"request", "64k"}}},
}

// large are flows that a policy may help, and must not hurt.
var large = []workload{
	{"upload-64k", []Setting{{"flows", "1"}, {"write", "16k"}, {"think", "0"}, {"flow.0.bytes", "64k"}, {"warmup", "0"}}},
	{"upload-1M", []Setting{{"flows", "1"}, {"write", "16k"}, {"think", "0"}, {"flow.0.bytes", "1M"}, {"warmup", "0"}}},
	{"upload-1M-1k", []Setting{{"flows", "1"}, {"flow.0.bytes", "1M"}, {"warmup", "0"}}},
	{"unlimited", []Setting{{"flows", "1"}, {"write", "16k"}, {"think", "0"}}},
	{"slow-flows", []Setting{{"flows", "16"}, {"think", "20us"}}},
	{"bbr", []Setting{{"cc", "bbr"}}},
	{"loss-1ms", []Setting{{"link.rate", "1G"}, {"link.queue", "3M"}, {"link.delay", "500us"}, {"link.loss", "0.001"}, {"duration", "300ms"}}},
	{"loss-1ms-bbr", []Setting{{"cc", "bbr"}, {"link.rate", "1G"}, {"link.queue", "3M"}, {"link.delay", "500us"}, {"link.loss", "0.001"}, {"duration", "300ms"}}},
	{"1G", []Setting{{"link.rate", "1G"}, {"link.queue", "3M"}, {"duration", "100ms"}}},
	{"rtt-50us", []Setting{{"link.delay", "25us"}}},
	{"rtt-1ms", []Setting{{"link.delay", "500us"}, {"warmup", "50ms"}, {"duration", "100ms"}}},
	{"rtt-20ms", []Setting{{"link.delay", "10ms"}, {"warmup", "500ms"}, {"duration", "500ms"}}},
	{"rtt-50us-bbr", []Setting{{"cc", "bbr"}, {"link.delay", "25us"}}},
	{"rtt-20ms-bbr", []Setting{{"cc", "bbr"}, {"link.delay", "10ms"}, {"warmup", "500ms"}, {"duration", "500ms"}}},
	{"rtt-1ms-bbr", []Setting{{"cc", "bbr"}, {"link.delay", "500us"}, {"warmup", "50ms"}, {"duration", "100ms"}}},
}

// fixWorkloads is what the adaptive policy does to flows that it is not for.
func fixWorkloads() Plan {
	s := experiment("fix-workloads")
	s.QueuePairs = 2
	p := Plan{Name: s.Name, Doc: "flows of other kinds, alone and beside small writes, without a policy and with the adaptive one",
		Base: s, ForReal: unmodel, Axes: []Axis{{"policy", []string{"none", "adaptive"}}}}
	for _, w := range small {
		p.addCase(w.name, append([]Setting{{"flows", "1"}}, w.flow("0")...))
		p.addCase(w.name+"-beside", append([]Setting{{"flows", "3"}, {"flow.2.queue", "0"}}, w.flow("2")...))
	}
	for _, w := range large {
		p.addCase(w.name, w.set)
	}
	return p
}

// flow is the workload as settings of one flow, which does not pause unless it
// says so.
func (w workload) flow(index string) []Setting {
	out := []Setting{{"flow." + index + ".think", "1ns"}}
	for _, s := range w.set {
		out = append(out, Setting{"flow." + index + "." + s.Key, s.Value})
	}
	return out
}

func (p *Plan) addCase(name string, set []Setting) {
	p.Variants = append(p.Variants, Variant{Kernel: "6.12", Release: ReleaseNAPI, Remedies: []string{}, Case: name, Settings: set})
}

// guestRemedies is what can be done in the guest, where it can be changed.
func guestRemedies() Plan {
	s := mqSmallPackets().Base
	s.Name, s.Duration = "remedies", 20*time.Millisecond
	Beside(&s)
	p := Plan{Name: s.Name, Doc: "what changes of a guest do to small writes over two queue pairs, and to requests beside them", Base: s}
	both := []string{"win-divisor-1", "no-full-size-test"}
	one := []Setting{{"flow.0.queue", "0"}, {"flow.1.queue", "0"}, {"flow.2.queue", "0"}}
	two := []Setting{{"flow.1.queue", "1"}}
	for _, k := range []Variant{{Kernel: "3.8", Release: ReleaseOrphan}, {Kernel: "6.12", Release: ReleaseNAPI, Settings: []Setting{{"guest_cpu", "kvm"}}}} {
		add := func(name string, remedies []string, set ...Setting) {
			v := k
			v.Case, v.Remedies, v.Settings = name, remedies, append(append([]Setting{}, k.Settings...), set...)
			p.Variants = append(p.Variants, v)
		}
		add("none", []string{}, two...)
		add("win-divisor-1", both[:1], two...)
		add("no-full-size-test", both[1:], two...)
		add("both", both, two...)
		add("MSG_MORE", []string{}, append(two, Setting{"more", "on"})...)
		add("one-queue", []string{}, one...)
		add("no-offload", []string{}, append(two, Setting{"tso", "off"}, Setting{"gso", "off"})...)
		if k.Release == ReleaseNAPI {
			add("no-autocorking", []string{}, append(two, Setting{"tcp_autocorking", "0"})...)
			add("orphan", []string{}, two...)
			p.Variants[len(p.Variants)-1].Release = ReleaseOrphan
		}
	}
	return p
}
