package guest

import (
	"bufio"
	"bytes"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// snapshot takes every counter.
func snapshot(n *nic, l load) (*proto.Snapshot, error) {
	stats, err := n.stats()
	if err != nil {
		return nil, err
	}
	s := &proto.Snapshot{At: monotonic(), NIC: stats, Written: l.written(),
		Protocol: map[string]uint64{}}
	irq, err := os.ReadFile("/proc/interrupts")
	if err != nil {
		return nil, err
	}
	s.Interrupts = parseInterrupts(irq)
	for _, path := range []string{"/proc/net/snmp", "/proc/net/netstat"} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		maps.Copy(s.Protocol, parseProtocol(b))
	}
	return s, nil
}

// busy is the CPU time that was not idle since boot.
func busy() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseBusy(stat)
}

func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// parseInterrupts sums /proc/interrupts over the CPUs, by what stands last in a
// line: the name of the handler's owner. Lines of one owner are added.
func parseInterrupts(b []byte) map[string]uint64 {
	out := map[string]uint64{}
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, 1<<20)
	in.Scan() // CPU0 CPU1 ...
	cpus := len(strings.Fields(in.Text()))
	for in.Scan() {
		fields := strings.Fields(in.Text())
		if len(fields) < 2 {
			continue
		}
		var sum uint64
		i := 1
		for ; i < len(fields) && i <= cpus; i++ {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				break
			}
			sum += n
		}
		out[owner(fields[0], fields[i:])] += sum
	}
	return out
}

// owner is the name for a line of /proc/interrupts: the handlers' owners, for a
// device's line, and its label, such as LOC, for one of the CPU's own.
func owner(label string, rest []string) string {
	label = strings.TrimSuffix(label, ":")
	if _, err := strconv.Atoi(label); err != nil || len(rest) == 0 {
		return label
	}
	// chip, number-type, then the owners, separated by commas
	for i, f := range rest {
		if strings.HasSuffix(f, ",") {
			return strings.Join(rest[i:], " ")
		}
	}
	return rest[len(rest)-1]
}

// parseProtocol reads the pairs of lines of /proc/net/snmp and netstat: names,
// then values. Values that are not counters are left out.
func parseProtocol(b []byte) map[string]uint64 {
	out := map[string]uint64{}
	lines := strings.Split(string(b), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || len(names) != len(values) || names[0] != values[0] {
			continue
		}
		for j := 1; j < len(names); j++ {
			if v, err := strconv.ParseUint(values[j], 10, 64); err == nil {
				out[strings.TrimSuffix(names[0], ":")+"."+names[j]] = v
			}
		}
	}
	return out
}

// parseBusy is the CPU time in /proc/stat that was neither idle nor waiting for
// a disk. Its unit there is USER_HZ, 100 to the second.
func parseBusy(b []byte) time.Duration {
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line)
	var ticks uint64
	for i := 1; i < len(fields) && i <= 8; i++ { // user nice system idle iowait irq softirq steal
		if n, err := strconv.ParseUint(fields[i], 10, 64); err == nil && i != 4 && i != 5 {
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
