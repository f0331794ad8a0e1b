// Package live is a learning switch between back-ends that run in real time: it
// puts the switch of package vswitch behind a lock, and its queues behind
// eventfds.
package live

import (
	"sync"

	"github.com/vnetbench/vnetbench/hostnet/vswitch"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Switch is a switch whose ports may be used by different threads.
type Switch struct {
	clock osio.Clock

	mu    sync.Mutex
	sw    *vswitch.Switch
	ports [][]*Port // by port and queue
}

// New makes a switch without ports. The error wraps vswitch.ErrConfig.
func New(cfg vswitch.Config) (*Switch, error) {
	sw, err := vswitch.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Switch{clock: osio.NewClock(), sw: sw}, nil
}

// Stats returns the counters of the switch.
func (s *Switch) Stats() vswitch.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sw.Stats()
}

// PortStats returns the counters of port p.
func (s *Switch) PortStats(p int) vswitch.PortStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sw.PortStats(p)
}

// AddPort adds a port and returns its queues, one for each queue pair of a
// device. The error wraps vswitch.ErrConfig or is that of eventfd2.
func (s *Switch) AddPort(queues int) ([]*Port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.sw.AddPort(queues)
	if err != nil {
		return nil, err
	}
	all := make([]*Port, queues)
	for i := range all {
		fd, err := osio.Eventfd(0)
		if err != nil {
			for _, p := range all[:i] {
				osio.Close(p.ready)
			}
			all = nil
			s.ports = append(s.ports, nil)
			return nil, err
		}
		all[i] = &Port{s: s, port: n, queue: i, ready: fd}
	}
	s.ports = append(s.ports, all)
	return all, nil
}

// Port is a queue of a port: a netdev.Port and a vhost.Port, for one thread at a
// time. A frame that it is sent is with its receivers when Send returns; they copy
// it again into their guests' memory.
type Port struct {
	s           *Switch
	port, queue int
	ready       int // eventfd, readable while frames wait

	woken   []vswitch.Target
	scratch []byte
	closed  bool
}

// Send forwards a frame; its buffers are free at now.
func (p *Port) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.woken = p.s.sw.Forward(p.s.clock.Now(), p.port, h, iov, p.woken[:0])
	for _, w := range p.woken {
		_ = osio.WriteEvent(p.s.ports[w.Port][w.Queue].ready)
	}
	return now, netdev.Sent
}

// Flush does nothing: Send keeps nothing back.
func (p *Port) Flush(vtime.Time) {}

// take takes the next frame.
func (p *Port) take(h *virtio.NetHdr) ([]byte, bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	f, ok := p.s.sw.Take(p.port, p.queue, h, &p.scratch)
	if !ok {
		var buf [8]byte
		_, _ = osio.ReadEvent(p.ready, &buf)
	}
	return f, ok
}

// Receive gives waiting frames to the guest, at most budget of them.
func (p *Port) Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error) {
	var h virtio.NetHdr
	for ; n < budget; n++ {
		if rx.Waiting() > 0 {
			return n, true, nil
		}
		f, ok := p.take(&h)
		if !ok {
			return n, false, nil
		}
		rx.Deliver(now, &h, f)
	}
	return n, true, nil
}

// Negotiated does nothing: what a guest does not take its device completes or
// cuts.
func (p *Port) Negotiated(virtio.Features) error { return nil }

// Enable says whether the guest receives here.
func (p *Port) Enable(on bool) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.sw.Enable(p.port, p.queue, on && !p.closed)
	return nil
}

// RxFD is readable while frames wait.
func (p *Port) RxFD() int { return p.ready }

// TxFD is -1: a frame for which there is no room is dropped.
func (p *Port) TxFD() int { return -1 }

// Err is always nil.
func (p *Port) Err() error { return nil }

// Close has the port receive nothing more and closes its descriptor. A second
// call does nothing.
func (p *Port) Close() error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.s.sw.Enable(p.port, p.queue, false)
		osio.Close(p.ready)
	}
	return nil
}
