package qemuguest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// baseModules are the modules of a virtio-net guest on PCI.
var baseModules = []string{"virtio_pci", "virtio_net"}

// builtinQdiscs and builtinCCs are in every kernel, without a module.
var (
	builtinQdiscs = map[string]bool{"pfifo_fast": true, "noqueue": true}
	builtinCCs    = map[string]bool{"reno": true}
)

// image collects what the guest needs: our program, the user's, the modules of
// the kernel, and the configuration.
func (g *Guest) image(ctx context.Context, s *vmtest.Scenario, k Kernel) (*image, error) {
	im := &image{config: guestConfig(s), params: moduleParams(s)}
	var err error
	if g.cfg.Program != "" {
		if im.program, err = readStatic(g.cfg.Program); err != nil {
			return nil, err
		}
		im.config.Program = append([]string{userProgram}, g.cfg.Args...)
		im.config.Env = programEnv(s)
	}
	if im.modules, err = scenarioModules(s, k); err != nil {
		return nil, err
	}
	if g.guestprog == nil {
		if g.guestprog, err = guestProgram(ctx); err != nil {
			return nil, err
		}
	}
	im.init = g.guestprog
	return im, nil
}

// moduleParams: napi_tx chooses when the driver lets go of packets.
func moduleParams(s *vmtest.Scenario) map[string]string {
	switch s.Release {
	case vmtest.ReleaseOrphan:
		return map[string]string{"virtio_net": "napi_tx=0"}
	case vmtest.ReleaseNAPI:
		return map[string]string{"virtio_net": "napi_tx=1"}
	}
	return nil
}

// scenarioModules loads the device's driver, and the scenario's queueing
// discipline and congestion controls where the kernel has them as modules.
func scenarioModules(s *vmtest.Scenario, k Kernel) ([]module, error) {
	tree, err := openModules(k.Modules)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKernel, err)
	}
	names := append([]string{}, baseModules...)
	if !builtinQdiscs[s.Qdisc] {
		names = append(names, moduleName("sch_"+s.Qdisc))
	}
	for i := range s.Flows {
		if cc := s.Flow(i).CC; !builtinCCs[cc] {
			names = append(names, moduleName("tcp_"+cc))
		}
	}
	mods, err := tree.resolve(names...)
	if err != nil {
		return nil, fmt.Errorf("%w: kernel %s: %w", ErrKernel, k.Name, err)
	}
	return mods, nil
}

// guestConfig is the scenario in the guest program's terms.
func guestConfig(s *vmtest.Scenario) proto.Config {
	e := endsFor(s.IP)
	c := proto.Config{
		Sysctls: guestSysctls(s), MAC: guestMAC, Addr: e.guest, Peer: e.hostIP(),
		Port: receiverPort, FromPort: firstPort, MTU: s.MTU, Pairs: s.QueuePairs, Qdisc: s.Qdisc,
		TSO: s.TSO, GSO: s.GSO, MSS: s.MSS, More: s.More,
		WarmUp: s.WarmUp, Duration: s.Duration, Sample: sampleEvery(s.Duration),
	}
	d := vmtest.Default()
	if s.GSOMaxSize != d.GSOMaxSize {
		c.GSOMaxSize = int(s.GSOMaxSize)
	}
	if s.GSOMaxSegs != d.GSOMaxSegs {
		c.GSOMaxSegs = s.GSOMaxSegs
	}
	for i := range s.Flows {
		f := s.Flow(i)
		c.Flows = append(c.Flows, proto.Flow{CPU: f.CPU, Start: f.Start, Write: int(f.Write), Think: f.Think,
			Total: int64(f.Total), CC: f.CC, NoDelay: f.NoDelay, Pacing: uint64(f.Pacing)})
	}
	return c
}

// sampleEvery is how often the congestion windows are looked at: 200 times, but
// not more often than a clock tick of the guest's.
func sampleEvery(d time.Duration) time.Duration {
	return min(max(d/200, 4*time.Millisecond), 100*time.Millisecond)
}

// guestSysctls are the scenario's, the default queueing discipline, and two of
// our own: the pause between warm-up and measurement may not take the
// congestion window, and connections to a receiver that never changes may not
// start with what the last one learned.
func guestSysctls(s *vmtest.Scenario) map[string]string {
	set := map[string]string{
		"net/core/default_qdisc":             "pfifo_fast",
		"net/ipv4/tcp_slow_start_after_idle": "0",
		"net/ipv4/tcp_no_metrics_save":       "1",
	}
	if s.Qdisc != "noqueue" {
		set["net/core/default_qdisc"] = s.Qdisc
	}
	maps.Copy(set, quietIPv6(s.IP))
	for name, v := range s.Sysctl {
		delete(set, "net/ipv4/"+name)
		set[name] = v
	}
	return set
}

// programEnv is the environment of a user's program: where the receiver is and
// what the scenario asks for. Times are in nanoseconds, sizes in bytes.
func programEnv(s *vmtest.Scenario) map[string]string {
	return map[string]string{
		"PATH":             "/bin",
		"VNB_HOST":         endsFor(s.IP).hostIP(),
		"VNB_PORT":         strconv.Itoa(receiverPort),
		"VNB_LOCAL_PORT":   strconv.Itoa(firstPort), // of flow 0; a flow that binds to it, plus its index, is known by it
		"VNB_FLOWS":        strconv.Itoa(s.Flows),
		"VNB_WRITE":        strconv.FormatInt(int64(s.Write), 10),
		"VNB_THINK_NS":     strconv.FormatInt(int64(s.Think), 10),
		"VNB_DURATION_NS":  strconv.FormatInt(int64(s.Duration), 10),
		"VNB_QUEUE_PAIRS":  strconv.Itoa(s.QueuePairs),
		"VNB_TOTAL_BYTES":  strconv.FormatInt(int64(s.Total), 10),
		"VNB_CC":           s.CC,
		"VNB_PACING_BYTES": strconv.FormatInt(min(int64(s.Pacing), math.MaxInt64), 10),
	}
}
