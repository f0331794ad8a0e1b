package vhost

import (
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// SendCost is time that a pair's worker is busy with each frame that the guest
// sends, beside what the port takes: that of a slower host, so that a guest can be
// seen behind one. The zero value is none.
type SendCost struct {
	Base  time.Duration // for a frame, whatever its length
	PerKB time.Duration // for each 1000 bytes of it, net header included
}

// of is the time for a frame of n bytes without its net header.
func (c SendCost) of(n int) time.Duration {
	return c.Base + time.Duration(int64(n+virtio.NetHdrLen)*int64(c.PerKB)/1000)
}

// longestSpin is up to where a worker spends the time in a loop. Longer times it
// sleeps, to whatever is left of them: it does nothing else meanwhile, as one that
// is busy on a CPU of its own, but leaves the CPU that it runs on to the guest,
// which may have no other.
const longestSpin = 20 * time.Microsecond

// spender is a port that takes time for each frame. The thread is its worker's,
// so nothing else is held up.
type spender struct {
	netdev.Port
	cost SendCost
}

// spend returns the port as the device sees it.
func (c SendCost) spend(p netdev.Port) netdev.Port {
	if c == (SendCost{}) {
		return p
	}
	return &spender{p, c}
}

// Send spends the time when the port has taken the frame, before its buffers are
// given back.
func (s *spender) Send(now vtime.Time, h *virtio.NetHdr, iov [][]byte, tok netdev.Token) (vtime.Time, netdev.SendResult) {
	done, r := s.Port.Send(now, h, iov, tok)
	if r == netdev.Full {
		return done, r
	}
	busy(s.cost.of(netdev.FrameLen(iov)))
	return done, r
}

// busy keeps the calling thread for d.
func busy(d time.Duration) {
	until := time.Now().Add(d)
	if d > longestSpin {
		osio.SleepUntil(until)
		return
	}
	for time.Now().Before(until) {
	}
}

// Offloads are those of the port.
func (s *spender) Offloads() virtio.Features { return offloads(s.Port) }
