package link

import (
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Segment is what arrives: one TCP segment, or a packet of several that nobody
// cut (a GSO packet on the way to a local socket).
type Segment struct {
	Seq   uint32 // of the first payload byte
	Len   int32  // payload bytes
	MSS   int32  // payload bytes of a segment if there are several; 0 for one segment
	TSVal uint32 // timestamp option of the sender
	TSEcr uint32 // the receiver's timestamp in it, less TSOffset; 0: none
	PSH   bool
	FIN   bool
	CE    bool // congestion was marked on the way
	CWR   bool // the sender answered to ECE

	TrueSize int32 // what a socket is charged for the packet; 0: its payload
	HeadSize int32 // of TrueSize, what the head takes if the payload is in fragments only
	Frags    int32 // fragments that its payload is in; 0: one
}

// timestampLen is what the timestamp option takes of a segment.
const timestampLen = 12

// Range is a run of sequence numbers, from Start up to but not including End.
type Range struct{ Start, End uint32 }

// MaxSACK is the number of blocks that fit beside a timestamp option.
const MaxSACK = 3

// Ack is an acknowledgement that the receiver sends.
type Ack struct {
	Ack    uint32 // next sequence number expected
	Wnd    uint32 // window in bytes, a multiple of 1<<WindowScale
	TSVal  uint32 // the receiver's clock, ms
	TSEcr  uint32 // echo of the sender's
	ECE    bool
	NSacks int
	Sacks  [MaxSACK]Range // the first NSacks count, most recent first
}

// ReceiverConfig describes the receiving end of one flow. The zero value of a
// field is its default.
type ReceiverConfig struct {
	ISS           uint32        // sequence number of the first payload byte expected
	MSS           int32         // advertised MSS less the timestamp option; 0 means 1448
	InitialWindow uint32        // bytes; 0 means 65160: 45 segments of 1448
	WindowMax     uint32        // bytes to which the window grows; 0 means 3 MiB, half of the default tcp_rmem[2]
	WindowScale   uint8         // shift of the window field, at most 14
	ReadDelay     time.Duration // from the arrival of data to the start of the application's read
	ReadTime      time.Duration // of a read; what comes meanwhile waits for its end
	// QuickWindow is the window in bytes up to which every packet that makes the
	// window grow is acknowledged at once; 0 means WindowMax. See AckRules.
	QuickWindow uint32
	GRO         GROConfig
	Rules       AckRules
	TSOffset    uint32 // added to the receiver's timestamp clock
	// Buffer bounds the window by the memory that packets take, instead of
	// WindowMax and QuickWindow; the zero value does not.
	Buffer BufferConfig
	// Process says that the composer is the process that reads: see Lock. ReadDelay
	// and ReadTime do not count then.
	Process bool
}

// AckRules are the parts of the acknowledgement rules that differ between
// kernels. The zero value is a kernel before v4.18.
type AckRules struct {
	// CompressSACK delays duplicate acknowledgements after the third
	// (tcp_comp_sack_nr, v4.18).
	CompressSACK bool
	// PushedMSS sees the end of a write in a full-size segment with PSH, and
	// acknowledges it when it was read (tcp_measure_rcv_mss, v6.6 and 6.1.192).
	PushedMSS bool
	// BacklogDefer sends one acknowledgement for all packets that came while the
	// application was inside a read (tcp_backlog_ack_defer, v6.7).
	BacklogDefer bool
	// Retuned is the tuning of buffers in 6.12.117: what was not read yet counts
	// against what was read in a round trip, packets ahead of a gap are measured
	// too, and a round trip of no time is none.
	Retuned bool
}

// RulesOf returns the rules of a kernel release such as 6.12, and the window up
// to which it acknowledges every packet at once, 0 for all of its growth.
//
// The window is measured: with tcp_rmem[1] = 6 MiB a 6.1.192 acknowledges 1080
// packets at once, which is what it takes for the window to grow from 65160 to
// 3 MiB by two segments each, and 16 more; a 6.12.117 stops after about 25 and
// 16, at a window of 137,000.
func RulesOf(major, minor int) (r AckRules, quickWindow uint32) {
	v := major*1000 + minor
	r = AckRules{CompressSACK: v >= 4018, PushedMSS: v >= 6006 || v == 6001, BacklogDefer: v >= 6007, Retuned: v >= 6012}
	if v >= 6006 {
		quickWindow = 137000
	}
	return r, quickWindow
}

func (c ReceiverConfig) withDefaults() (ReceiverConfig, error) {
	if c.MSS == 0 {
		c.MSS = 1448
	}
	if c.InitialWindow == 0 {
		c.InitialWindow = 65160
	}
	if c.WindowMax == 0 {
		c.WindowMax = max(3<<20, c.InitialWindow)
	}
	if c.QuickWindow == 0 {
		c.QuickWindow = c.WindowMax
	}
	switch {
	case c.MSS < 88 || c.MSS > 65535:
		return c, fmt.Errorf("%w: MSS %d, want 88 to 65535", ErrConfig, c.MSS)
	case c.WindowScale > 14:
		return c, fmt.Errorf("%w: window scale %d, at most 14", ErrConfig, c.WindowScale)
	case c.WindowMax < c.InitialWindow || c.WindowMax > 1<<30:
		return c, fmt.Errorf("%w: window grows to %d, want at least the initial %d and at most 1 GiB", ErrConfig, c.WindowMax, c.InitialWindow)
	case c.ReadDelay < 0 || c.ReadTime < 0:
		return c, fmt.Errorf("%w: read delay %v and time %v must not be negative", ErrConfig, c.ReadDelay, c.ReadTime)
	}
	return c, nil
}

// ReceiverStats count what a receiver saw and did.
type ReceiverStats struct {
	Segments   uint64 // TCP segments that arrived, those inside packets counted
	Packets    uint64 // packets handed to TCP, after GRO
	Bytes      uint64 // payload delivered in order: what the application reads
	Duplicate  uint64 // payload bytes that were there already
	Acks       uint64
	DelayedAck uint64 // sent by the delayed ACK timer
	DupAcks    uint64 // sent for packets out of order
	Compressed uint64 // duplicate acknowledgements that were put off
	OutOfOrder uint64 // packets that came ahead of a gap
	Overrun    uint64 // packets beyond the window, dropped
}

// Receiver is the receiving end of one flow: a Linux TCP receiver whose
// application reads all there is. It is not safe for concurrent use.
//
// A composer calls Receive for what arrives, and Step when Next says so, and
// takes the acknowledgements with Pop after either.
//
// Deviation: without ReceiverConfig.Buffer the window simply grows by two segments
// per packet up to WindowMax. Memory is never short.
type Receiver struct {
	Stats ReceiverStats

	// what every packet needs
	next      uint32 // rcv_nxt
	acked     uint32 // rcv_wup: next at the last ACK
	read      uint32 // copied_seq
	wnd       uint32 // window at the last ACK, counted from acked
	thresh    uint32 // rcv_ssthresh
	recent    uint32 // ts_recent
	ece       bool
	fin       bool  // all came, FIN included
	finAhead  bool  // a FIN came, but not all before it
	answers   bool  // the program answers: acknowledgements ride on what it sends
	reading   bool  // a read that takes time is under way
	deferring bool  // acknowledgements wait for the end of the backlog
	deferred  bool  // one does
	locked    bool  // a process has the socket
	dsack     Range // duplicate to report
	dupacks   int   // sent at once since next moved, at most dupThreshold
	ack       ackState
	readAt    vtime.Time
	sackAt    vtime.Time // end of SACK compression
	busy      vtime.Time // end of the read
	gro       gro
	cfg       ReceiverConfig
	out       []Ack // not popped yet, from outHead on
	outHead   int
	ofo       []Range // out of order, ascending
	buf       buffer

	tune    tuner
	blocks  sackList
	held    []heldPacket  // out of order, with Process, ascending
	putBack int           // acknowledgements put off since the last one was sent
	finEnd  uint32        // number after the FIN
	backlog []Segment     // came during the read
	queue   []packet      // with Process: what waits to be read
	copied  bool          // the process that has the socket has taken something
	done    int           // backlog entries that were processed
	spliced int           // and those before which nothing is merged
	rtt     time.Duration // of the handshake; 0 if not known
}

// NewReceiver returns a receiver of an established flow. The error wraps
// ErrConfig.
func NewReceiver(cfg ReceiverConfig) (*Receiver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		cfg: cfg, next: cfg.ISS, acked: cfg.ISS, read: cfg.ISS,
		wnd: cfg.InitialWindow, thresh: cfg.InitialWindow,
		readAt: vtime.Never, sackAt: vtime.Never, busy: vtime.Never,
		out: make([]Ack, 0, 4),
	}
	if cfg.Buffer.Size > 0 {
		r.thresh = r.buf.init(cfg.Buffer, cfg.MSS, cfg.InitialWindow)
		r.tune.init(r.thresh, cfg.InitialWindow, uint32(cfg.MSS))
	}
	r.ack.init(cfg.MSS, cfg.InitialWindow)
	r.gro.init(&cfg.GRO)
	return r, nil
}

