package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/watch"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// serveCmd is a vhost-user back-end on one socket, for one front-end after the
// other. The names of the first three flags are those that managers of virtual
// machines expect of every such program.
type serveCmd struct {
	SocketPath        string        `placeholder:"PATH" xor:"socket" help:"Listen there, at most 107 bytes."`
	FD                *int          `name:"fd" placeholder:"N" xor:"socket" help:"Use this descriptor: a listening or connected UNIX socket."`
	PrintCapabilities bool          `help:"Print the capabilities of this back-end as JSON and exit."`
	QueuePairs        int           `default:"1" placeholder:"N" help:"Queue pairs, 1 to 128."`
	Net               string        `default:"sink" placeholder:"KIND" help:"The host's side: tap:NAME, a multi-queue tap (tap: alone makes one); sink, which throws away what comes (default; sink:copy reads it first); source:BYTES, which sends frames of that length as fast as the guest takes them; reflect, which sends back what comes."`
	MAC               string        `name:"mac" placeholder:"MAC" help:"Station address."`
	MTU               uint16        `name:"mtu" placeholder:"BYTES" help:"Largest IP packet."`
	Policy            string        `default:"none" help:"Completion policy (see list --policies)."`
	Poll              bool          `xor:"poll" help:"Look at the rings all the time and never ask for kicks; takes a CPU for each pair."`
	PollFor           time.Duration `xor:"poll" placeholder:"TIME" help:"Look at the rings for up to this long before asking for kicks and sleeping."`
	CPUs              []string      `name:"cpus" placeholder:"LIST" help:"Bind the thread of pair i to CPU i of this list, such as 1,3-5."`
	Stats             time.Duration `default:"1s" placeholder:"TIME" help:"Interval of the statistics; 0: totals only."`
	Format            string        `enum:"text,json" default:"text" help:"Format of the statistics: text (a table) or json (lines)."`
	Once              bool          `help:"End with the first session."`
	Quiet             bool          `help:"Log only what goes wrong."`
}

// Run serves until SIGINT or SIGTERM, which are its ordinary end.
func (c *serveCmd) Run(s *streams) error {
	if c.PrintCapabilities {
		_, err := fmt.Fprintln(s.out, `{"type": "net"}`)
		return err
	}
	cfg, err := c.config(s)
	if err != nil {
		return usage(err)
	}
	ports, closePorts, err := c.ports(cfg.Logger, cfg.Device.MAC)
	if err != nil {
		return usage(err)
	}
	defer closePorts()
	cfg.Ports = ports
	server, err := vhost.Listen(cfg)
	if err != nil {
		return usage(err)
	}
	cfg.Logger.Info("waiting for a front-end", "socket", c.where(), "queue_pairs", c.QueuePairs, "net", c.Net)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return c.serve(ctx, server, watch.New(s.out, c.Format, time.Now()))
}

// serve runs the server, with statistics beside it and totals behind it.
func (c *serveCmd) serve(ctx context.Context, server *vhost.Server, w *watch.Watcher) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	defer signal.Stop(usr1)
	tick, stopTick := ticks(c.Stats)
	defer stopTick()
	var werr error
	for {
		select {
		case now := <-tick:
			werr = errors.Join(werr, w.Interval(now, server.Stats()))
		case <-usr1:
			werr = errors.Join(werr, w.Totals(time.Now(), server.Stats()))
		case err := <-ended:
			return errors.Join(err, werr, w.Totals(time.Now(), server.Stats()))
		}
	}
}

// ticks is a channel that delivers the time every d; of 0, never.
func ticks(d time.Duration) (<-chan time.Time, func()) {
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// config checks the flags and makes the server's configuration without ports.
func (c *serveCmd) config(s *streams) (vhost.Config, error) {
	cfg := vhost.Config{SocketPath: c.SocketPath, Once: c.Once, Logger: c.logger(s)}
	switch {
	case c.FD != nil:
		cfg.FD = *c.FD
	case c.SocketPath == "":
		return cfg, errors.New("where to serve? give --socket-path PATH or --fd N")
	}
	if c.Stats < 0 {
		return cfg, fmt.Errorf("--stats: %v is negative; write a time such as 1s, or 0 for totals only", c.Stats)
	}
	mac, err := parseMAC(c.MAC)
	if err != nil {
		return cfg, err
	}
	policy, err := netdev.ParsePolicy(c.Policy)
	if err != nil {
		return cfg, fmt.Errorf("--policy: %w", err)
	}
	cfg.Device = netdev.Config{QueuePairs: c.QueuePairs, MAC: mac, MTU: c.MTU, Policy: policy}
	if err := c.threads(&cfg); err != nil {
		return cfg, err
	}
	if c.QueuePairs == 0 {
		return cfg, errors.New("--queue-pairs: 0 is not in 1..128")
	}
	dev, err := netdev.New(cfg.Device)
	if err != nil {
		return cfg, err
	}
	cfg.Device = dev.Config()
	return cfg, nil
}

func (c *serveCmd) logger(s *streams) *slog.Logger {
	level := slog.LevelInfo
	if c.Quiet {
		level = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
}

func (c *serveCmd) where() string {
	if c.FD != nil {
		return fmt.Sprintf("descriptor %d", *c.FD)
	}
	return c.SocketPath
}

func parseMAC(text string) (mac [6]byte, err error) {
	if text == "" {
		return mac, nil
	}
	m, err := net.ParseMAC(text)
	if err != nil || len(m) != 6 || m[0]&1 != 0 {
		return mac, fmt.Errorf("--mac: %q is not the address of one station; write it as 02:00:00:00:00:01", text)
	}
	copy(mac[:], m)
	return mac, nil
}
