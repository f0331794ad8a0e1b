package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest"
)

// ErrScenario is wrapped by every error of FromLine.
var ErrScenario = errors.New("bad scenario line")

// Bounds of numbers in a scenario line: a billion seconds fits any time.
const (
	maxNs    = int64(1e18)
	maxBytes = int64(1) << 50
	maxSmall = int64(1) << 30
)

// line is a scenario line while it is read.
type line struct {
	s vmtest.Scenario
	x Experiment

	kernel, queuing string
	napi            bool
	sysctl          map[string]string
}

// ScenarioOf returns the scenario that the header holds: of the line scenario
// by FromLine, or of the line vnetbench. A trace of our own has no Experiment.
func ScenarioOf(h *Header) (vmtest.Scenario, *Experiment, error) {
	switch {
	case h.Scenario != nil:
		s, x, err := FromLine(h.Scenario)
		s.Name = h.Name
		return s, &x, err
	case h.Own != nil:
		var s vmtest.Scenario
		if err := json.Unmarshal(h.Own, &s); err != nil {
			return s, nil, fmt.Errorf("%w: line vnetbench: %w", ErrScenario, err)
		}
		return s, nil, nil
	}
	return vmtest.Scenario{}, nil, fmt.Errorf("%w: the trace has none; want a line # scenario<TAB>{...} in its header", ErrScenario)
}

// FromLine translates the JSON of a scenario line. The Scenario holds all that a
// Scenario can say: its cost table is uml, on one CPU; where only bytes end the
// sender its Duration is 0, and the run ends when every flow has sent them. What
// it has no keys for is in the Experiment; for TopologyVeth that includes the
// whole network, and its Host and Link mean nothing. tcp_rmem and tcp_wmem are
// in both. An error wraps ErrScenario, and vmtest.ErrUnknownKey with the
// nearest key for one that no line has, and names the key and what would be
// right.
func FromLine(raw []byte) (vmtest.Scenario, Experiment, error) {
	l := newLine()
	seen, err := object(raw, "", l.fields())
	if err == nil {
		err = l.check(seen)
	}
	if err == nil {
		err = l.finish()
	}
	if err != nil {
		return vmtest.Scenario{}, Experiment{}, err
	}
	return l.s, l.x, nil
}

func newLine() *line {
	l := &line{s: vmtest.Default(), sysctl: map[string]string{}}
	l.s.Name, l.s.GuestCPU, l.s.VCPUs = "trace", "uml", 1
	l.s.Link, l.s.WarmUp = vmtest.LinkConfig{}, 0
	l.x.HZ, l.x.ClockReadCost, l.x.UsedBatch = KernelHZ, ClockReadCost, 1
	return l
}

// check looks at the keys together.
func (l *line) check(seen map[string]bool) error {
	always := []string{"kernel", "cc", "ip", "mtu", "mss", "write", "think_ns", "bytes", "duration_ns", "nodelay", "pacing_Bps",
		"gso_max_size", "max_tcp_header", "topology", "capture", "sender_qdisc", "tcp_rmem", "tcp_wmem", "flows"}
	if err := need(seen, "", "", always...); err != nil {
		return err
	}
	switch {
	case l.s.IP == 5:
		return fmt.Errorf("%w: key \"ip\": 5: want 4 or 6", ErrScenario)
	case l.s.Total == 0 && l.s.Duration == 0:
		return fmt.Errorf("%w: keys \"bytes\" and \"duration_ns\" are both 0; one has to end the sender", ErrScenario)
	case l.x.PreGap2 > 0 && l.x.PreGap == 0:
		return fmt.Errorf("%w: key \"pregap2_ns\": it needs a pregap_ns", ErrScenario)
	}
	return l.checkTopology(seen)
}

func (l *line) checkTopology(seen map[string]bool) error {
	if l.x.Topology == TopologyVeth {
		if err := need(seen, "", ", which topology veth needs", "fwd", "rev"); err != nil {
			return err
		}
		return forbid(seen, " belongs to topology virtio, and this is veth", sortedKeys(l.virtioFields())...)
	}
	if err := need(seen, "", ", which topology virtio needs", "napi_tx", "queues", "ring", "host", "link"); err != nil {
		return err
	}
	return forbid(seen, " belongs to topology veth, and this is virtio", "fwd", "rev")
}

// finish derives what no key says alone.
func (l *line) finish() error {
	r, err := releaseOf(l.kernel)
	if err != nil {
		return err
	}
	l.s.Kernel, l.x.Version = r, l.kernel
	l.finishFlows()
	kind, mq := strings.CutPrefix(l.x.Sender.Kind, "mq ")
	l.x.Sender.Kind, l.x.MQ, l.s.Qdisc = kind, mq, kind
	l.s.Trace.At = l.x.Capture
	l.s.Receiver.Rmem = l.x.RMem[2]
	if l.x.Topology == TopologyVirtio {
		l.s.Release = vmtest.ReleaseOrphan
		if l.napi {
			l.s.Release = vmtest.ReleaseNAPI
		}
	}
	return l.finishSysctls()
}

// releaseOf is the named release that a version such as 6.1.192 belongs to.
func releaseOf(version string) (string, error) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) >= 2 {
		if name := parts[0] + "." + parts[1]; slices.Contains(tcp.Releases(), name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%w: key \"kernel\": %q: want a version of one of the releases %s", ErrScenario, clipString(version), strings.Join(tcp.Releases(), ", "))
}

func (l *line) finishFlows() {
	l.s.Flows, l.x.Separate = len(l.x.Flows), l.queuing == "separate"
	l.s.PerFlow = make([]vmtest.FlowConfig, l.s.Flows)
	for _, h := range l.x.Flows {
		f := vmtest.FlowConfig{CPU: -1, Queue: -1, Start: h.SYN}
		if l.x.Separate {
			f.Queue = h.ID % l.s.QueuePairs
		}
		l.s.PerFlow[h.ID] = f
	}
}

func (l *line) finishSysctls() error {
	for name, m := range map[string][3]vmtest.Bytes{"tcp_rmem": l.x.RMem, "tcp_wmem": l.x.WMem} {
		if _, changed := l.sysctl[name]; !changed {
			l.sysctl[name] = fmt.Sprintf("%d %d %d", int64(m[0]), int64(m[1]), int64(m[2]))
		}
	}
	for _, name := range sortedKeys(l.sysctl) {
		if err := l.s.Set("sysctl."+name, l.sysctl[name]); err != nil {
			return fmt.Errorf("%w: %w", ErrScenario, err)
		}
	}
	return nil
}