// Receive takes what arrives at now, through GRO if it is configured. It reports
// whether the segment has only joined a batch that GRO gathers: then Pop, Next and
// Stats but for their segments are as they were.
func (r *Receiver) Receive(now vtime.Time, s *Segment) (joined bool) {
	r.Stats.Segments += uint64(s.segs())
	if !r.gro.on || s.MSS != 0 {
		r.flush(now) // what a device cut itself is not merged, and keeps its order
		r.input(now, s)
		return false
	}
	if joined = r.gro.merge(s); !joined {
		r.flush(now)
		r.gro.hold(now, s)
	}
	if r.gro.complete() {
		r.flush(now)
		return false
	}
	return joined
}

// Next returns when to call Step: for the end of a GRO batch, a read, a delayed
// ACK or the end of SACK compression; vtime.Never if nothing is due.
func (r *Receiver) Next() vtime.Time {
	return min(r.gro.until, r.readAt, r.busy, r.sackAt, r.ack.timer)
}

// Step does what is due at now.
func (r *Receiver) Step(now vtime.Time) {
	if r.gro.until <= now {
		r.flush(now)
	}
	if r.busy <= now {
		r.endRead(now)
	}
	if r.readAt <= now {
		r.startRead(now)
	}
	if r.sackAt <= now {
		r.sendAck(now)
	}
	if r.ack.timer <= now {
		r.delayedAck(now)
	}
}

