package qemuguest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// backend is our device in this process, on one connection to a QEMU.
type backend struct {
	server *vhost.Server
	cancel context.CancelFunc
	ended  chan struct{}
	failed chan error // gets why the connection ended by itself
}

// queueCount is the counters of one ring at one time.
type queueCount struct {
	pair  int
	dir   netdev.Dir
	stats netdev.Stats
}

// frontDoor is a listening socket for one QEMU. It is abstract (its name is not
// in the file system, and ends with it), and takes connections of our own user
// only.
type frontDoor struct {
	l    *net.UnixListener
	name string
}

func openFrontDoor() (*frontDoor, error) {
	name := fmt.Sprintf("vnetbench-%d-%s", os.Getpid(), rand.Text())
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("vhost-user socket: %w", err)
	}
	return &frontDoor{l, name}, nil
}

// accept waits for QEMU, as long as it runs, and returns its connection's
// descriptor.
func (d *frontDoor) accept(gone <-chan struct{}) (int, error) {
	defer d.l.Close()
	result := make(chan struct{})
	defer close(result)
	go func() {
		select {
		case <-gone:
			d.l.Close()
		case <-result:
		}
	}()
	for {
		c, err := d.l.AcceptUnix()
		if err != nil {
			return -1, fmt.Errorf("QEMU did not connect to the device: %w", err)
		}
		fd, err := ownPeer(c)
		c.Close()
		if err == nil {
			return fd, nil
		}
	}
}

// ownPeer returns a duplicate of the connection's descriptor if the other end
// is a process of our user.
func ownPeer(c *net.UnixConn) (int, error) {
	f, err := c.File()
	if err != nil {
		return -1, err
	}
	defer f.Close()
	cred, err := unix.GetsockoptUcred(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	if int(cred.Uid) != os.Geteuid() {
		return -1, fmt.Errorf("connection of user %d", cred.Uid)
	}
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// startBackend serves the device on a connection, whose descriptor it takes
// over.
func startBackend(s *session, ports []vhost.Port, fd int) (*backend, error) {
	cfg, err := deviceConfig(s.scenario)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	cfg.Observer = s.options.Observer
	vc := vhost.Config{FD: fd, Device: cfg, Ports: ports, SendCost: sendCost(s.scenario)}
	if log := s.options.Log; log != nil {
		vc.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	server, err := vhost.Listen(vc)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &backend{server: server, cancel: cancel, ended: make(chan struct{}), failed: make(chan error, 1)}
	go b.serve(ctx)
	return b, nil
}

// sendCost is what the scenario has the host's worker spend beside its real work.
func sendCost(s *vmtest.Scenario) (c vhost.SendCost) {
	if d := s.Host.TxBase; d != nil {
		c.Base = *d
	}
	if d := s.Host.TxPerKB; d != nil {
		c.PerKB = *d
	}
	return c
}

// ports are the queues of the tap, with somebody who watches them.
func (b *bench) ports() (ports []vhost.Port) {
	t := b.network.tap
	for i := range t.Queues() {
		q := t.Queue(i)
		q.Observe(&watchQueue{watch: b.watch, pair: i})
		if b.plain {
			ports = append(ports, plainQueue{q})
			continue
		}
		ports = append(ports, q)
	}
	return ports
}

// plainQueue is a queue of a tap that takes no offloads.
type plainQueue struct{ *tap.Queue }

// Offloads implements netdev.Limited.
func (plainQueue) Offloads() virtio.Features { return 0 }

func deviceConfig(s *vmtest.Scenario) (netdev.Config, error) {
	policy, err := netdev.ParsePolicy(s.Policy)
	if err != nil {
		return netdev.Config{}, err
	}
	cfg := netdev.Config{QueuePairs: s.QueuePairs, Policy: policy, MTU: uint16(s.MTU)}
	mac, err := net.ParseMAC(guestMAC)
	copy(cfg.MAC[:], mac)
	return cfg, err
}

// serve is the server's goroutine.
func (b *backend) serve(ctx context.Context) {
	defer close(b.ended)
	err := b.server.Serve(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("the front-end has gone")
		if all := b.server.Stats().Sessions; len(all) > 0 && all[len(all)-1].Err != nil {
			err = all[len(all)-1].Err
		}
	}
	b.failed <- err
}

// failure implements device.
func (b *backend) failure() <-chan error { return b.failed }

// counters implements device.
func (b *backend) counters() []queueCount {
	st := b.server.Stats()
	out := make([]queueCount, 0, 2*len(st.Pairs))
	for i := range st.Pairs {
		out = append(out, queueCount{i, netdev.DirRX, st.Pairs[i].RX}, queueCount{i, netdev.DirTX, st.Pairs[i].TX})
	}
	return out
}

// kicksOf are the counters that have to stand still before a snapshot counts.
func kicksOf(all []queueCount) []uint64 {
	out := make([]uint64, 0, 2*len(all))
	for i := range all {
		out = append(out, all[i].stats.Kicks, all[i].stats.Packets)
	}
	return out
}

// close ends the connection and waits until nothing of it runs any more.
func (b *backend) close() {
	b.cancel()
	<-b.ended
}
