package vhost

import (
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Port is the host's side of one queue pair: where the frames that the guest
// sends go, and where those that it receives come from. It is an open queue of
// a tap, or a sink.
//
// A port has one caller at a time. While a session runs that is the pair's
// worker, on its own OS thread; the data path methods (Send, Flush, Receive)
// are called by nobody else. No method may block. Close is called by whoever
// opened the port, never by a worker or a server: a port outlives a session.
type Port interface {
	netdev.Port

	// Negotiated tells the port which features the guest has acknowledged,
	// before the first frame of a session, again when they change, and with
	// fewer guest offloads when the guest switches some off by the control
	// queue. A tap turns them into offloads: frames that it delivers may only
	// use what GUEST_CSUM, GUEST_TSO4, GUEST_TSO6 and GUEST_ECN allow.
	Negotiated(acked virtio.Features) error

	// Enable says whether the guest can receive on this pair: its RX ring is
	// started and enabled. A port that shares a source of frames with others
	// (one queue of a multi-queue tap) takes itself out of the choice while it
	// is not. Enabling what is enabled already is no error. A port starts
	// disabled.
	Enable(on bool) error

	// RxFD is the descriptor that is readable when frames wait, or -1 for a
	// port that never has any. Its number may not change while a session runs.
	RxFD() int

	// TxFD is the descriptor that is writable when Send may succeed after it
	// answered Full, or -1 for a port that never answers so.
	TxFD() int

	// Receive moves frames from the source into the guest's RX ring, at most
	// budget of them, with rx.Deliver or rx.Reserve and rx.Commit. n counts the
	// frames taken from the source, whether they were delivered or dropped.
	// more is true if it stopped for the budget. It leaves frames in the source
	// while the guest has no buffers: when a Reserve fails it returns, and while
	// rx.Starved is true it is not called again before the guest has posted
	// some. An error ends the session: the source is gone, or the system call
	// found guest memory truncated (it then wraps unix.EFAULT).
	Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error)

	// Err is the first error that Send or Flush met and that is not about one
	// frame: the interface is gone, or guest memory was truncated (it wraps
	// unix.EFAULT). It is nil while the port works, and it is cleared by
	// Negotiated.
	Err() error

	// Close releases what the port holds.
	Close() error
}

// Holder is a Port whose Send may answer Later: it keeps the guest's buffers.
type Holder interface {
	Port

	// Settle gives the frames that are done back by tx.Complete, and returns
	// how many the port still keeps. The worker calls it once in each turn of
	// its loop. Before a ring is let go it waits, for DrainTime at most, until
	// the port keeps none; from then on the port must not touch the buffers of
	// frames that it kept.
	Settle(now vtime.Time, tx *netdev.TX) (kept int)

	// DoneFD is the descriptor that is readable while frames are done that
	// Settle has not given back.
	DoneFD() int
}