// Pop takes the oldest acknowledgement that was not taken yet.
func (r *Receiver) Pop(a *Ack) bool {
	if r.outHead == len(r.out) {
		return false
	}
	*a = r.out[r.outHead]
	if r.outHead++; r.outHead == len(r.out) {
		r.out, r.outHead = r.out[:0], 0
	}
	return true
}

// Answer is the acknowledgement in a packet that the receiver's program sends.
// From the first one on the receiver leaves what it would acknowledge quickly to
// the next (inet_csk_enter_pingpong_mode, v6.1). It is not among those of Pop.
func (r *Receiver) Answer(now vtime.Time) Ack {
	r.answers = true
	r.sendAck(now)
	a := r.out[len(r.out)-1]
	r.out = r.out[:len(r.out)-1]
	return a
}

// Finished reports whether the sender's FIN has been acknowledged.
func (r *Receiver) Finished() bool { return r.fin && r.acked == r.next }

// Expected returns the next sequence number that the receiver waits for.
func (r *Receiver) Expected() uint32 { return r.next }

func (s *Segment) segs() int32 {
	if s.MSS <= 0 {
		return 1
	}
	return (s.Len + s.MSS - 1) / s.MSS
}

func (r *Receiver) flush(now vtime.Time) {
	if s := r.gro.take(); s != nil {
		r.input(now, s)
	}
}
