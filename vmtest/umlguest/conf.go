package umlguest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

// senderConf is the scenario in the words of a sender's program, a line each. It
// depends on nothing but what the scenario asks of that guest.
func senderConf(s *vmtest.Scenario, number int) string {
	var b strings.Builder
	me := senderEnd(s.IP, number)
	writeSysctls(&b, sysctls(s))
	fmt.Fprintf(&b, "mtu eth0 %d\n", s.MTU)
	if s.QueuePairs > 1 {
		fmt.Fprintf(&b, "channels eth0 %d\n", s.QueuePairs)
	}
	fmt.Fprintf(&b, "tso eth0 %d\ngso eth0 %d\n", bit(s.TSO), bit(s.TSO || s.GSO))
	d := vmtest.Default()
	if size := gsoMaxSize(s); size != d.GSOMaxSize {
		fmt.Fprintf(&b, "gso_max_size eth0 %d\n", size)
	}
	if s.GSOMaxSegs != d.GSOMaxSegs {
		fmt.Fprintf(&b, "gso_max_segs eth0 %d\n", s.GSOMaxSegs)
	}
	fmt.Fprintf(&b, "addr eth0 %s %d\nup lo\nup eth0\n", me.text, me.prefix)
	if s.Qdisc == "noqueue" {
		fmt.Fprintf(&b, "qdisc eth0 noqueue\n")
	}
	var peers []string
	for i := range s.Guests.Receivers {
		to := receiverEnd(s.IP, i)
		fmt.Fprintf(&b, "neigh eth0 %s %s\n", to.text, to.macText())
		peers = append(peers, to.text)
	}
	writeFlows(&b, s, number, peers, me.text)
	return b.String()
}

// writeFlows says when to begin, and what the programs of a sender do, to receivers
// in turn.
func writeFlows(b *strings.Builder, s *vmtest.Scenario, number int, peers []string, sender string) {
	fmt.Fprintf(b, "base %d %d %d\n", int64(base), s.WarmUp, s.Duration)
	for i := number; i < s.Flows; i += s.Guests.Senders {
		f := s.Flow(i)
		fmt.Fprintf(b, "flow %s %d %s %d %s %d %d %d %d %d %d %d %d %d %d %d\n", peers[i%len(peers)], peerPort, sender, firstPort+i,
			f.CC, int64(f.Start), int64(f.Write), int64(think(s, f)), int64(f.Total), int64(f.Pacing),
			bit(f.NoDelay), bit(s.More), maxSegment(s), int64(s.PreGap), int64(s.PreGap2), request(f))
	}
}

// request is the bytes of a flow's request; 0 for one that asks nothing.
func request(f vmtest.FlowConfig) int64 {
	if f.Kind != vmtest.FlowRequest {
		return 0
	}
	return int64(f.Request)
}

// maxGSOSize is what virtio_net allows: it sets no limit of its own, so that the
// kernel's holds for devices without one (GSO_LEGACY_MAX_SIZE, v6.1).
const maxGSOSize = 65536

// gsoMaxSize is the largest packet that the guest's device takes.
func gsoMaxSize(s *vmtest.Scenario) vmtest.Bytes {
	return min(s.GSOMaxSize, s.NIC.TSOMaxSize, maxGSOSize)
}

// maxSegment is the socket option TCP_MAXSEG, which counts the timestamp option
// too; 0 where the MTU gives the segment its size.
func maxSegment(s *vmtest.Scenario) int {
	t := *s
	if t.MSS = 0; s.MSS == 0 || s.MSS == t.EffectiveMSS() {
		return 0
	}
	return s.MSS + 12
}

func writeSysctls(b *strings.Builder, set map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(b, "sysctl %s %s\n", name, set[name])
	}
}

