// Package vswitch is an Ethernet switch between net devices that learns which
// station is behind which port. It is without clock, file descriptors, goroutines,
// locks and timers: time comes with each frame, and whoever drives it is told
// which queues have something new. Package live puts it behind back-ends that run
// in real time; guests in virtual time can use it as it is.
package vswitch

import (
	"errors"
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/internal/fifo"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Defaults and bounds of Config.
const (
	// DefaultStations is how many stations a switch remembers.
	DefaultStations = 1024
	// DefaultAge is how long it does so after their last frame (IEEE 802.1Q has
	// 300 s too).
	DefaultAge = 300 * time.Second
	// DefaultQueueBytes is the room of a queue.
	DefaultQueueBytes = 1 << 20
	// MaxPorts and MaxQueues bound a switch: ports, and queues of one.
	MaxPorts  = 256
	MaxQueues = 128
)

// ErrConfig is a field out of its bounds.
var ErrConfig = errors.New("bad switch configuration")

// Config describes a switch. The zero value of a field is its default.
type Config struct {
	// Stations is the size of the table, a power of two from 8 to 65536. When there
	// is no room for another station the one not heard of for longest among the
	// few that share its place is forgotten.
	Stations int
	// Age is how long a station is remembered without a frame from it.
	Age time.Duration
	// QueueBytes is the room of each queue for frames and 16 bytes more for each,
	// from 128 KiB on. A frame that finds none is dropped.
	QueueBytes int
}

func (c Config) withDefaults() (Config, error) {
	if c.Stations == 0 {
		c.Stations = DefaultStations
	}
	if c.Age == 0 {
		c.Age = DefaultAge
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = DefaultQueueBytes
	}
	switch {
	case c.Stations < 8 || c.Stations > 65536 || c.Stations&(c.Stations-1) != 0:
		return c, fmt.Errorf("%w: Stations %d is not a power of two in 8..65536", ErrConfig, c.Stations)
	case c.Age < 0:
		return c, fmt.Errorf("%w: Age %v is negative", ErrConfig, c.Age)
	case c.QueueBytes < 128<<10 || c.QueueBytes > 1<<30:
		return c, fmt.Errorf("%w: QueueBytes %d is not in %d..%d", ErrConfig, c.QueueBytes, 128<<10, 1<<30)
	}
	return c, nil
}

// Switch forwards frames between ports. It is not safe for concurrent use.
type Switch struct {
	cfg   Config
	table table
	ports []port
	stats Stats
	front [256]byte
}

// port is a device: some queues, of which the enabled ones receive.
type port struct {
	queues []*fifo.Queue
	on     []bool // by queue: it is enabled
	up     []int  // those that are
	stats  PortStats
}

// Stats counts what a switch did.
type Stats struct {
	Known    int64 // frames for a station whose port is known
	Flooded  int64 // frames for all: of a group, or of an unknown station
	Returned int64 // frames for a station behind the port that they came from; dropped
	Short    int64 // frames without an Ethernet header; dropped
	Learned  int64 // stations that were new
	Moved    int64 // stations that appeared behind another port
	Evicted  int64 // stations that were forgotten for want of room
}

// PortStats counts what one port did.
type PortStats struct {
	In   int64 // frames that came from it
	Out  int64 // frames that were queued for it
	Full int64 // frames for it that were dropped for want of room
	Down int64 // frames for it that were dropped since no queue was enabled
}

// New makes a switch without ports. The error wraps ErrConfig.
func New(cfg Config) (*Switch, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Switch{cfg: cfg, table: newTable(cfg.Stations)}, nil
}

// AddPort adds a port of some queues, all of them disabled, and returns its
// number, which counts from 0. The error wraps ErrConfig.
func (s *Switch) AddPort(queues int) (int, error) {
	if queues < 1 || queues > MaxQueues || len(s.ports) == MaxPorts {
		return 0, fmt.Errorf("%w: port %d of %d queues; a switch has up to %d ports of up to %d queues",
			ErrConfig, len(s.ports), queues, MaxPorts, MaxQueues)
	}
	p := port{queues: make([]*fifo.Queue, queues), on: make([]bool, queues), up: make([]int, 0, queues)}
	for i := range p.queues {
		p.queues[i] = fifo.New(s.cfg.QueueBytes)
	}
	s.ports = append(s.ports, p)
	return len(s.ports) - 1, nil
}

// Stats returns the counters of the switch.
func (s *Switch) Stats() Stats { return s.stats }

// PortStats returns the counters of port p.
func (s *Switch) PortStats(p int) PortStats { return s.ports[p].stats }

// Waiting returns the number of frames that wait in a queue of port p.
func (s *Switch) Waiting(p, queue int) int { return s.ports[p].queues[queue].Len() }

// Enable says whether a queue of a port receives. What waits for one that does not
// is dropped, and counted as Down.
func (s *Switch) Enable(p, queue int, on bool) {
	to := &s.ports[p]
	to.on[queue] = on
	to.up = to.up[:0]
	for i, on := range to.on {
		if on {
			to.up = append(to.up, i)
		}
	}
	if !on {
		to.stats.Down += int64(to.queues[queue].Clear())
	}
}

// Target is a queue that was empty and is not any more.
type Target struct{ Port, Queue int }

// Forward takes a frame that came from a port, notes its sender, and copies it to
// the queues that it is for, one for each port. The net header goes along, so that
// what is left to do to the frame is done where it is received. It appends to
// woken the queues that were empty, and returns that.
func (s *Switch) Forward(now vtime.Time, from int, h *virtio.NetHdr, iov [][]byte, woken []Target) []Target {
	n, front := s.look(iov)
	s.ports[from].stats.In++
	if n < frame.EthernetLen {
		s.stats.Short++
		return woken
	}
	eth := frame.Ethernet(front)
	if src := eth.Src(); !src.IsMulticast() {
		s.learn(now, src, from)
	}
	hash := flowHash(front)
	if dst := eth.Dst(); !dst.IsMulticast() {
		if to, known := s.table.find(dst, now.Add(-s.cfg.Age)); known {
			if to == from {
				s.stats.Returned++
				return woken
			}
			s.stats.Known++
			return s.queue(to, hash, h, iov, n, woken)
		}
	}
	s.stats.Flooded++
	for to := range s.ports {
		if to != from {
			woken = s.queue(to, hash, h, iov, n, woken)
		}
	}
	return woken
}

// look returns the length of a frame and its first bytes in one piece.
func (s *Switch) look(iov [][]byte) (n int, front []byte) {
	for _, b := range iov {
		n += len(b)
	}
	if len(iov) > 0 && (len(iov[0]) == n || len(iov[0]) >= len(s.front)) {
		return n, iov[0]
	}
	front = s.front[:0]
	for _, b := range iov {
		front = append(front, b[:min(len(b), len(s.front)-len(front))]...)
	}
	return n, front
}

// flowHash spreads flows over the queues of a port.
func flowHash(front []byte) uint32 {
	var in frame.Info
	frame.Parse(front, &in)
	return frame.FlowHash(front, &in)
}

// queue puts a frame into a queue of a port.
func (s *Switch) queue(to int, hash uint32, h *virtio.NetHdr, iov [][]byte, n int, woken []Target) []Target {
	p := &s.ports[to]
	if len(p.up) == 0 {
		p.stats.Down++
		return woken
	}
	i := p.up[hash%uint32(len(p.up))]
	q := p.queues[i]
	if !q.Fits(n) {
		p.stats.Full++
		return woken
	}
	if q.Len() == 0 {
		woken = append(woken, Target{to, i})
	}
	q.Put(h, iov, n)
	p.stats.Out++
	return woken
}

// Take removes the first frame of a queue and returns it in scratch, which grows
// to what was needed once; false if there is none.
func (s *Switch) Take(p, queue int, h *virtio.NetHdr, scratch *[]byte) ([]byte, bool) {
	q := s.ports[p].queues[queue]
	if q.Len() == 0 {
		return nil, false
	}
	return q.Pop(h, scratch), true
}

func (s *Switch) learn(now vtime.Time, src frame.MAC, from int) {
	switch s.table.learn(src, from, now, now.Add(-s.cfg.Age)) {
	case isNew:
		s.stats.Learned++
	case hasMoved:
		s.stats.Moved++
	case hasEvicted:
		s.stats.Learned++
		s.stats.Evicted++
	}
}
