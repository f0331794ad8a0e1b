package tcp

import "github.com/vnetbench/vnetbench/guest/tcp/cc"

// Counters count what a socket did since it was made. All are totals; the unit
// is one event unless the comment says otherwise.
type Counters struct {
	Writes       uint64           // system calls
	WriteBytes   uint64           // bytes accepted from the application
	Packets      uint64           // packets with data handed down, retransmissions included
	Segs         uint64           // segments in them
	Bytes        uint64           // payload bytes in them
	Acks         uint64           // acknowledgements received
	BytesAcked   uint64           // payload bytes acknowledged
	Sleeps       uint64           // writes that had to wait for send buffer space
	Splits       uint64           // queue entries cut in two
	Grows        uint64           // queue entries lengthened from their follower (v6.10)
	TSQRuns      uint64           // runs of the TSQ tasklet
	Throttled    uint64           // times TSQ stopped a pass and asked for a wake-up
	Deferred     uint64           // times TSO deferral stopped the write loop
	Stops        [NumStops]uint64 // passes of the write loop by the reason they ended
	Cuts         [NumRules]uint64 // packets by the rule that bounded them
	RetransPkts  uint64           // retransmitted packets
	RetransSegs  uint64           // retransmitted segments
	RetransBytes uint64           // retransmitted payload bytes
	Dropped      uint64           // packets that the layer below refused
	BadAcks      uint64           // acknowledgements of data never sent, ignored
	OldAcks      uint64           // acknowledgements below the left edge, ignored
	Autocork     uint64           // TCPAutoCorking: pushes left to a completion
	ForcedPush   uint64           // pushes because half the peer's window is unpushed
	FastRecovery uint64           // entries into fast recovery
	Timeouts     uint64           // retransmission timeouts
	Undos        uint64           // window reductions taken back because nothing was lost
	TLPs         uint64           // tail loss probes
	ZeroProbes   uint64           // zero window probes
	IdleRestarts uint64           // window reductions after idle time
	Backlogged   uint64           // acknowledgements that waited for the socket's user
}

// Info is a snapshot of a socket, after TCP_INFO.
type Info struct {
	State      cc.State
	Cwnd       uint32   // segments
	Ssthresh   uint32   // segments
	InFlight   uint32   // segments in the network
	PacketsOut uint32   // segments sent and not acknowledged cumulatively
	SRTTUs     uint32   // smoothed round trip time, µs
	RTTVarUs   uint32   // mean deviation, µs
	MinRTTUs   uint32   // windowed minimum, µs; all ones: no sample yet
	RTOUs      uint32   // retransmission timeout, µs
	SndWnd     uint32   // the peer's window, bytes
	Sndbuf     uint32   // send buffer limit, bytes of truesize
	WmemQueued uint32   // truesize of what is queued, sent or not
	WmemAlloc  uint32   // truesize of what is below TCP
	Unsent     uint32   // payload bytes not yet sent
	Unacked    uint32   // payload bytes sent and not acknowledged
	PacingRate uint64   // bytes/s; Unlimited if there is none
	SizeGoal   uint32   // payload bytes at which a queue entry is full
	TSOSegs    uint32   // segments per packet that autosizing allows now; 0 if the kernel has none
	Model      cc.Model // what congestion control thinks of the path, if it sets the rate
	Counters   Counters
}
