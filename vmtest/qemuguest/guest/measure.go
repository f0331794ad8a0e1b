package guest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// settle is how long the network is left alone before a snapshot: longer than
// a delayed acknowledgement and a NAPI round take to come to rest.
const settle = 60 * time.Millisecond

// quietTries is how often both sides look until they agree.
const quietTries = 20

// measure runs the load between two points at which both sides take their
// counters.
func measure(ctl *control, cfg *proto.Config, n *nic, l load) (*proto.Report, error) {
	r := &proto.Report{Release: n.release(), Driver: n.driver,
		Flows: []proto.FlowReport{}, Warnings: []string{}}
	if err := l.warmUp(ctl); err != nil {
		return nil, fmt.Errorf("warm-up: %w", err)
	}
	if err := quiet(ctl, n, l, proto.AtStart); err != nil {
		return nil, err
	}
	begin, used := monotonic(), busy()
	if err := l.measured(ctl); err != nil {
		return nil, fmt.Errorf("measured time: %w", err)
	}
	r.Measured, r.Busy = monotonic()-begin, busy()-used
	if err := quiet(ctl, n, l, proto.AtEnd); err != nil {
		return nil, err
	}
	return r, l.finish(r)
}

// quiet takes a snapshot, lets the host take its own, and looks again: if the
// driver has notified the device meanwhile, both are worth nothing and it
// begins anew.
func quiet(ctl *control, n *nic, l load, at string) error {
	for range quietTries {
		time.Sleep(settle)
		s, err := snapshot(n, l)
		if err != nil {
			return err
		}
		if err := ctl.ask(proto.Message{Kind: proto.Quiet, At: at, Snapshot: s}, proto.Seen); err != nil {
			return err
		}
		after, err := n.stats()
		if err != nil {
			return err
		}
		if maps.Equal(kicks(s.NIC), kicks(after)) {
			return ctl.send(proto.Message{Kind: proto.Agreed, At: at})
		}
	}
	return fmt.Errorf("the network never came to rest at the %s: the driver went on notifying the device", at)
}

// kicks are the driver's counters of notifications.
func kicks(stats map[string]uint64) map[string]uint64 {
	out := map[string]uint64{}
	for name, v := range stats {
		if strings.HasSuffix(name, "kicks") {
			out[name] = v
		}
	}
	return out
}

func closeFD(fd int) {
	_ = unix.Shutdown(fd, unix.SHUT_WR)
	_ = unix.Close(fd)
}
