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
	"github.com/vnetbench/vnetbench/hostnet/vswitch/live"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// serveCmd is a vhost-user back-end: on each of its sockets a net device of its
// own, for one front-end after the other.
type serveCmd struct {
	connection
	offer
	QueuePairs int           `default:"1" placeholder:"N" help:"Queue pairs, 1 to 128."`
	Net        []string      `default:"sink" placeholder:"KIND" sep:"none" help:"The host's side, once for all sockets or once for each: tap:NAME, a multi-queue tap (tap: alone makes one); sink, which throws away what comes (default; sink:copy reads it first); source:BYTES, which sends frames of that length as fast as the guest takes them; reflect, which sends back what comes; switch:NAME, a port of a switch that the sockets with the same name share."`
	MAC        string        `name:"mac" placeholder:"MAC" help:"Station address; that of each further socket is one higher."`
	MTU        uint16        `name:"mtu" placeholder:"BYTES" help:"Largest IP packet."`
	Policy     string        `default:"none" help:"Completion policy (see list --policies)."`
	Poll       bool          `xor:"poll" help:"Look at the rings all the time and never ask for kicks; takes a CPU for each pair."`
	PollFor    time.Duration `xor:"poll" placeholder:"TIME" help:"Look at the rings for up to this long before asking for kicks and sleeping."`
	TxBase     time.Duration `name:"tx-base" placeholder:"TIME" help:"Time that a pair's thread is busy with each frame from the guest, beside its work: that of a slower host."`
	TxPerKB    time.Duration `name:"tx-per-kb" placeholder:"TIME" help:"The same for each 1000 bytes of it."`
	CPUs       []string      `name:"cpus" placeholder:"LIST" help:"Bind the thread of pair i to CPU i of this list, such as 1,3-5."`
	Pcap       string        `placeholder:"FILE" help:"Write what passes both sides of the device there, as pcapng with the virtio-net headers; with several sockets to FILE.N, from 0."`
	Speed      uint32        `placeholder:"MBIT" help:"Speed that the guest is told, in 10^6 bit/s; 0: unknown."`
	Stats      time.Duration `default:"1s" placeholder:"TIME" help:"Interval of the statistics; 0: totals only."`
	Format     string        `enum:"text,json" default:"text" help:"Format of the statistics: text (a table) or json (lines)."`
	Quiet      bool          `help:"Log only what goes wrong."`

	switches map[string]*live.Switch // by name
}

// Run serves until SIGINT or SIGTERM, which are its ordinary end.
func (c *serveCmd) Run(s *streams) error {
	if done, err := c.print(s); done {
		return err
	}
	served, err := c.open(s)
	if err != nil {
		return usage(err)
	}
	defer closeAll(served)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return c.serve(ctx, served)
}

// served is one socket with its device, ports and statistics.
type served struct {
	server *vhost.Server
	watch  *watch.Watcher
	close  func() // of the ports
}

// open opens every socket and its ports.
func (c *serveCmd) open(s *streams) ([]*served, error) {
	log := c.logger(s)
	places, err := c.places()
	if err != nil {
		return nil, err
	}
	if n := len(c.Net); n != 1 && n != len(places) {
		return nil, fmt.Errorf("--net: given %d times for %d sockets; give it once, or once for each --socket-path", n, len(places))
	}
	var all []*served
	for i, p := range places {
		one, err := c.openOne(s, log, i, p)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		if len(places) > 1 {
			one.watch.Name(p.String())
		}
		all = append(all, one)
	}
	return all, nil
}

func (c *serveCmd) openOne(s *streams, log *slog.Logger, i int, p place) (*served, error) {
	cfg, err := c.config(i)
	if err != nil {
		return nil, err
	}
	cfg.Logger = log.With("socket", p.String())
	closeCapture, err := c.capture(&cfg, i)
	if err != nil {
		return nil, err
	}
	if err := c.configure(&cfg, p); err != nil {
		return nil, err
	}
	net := c.Net[min(i, len(c.Net)-1)]
	ports, closePorts, err := c.ports(net, cfg.Logger, cfg.Device.MAC)
	if err != nil {
		closeCapture()
		return nil, err
	}
	closeAfter := func() { closePorts(); closeCapture() }
	cfg.Ports = ports
	server, err := vhost.Listen(cfg)
	if err != nil {
		closeAfter()
		return nil, err
	}
	cfg.Logger.Info("waiting for a front-end", "queue_pairs", c.QueuePairs, "net", net, "client", cfg.Client)
	return &served{server, watch.New(s.out, c.Format, time.Now()), closeAfter}, nil
}

func closeAll(all []*served) {
	for _, s := range all {
		s.server.Close()
		s.close()
	}
}

// serve runs the servers, with statistics beside them and totals behind them.
// It ends when all of them have ended, or one has failed.
func (c *serveCmd) serve(ctx context.Context, all []*served) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(all))
	for _, s := range all {
		go func() { ended <- s.server.Serve(ctx) }()
	}
	usr1 := make(chan os.Signal, 1)
	signal.Notify(usr1, syscall.SIGUSR1)
	defer signal.Stop(usr1)
	tick, stopTick := ticks(c.Stats)
	defer stopTick()
	var err error
	for left := len(all); left > 0; {
		select {
		case now := <-tick:
			for _, s := range all {
				err = errors.Join(err, s.watch.Interval(now, s.server.Stats()))
			}
		case <-usr1:
			err = errors.Join(err, totals(all))
		case serr := <-ended:
			if left--; serr != nil {
				err = errors.Join(err, serr)
				cancel()
			}
		}
	}
	return errors.Join(err, totals(all))
}

// totals prints the totals of every server.
func totals(all []*served) (err error) {
	for _, s := range all {
		err = errors.Join(err, s.watch.Totals(time.Now(), s.server.Stats()))
	}
	return err
}

// ticks is a channel that delivers the time every d; of 0, never.
func ticks(d time.Duration) (<-chan time.Time, func()) {
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(d)
	return t.C, t.Stop
}

// config checks the device's flags and makes the configuration of server i,
// without its ports and its connection.
func (c *serveCmd) config(i int) (vhost.Config, error) {
	var cfg vhost.Config
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
	cfg.Device = netdev.Config{QueuePairs: c.QueuePairs, MAC: nextMAC(mac, i), MTU: c.MTU, Policy: policy, SpeedMbit: c.Speed}
	if err := c.threads(&cfg); err != nil {
		return cfg, err
	}
	if c.QueuePairs == 0 {
		return cfg, errors.New("--queue-pairs: 0 is not in 1..128")
	}
	if err := c.apply(&cfg.Device); err != nil {
		return cfg, err
	}
	dev, err := netdev.New(cfg.Device)
	if err != nil {
		return cfg, err
	}
	cfg.Device = dev.Config()
	return cfg, nil
}

// nextMAC is the address of the i-th device: the low three bytes count on. That
// of none stays none, which is the device's own default.
func nextMAC(mac [6]byte, i int) [6]byte {
	if mac == [6]byte{} && i == 0 {
		return mac
	}
	if mac == [6]byte{} {
		mac = [6]byte{0x52, 0x54, 0x00, 0x12, 0x34, 0x56}
	}
	n := uint32(mac[3])<<16 + uint32(mac[4])<<8 + uint32(mac[5]) + uint32(i)
	mac[3], mac[4], mac[5] = byte(n>>16), byte(n>>8), byte(n)
	return mac
}

func (c *serveCmd) logger(s *streams) *slog.Logger {
	level := slog.LevelInfo
	if c.Quiet {
		level = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: level}))
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