// receiverConf is the configuration of a guest that receives: a program that
// reads what comes, as far as the scenario's largest receive buffer.
func receiverConf(s *vmtest.Scenario, number int) string {
	var b strings.Builder
	me := receiverEnd(s.IP, number)
	set := sysctls(s)
	set["net/core/default_qdisc"] = "pfifo_fast"
	if _, ok := s.Sysctl["tcp_rmem"]; !ok {
		set["net/ipv4/tcp_rmem"] = fmt.Sprintf("4096 131072 %d", s.Receiver.Rmem)
	}
	writeSysctls(&b, set)
	fmt.Fprintf(&b, "mtu eth0 %d\naddr eth0 %s %d\nup lo\nup eth0\n", s.FarMTU(), me.text, me.prefix)
	for i := range s.Guests.Senders {
		from := senderEnd(s.IP, i)
		fmt.Fprintf(&b, "neigh eth0 %s %s\n", from.text, from.macText())
	}
	fmt.Fprintf(&b, "sink %s %d\n", me.text, peerPort)
	return b.String()
}

func bit(on bool) int {
	if on {
		return 1
	}
	return 0
}

// sysctls are the scenario's, the queueing discipline, and some of our own: no
// packets that the scenario knows nothing of, nothing remembered from one
// connection for the next, and the limits of send buffers of a machine with memory
// enough, which else follow from the guest's.
func sysctls(s *vmtest.Scenario) map[string]string {
	set := map[string]string{
		"net/core/default_qdisc":         "pfifo_fast",
		"net/ipv4/tcp_no_metrics_save":   "1",
		"net/ipv4/tcp_wmem":              "4096 16384 4194304",
		"net/ipv6/conf/all/accept_dad":   "0",
		"net/ipv6/conf/eth0/accept_dad":  "0",
		"net/ipv6/conf/eth0/accept_ra":   "0",
		"net/ipv6/conf/all/disable_ipv6": "0",
	}
	if s.IP == 4 {
		set["net/ipv6/conf/all/disable_ipv6"] = "1"
	}
	if s.Qdisc != "noqueue" {
		set["net/core/default_qdisc"] = s.Qdisc
	}
	for name, v := range s.Sysctl {
		set[sysctlPath(name)] = v
	}
	return set
}

func sysctlPath(name string) string {
	switch {
	case strings.Contains(name, "/"):
		return name
	case strings.HasPrefix(name, "tcp_"):
		return "net/ipv4/" + name
	}
	return "net/core/" + name
}

// think is how long a flow pauses after a write. A guest in virtual time computes
// for nothing, so that what the scenario's program and its CPU would take for a
// write is made a pause too, unless the scenario says itself how long it pauses.
func think(s *vmtest.Scenario, f vmtest.FlowConfig) time.Duration {
	if f.Think > 0 {
		return f.Think
	}
	return s.Work + writeCost(s, int64(f.Write))
}

// writeCost is the CPU time of one write by the scenario's cost table, as far as
// it is known before: the system call, its copy, and the queueing of the data.
func writeCost(s *vmtest.Scenario, n int64) time.Duration {
	t, err := vmtest.GuestTable(s.GuestCPU)
	if err != nil {
		return 0
	}
	picos := t.Picos(vcpu.OpSyscall) + n*t.Picos(vcpu.OpCopyByte)
	return time.Duration(picos / 1000)
}

// manyGuests is from how many guests on each has less memory.
const manyGuests = 8

// memoryFor is each guest's memory in MB. TCP takes its limits from it. What is
// touched counts, and of each GB 16 MB are, by the kernel's list of its pages.
func memoryFor(s *vmtest.Scenario) int {
	all, least := s.Guests.Senders, s.Guests.Senders
	if s.Receiver.Kind == vmtest.ReceiverKernel {
		all, least = all+s.Guests.Receivers, min(least, s.Guests.Receivers)
	}
	flows := (s.Flows + least - 1) / least
	switch {
	case flows > 64 || s.Receiver.Rmem > 16<<20:
		return 3072
	case all >= manyGuests && flows <= 16:
		return 512
	}
	return 1024
}
