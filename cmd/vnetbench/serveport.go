package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"

	"github.com/vnetbench/vnetbench/hostnet/reflect"
	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/hostnet/source"
	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/hostnet/vswitch"
	"github.com/vnetbench/vnetbench/hostnet/vswitch/live"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/vmtest"
)

// netKinds are the spellings of --net, as one that is mistyped is compared with.
var netKinds = []string{"tap:", "sink", "sink:copy", "source:64", "reflect", "switch:"}

// ports opens the host's side of the queue pairs that spec describes.
func (c *serveCmd) ports(spec string, log *slog.Logger, mac frame.MAC) (ports []vhost.Port, closePorts func(), err error) {
	kind, arg, colon := strings.Cut(spec, ":")
	switch {
	case kind == "tap" && colon:
		return c.taps(arg, log)
	case spec == "sink" || spec == "sink:copy":
		return c.each(func() (vhost.Port, error) { return &sink.Port{Copy: colon}, nil })
	case spec == "reflect":
		return c.each(func() (vhost.Port, error) { return reflect.New() })
	case kind == "switch" && colon:
		return c.switched(arg)
	case kind == "source" && colon:
		n, err := strconv.Atoi(arg)
		if err != nil {
			return nil, nil, fmt.Errorf("--net: %q is not a length in bytes; write source:64", arg)
		}
		return c.each(func() (vhost.Port, error) { return source.New(n, mac) })
	}
	return nil, nil, fmt.Errorf("--net: unknown %q; the nearest is %q; write tap:NAME, tap:, sink, sink:copy, source:BYTES, reflect or switch:NAME",
		spec, vmtest.Nearest(spec, netKinds))
}

// each opens a port for each pair.
func (c *serveCmd) each(open func() (vhost.Port, error)) (ports []vhost.Port, closePorts func(), err error) {
	closePorts = func() {
		for _, p := range ports {
			_ = p.Close()
		}
	}
	for range c.QueuePairs {
		p, err := open()
		if err != nil {
			closePorts()
			return nil, nil, fmt.Errorf("--net: %w", err)
		}
		ports = append(ports, p)
	}
	return ports, closePorts, nil
}

// switched adds a port to the switch of that name, which the sockets of this
// process share.
func (c *serveCmd) switched(name string) (ports []vhost.Port, closePorts func(), err error) {
	sw := c.switches[name]
	if sw == nil {
		if sw, err = live.New(vswitch.Config{}); err != nil {
			return nil, nil, err
		}
		if c.switches == nil {
			c.switches = map[string]*live.Switch{}
		}
		c.switches[name] = sw
	}
	queues, err := sw.AddPort(c.QueuePairs)
	if err != nil {
		return nil, nil, fmt.Errorf("--net: %w", err)
	}
	for _, q := range queues {
		ports = append(ports, q)
	}
	return ports, func() {
		for _, p := range ports {
			_ = p.Close()
		}
	}, nil
}

// taps opens the queues of a tap.
func (c *serveCmd) taps(name string, log *slog.Logger) (ports []vhost.Port, closePorts func(), err error) {
	t, err := tap.Open(tap.Config{Name: name, Queues: c.QueuePairs})
	if err != nil {
		return nil, nil, err
	}
	if err := t.Up(); err != nil {
		return nil, nil, errors.Join(err, t.Close())
	}
	for i := range t.Queues() {
		ports = append(ports, t.Queue(i))
	}
	log.Info("tap is up", "interface", t.Name(), "queues", t.Queues())
	return ports, func() {
		if err := t.Close(); err != nil {
			log.Warn("tap", "error", err)
		}
	}, nil
}

// threads checks the flags that concern the threads of the pairs, and makes
// sure that threads which never sleep leave the runtime some to run on.
func (c *serveCmd) threads(cfg *vhost.Config) (err error) {
	if c.PollFor < 0 {
		return fmt.Errorf("--poll-for: %v is negative; write a time such as 50us", c.PollFor)
	}
	cfg.SendCost = vhost.SendCost{Base: c.TxBase, PerKB: c.TxPerKB}
	if cfg.PollTime = c.PollFor; c.Poll {
		cfg.PollTime = vhost.PollAlways
	}
	if cfg.PollTime > 0 {
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), c.QueuePairs*max(len(c.SocketPath), 1)+2))
	}
	cfg.CPUs, err = parseCPUs(c.CPUs)
	return err
}

// parseCPUs reads numbers and ranges.
func parseCPUs(list []string) (cpus []int, err error) {
	for _, text := range list {
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		lo, errLo := strconv.ParseUint(from, 10, 10)
		hi, errHi := strconv.ParseUint(to, 10, 10)
		if errLo != nil || errHi != nil || lo > hi {
			return nil, fmt.Errorf("--cpus: %q is neither a CPU nor a range of CPUs; write 1,3-5", text)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}
