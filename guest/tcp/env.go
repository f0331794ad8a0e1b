package tcp

import (
	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Env is what a socket sees of the world below and around it. A composer
// implements it; one value may serve many sockets. Its methods are called only
// from inside a call of the socket, and none of them may block.
type Env interface {
	// Now reads the clock of the CPU that runs the current code. The socket
	// calls it exactly where Linux reads the clock, because a read may cost time
	// (vcpu.OpClockRead in process context).
	Now() vtime.Time
	// Local is the same time without a clock read. The socket uses it where
	// Linux looks at jiffies, and to stamp packets for traces.
	Local() vtime.Time
	// Charge counts n units of work of a kind, and lets the CPU's local time
	// advance by what the cost table says.
	Charge(op vcpu.Op, n int64)
	// Transmit hands a packet to the queueing discipline, at once and for good:
	// the packet belongs to the callee whatever it answers. The layers below may
	// orphan or free it before Transmit returns. False means that it was dropped
	// locally, before any queue took it (NET_XMIT_DROP).
	Transmit(s *Sock, p *skb.SKB) bool
	// QueueTSQ puts the socket on the current CPU's TSQ tasklet. The composer
	// calls Sock.TSQ later, once for each QueueTSQ.
	QueueTSQ(s *Sock)
	// WriteSpace says that a writer which sleeps for send buffer space may run.
	WriteSpace(s *Sock)
}

// BottomHalves is what an Env has besides if a process of its guest can be
// interrupted: it keeps softirqs off while the code that runs must not be, and
// lets those that were raised run at the end (local_bh_disable, v6.1). Where a
// socket takes its lock or gives it back, softirqs get their chance.
type BottomHalves interface {
	DisableBH()
	EnableBH()
	// InDaemon reports whether softirqs run in ksoftirqd now: the system is busy,
	// and a small queue is not filled up before it is empty (tcp_wfree, v4.9).
	InDaemon() bool
}

// noBH is the bottom halves of an Env without them.
type noBH struct{}

func (noBH) DisableBH() {}
func (noBH) EnableBH()  {}

func (noBH) InDaemon() bool { return false }

// WriteFlags modify one Write.
type WriteFlags uint8

const (
	// Continue says that this call goes on with a Write that accepted less than
	// it was given, after Env.WriteSpace: the same system call after its sleep.
	Continue WriteFlags = 1 << iota
	// More is MSG_MORE: more data follows at once, do not send a short segment.
	More
	// EOR is MSG_EOR (v4.7 and later): the last byte ends a record, so that
	// nothing is appended to its packet.
	EOR
)

// Handshake is what the connection learnt while it was set up.
type Handshake struct {
	RTTUs  int64  // round trip of the SYN, or of the SYN-ACK on the side that accepts, µs; 0: not known
	Window uint32 // the window that the peer offers, bytes
	SACK   bool   // selective acknowledgements were agreed on
	ECN    bool   // congestion marks were agreed on
}

// Range is a run of sequence numbers, from Start up to but not including End.
type Range struct{ Start, End uint32 }

// Ack is one incoming segment without data, as the receive path reads it.
type Ack struct {
	Ack   uint32  // acknowledgement number
	Wnd   uint32  // offered window in bytes, the scale already applied
	Sacks []Range // selective acknowledgements, most recent first; borrowed for the call
	TSVal uint32  // timestamp option, the peer's clock; 0 if absent
	TSEcr uint32  // timestamp option, our clock in ms; 0 if absent
	ECE   bool    // the peer echoes a congestion mark
}
