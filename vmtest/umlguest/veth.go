package umlguest

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/guest/qdisc"
	"github.com/vnetbench/vnetbench/vmtest"
)

// TopologyVeth is one guest with three network namespaces: A with the senders, R
// that forwards, and B with the receiver, joined by pairs of veth. It has no
// device; packets are captured where they leave A and where they reach it.

// vethEnd is one end of a pair. Packets that it knows no way for go to its peer.
type vethEnd struct {
	dev, mac string
	addr     [2]string // by IP version
}

var (
	endA  = vethEnd{"a0", "52:54:00:12:34:01", [2]string{"192.0.2.1", "2001:db8:1::1"}}
	endRA = vethEnd{"r0", "52:54:00:12:34:02", [2]string{"192.0.2.2", "2001:db8:1::2"}}
	endRB = vethEnd{"r1", "52:54:00:12:34:03", [2]string{"198.51.100.2", "2001:db8:2::2"}}
	endB  = vethEnd{"b0", "52:54:00:12:34:04", [2]string{"198.51.100.1", "2001:db8:2::1"}}
)

// text is the address of an IP version.
func (e *vethEnd) text(ip int) string {
	if ip == 6 {
		return e.addr[1]
	}
	return e.addr[0]
}

// write configures an end: it takes the sender's largest packet whole, nobody has to
// ask for its peer's address, and with a route the peer forwards.
func (e *vethEnd) write(b *strings.Builder, s *vmtest.Scenario, mtu int, peer *vethEnd, route bool) {
	prefix := 24
	if s.IP == 6 {
		prefix = 64
	}
	fmt.Fprintf(b, "gso_max_size %s %d\nmac %s %s\nmtu %s %d\n", e.dev, s.GSOMaxSize, e.dev, e.mac, e.dev, mtu)
	fmt.Fprintf(b, "addr %s %s %d\nup %s\nneigh %s %s %s\n", e.dev, e.text(s.IP), prefix, e.dev, e.dev, peer.text(s.IP), peer.mac)
	if route {
		fmt.Fprintf(b, "route %s %s\n", e.dev, peer.text(s.IP))
	}
}

// captureFrames is how many packets the guest has room for.
const captureFrames = 1 << 17

// vethConf is the scenario in the words of the guest's program.
func vethConf(s *vmtest.Scenario) (string, error) {
	var b strings.Builder
	own := vethSysctls(s)
	forward := map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/default/accept_dad": "0"}
	if s.IP == 6 {
		forward["net/ipv6/conf/all/forwarding"] = "1"
	}
	fmt.Fprintf(&b, "ns A\n")
	writeSysctls(&b, own)
	fmt.Fprintf(&b, "ns R\n")
	writeSysctls(&b, forward)
	fmt.Fprintf(&b, "ns B\n")
	writeSysctls(&b, own)
	fmt.Fprintf(&b, "veth b0 r1 R\nns A\nveth a0 r0 R\n")
	writeRouter(&b, s)
	fmt.Fprintf(&b, "ns B\nup lo\n")
	endB.write(&b, s, s.FarMTU(), &endRB, true)
	fmt.Fprintf(&b, "listen %s %d\nns A\nup lo\n", endB.text(s.IP), peerPort)
	fmt.Fprintf(&b, "tso a0 %d\ngso a0 %d\ngso_max_segs a0 %d\n", bit(s.TSO), bit(s.TSO || s.GSO), s.GSOMaxSegs)
	endA.write(&b, s, s.MTU, &endRA, true)
	for _, q := range []struct{ where, ns, dev, text string }{
		{"router.fwd", "R", "r1", s.Router.Forward}, {"router.rev", "R", "r0", s.Router.Reverse}, {"qdisc", "A", "a0", s.Qdisc},
	} {
		words, err := qdiscWords(q.text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", q.where, err)
		}
		fmt.Fprintf(&b, "ns %s\n", q.ns)
		if words != "noqueue" {
			fmt.Fprintf(&b, "qdisc %s %s\n", q.dev, words)
		}
	}
	fmt.Fprintf(&b, "capture a0 %d\nclocks\n", captureFrames)
	writeFlows(&b, s, 0, []string{endB.text(s.IP)}, endA.text(s.IP))
	return b.String(), nil
}

// writeRouter configures R.
func writeRouter(b *strings.Builder, s *vmtest.Scenario) {
	fmt.Fprintf(b, "ns R\n")
	endRA.write(b, s, s.FarMTU(), &endA, false)
	endRB.write(b, s, s.FarMTU(), &endB, false)
}

// vethSysctls are those of a namespace: not all of the machine's are there.
func vethSysctls(s *vmtest.Scenario) map[string]string {
	set := sysctls(s)
	for name := range set {
		if strings.HasPrefix(name, "net/core/") || strings.Contains(name, "/eth0/") {
			delete(set, name)
		}
	}
	set["net/ipv6/conf/default/accept_dad"] = "0"
	if _, ok := s.Sysctl["tcp_rmem"]; !ok {
		set["net/ipv4/tcp_rmem"] = s.VethRmem()
	}
	return set
}

// qdiscWords is a discipline in the words of the guest's program.
func qdiscWords(text string) (string, error) {
	s, err := qdisc.ParseSpec(text)
	if err != nil {
		return "", err
	}
	switch kind := s.Kind.String(); s.Kind {
	case qdisc.Netem:
		if len(s.Drop) > 0 {
			return "", fmt.Errorf("%q: a kernel's netem cannot be told which packets to lose", text)
		}
		return fmt.Sprintf("%s %d %d %d", kind, int64(s.Delay), s.RateBps/8, orDefault(s.Limit, 1000)), nil
	case qdisc.TBF:
		return fmt.Sprintf("%s %d %d %d", kind, s.RateBps/8, s.Burst, s.Limit), nil
	default:
		if kind != text {
			return "", fmt.Errorf("%q: a real kernel takes parameters of netem and tbf only; write %s", text, kind)
		}
		return kind, nil
	}
}

func orDefault(v, def int64) int64 {
	if v == 0 {
		return def
	}
	return v
}

// checkVeth says what of the scenario cannot be had with namespaces.
func checkVeth(s *vmtest.Scenario) error {
	switch {
	case s.Guests.Senders != 1 || s.Guests.Receivers != 1:
		return fmt.Errorf("guests.senders: %d, guests.receivers: %d, and topology veth is one guest", s.Guests.Senders, s.Guests.Receivers)
	case s.QueuePairs != 1:
		return fmt.Errorf("queue_pairs: %d, and topology veth has no device; set queue_pairs=1", s.QueuePairs)
	case s.Receiver.Kind == vmtest.ReceiverKernel && s.Receiver.Kernel != "" && s.Receiver.Kernel != s.Kernel:
		return fmt.Errorf("receiver.kernel: %q, and topology veth is one guest", s.Receiver.Kernel)
	case s.Flows > maxFlows:
		return fmt.Errorf("flows: %d; this guest takes up to %d", s.Flows, maxFlows)
	}
	_, err := vethConf(s)
	return err
}
