// Package skb is the packet buffer that the parts of the simulated guest hand
// to each other: the TCP sender fills it, the queueing discipline keeps it, the
// driver puts it on a ring. It plays the role of the clone that the kernel
// makes of an sk_buff for transmission. It is without payload bytes, clock or
// allocation policy: payload is named by address, and a Pool recycles buffers.
package skb

import "github.com/vnetbench/vnetbench/virtio/vtime"

// MaxFrags is the most payload fragments of a buffer: MAX_SKB_FRAGS with 4 KiB
// pages (include/linux/skbuff.h, v6.1).
const MaxFrags = 17

// MaxHeader is the room for the frame's headers: Ethernet with a VLAN tag,
// IPv6 and a TCP header with 40 bytes of options, and the kernel's BIG TCP
// hop-by-hop header.
const MaxHeader = 14 + 4 + 40 + 8 + 60

// TCP header flags, in wire order (RFC 9293 §3.1).
const (
	FIN uint8 = 0x01
	SYN uint8 = 0x02
	RST uint8 = 0x04
	PSH uint8 = 0x08
	ACK uint8 = 0x10
	ECE uint8 = 0x40
	CWR uint8 = 0x80
)

// Frag is a run of payload bytes, at an address of the payload arena (an
// offset from its start; the driver adds the arena's guest physical address).
type Frag struct {
	Addr uint64
	Len  uint32
}

// Owner is told when nobody below TCP holds the buffer any more: when the
// driver orphans it or frees it after completion (the kernel's destructor,
// tcp_wfree). It is called at most once per buffer.
type Owner interface {
	Freed(p *SKB)
}

// SKB is one packet on its way down. Whoever holds it owns it; Free ends the
// journey. It is not safe for concurrent use.
type SKB struct {
	Owner    Owner      // charged for TrueSize until orphaned or freed; nil if nobody is
	Flow     int32      // the sender's index of the flow
	Queue    int32      // transmit queue, chosen before the qdisc
	Hash     uint32     // flow hash (skb->hash), for queue choice and fq
	Seq      uint32     // TCP sequence number of the first payload byte
	Ack      uint32     // TCP acknowledgement number
	Len      int32      // payload bytes
	Segs     int32      // TCP segments (gso_segs), 1 if not GSO
	GSOSize  int32      // payload bytes of a segment; 0 if not GSO
	TrueSize int32      // bytes charged to the owner
	Flags    uint8      // TCP flags
	Retrans  bool       // a retransmission
	Rule     uint8      // why the sender cut the packet here (tcp.Rule), for traces
	Tstamp   vtime.Time // earliest departure time (EDT); 0 if none
	Born     vtime.Time // when TCP handed it down, for traces

	HdrLen int32           // bytes of Hdr in use
	NFrags int32           // entries of Frags in use
	Next   *SKB            // link of whoever holds it: qdisc lists, the driver's backlog
	pool   *Pool           // where it came from; nil: nowhere
	Hdr    [MaxHeader]byte // Ethernet, IP and TCP headers, ready for the wire
	Frags  [MaxFrags]Frag  // payload
}

// Orphan takes the charge off the owner while the packet lives on, as
// skb_orphan does (virtio_net without napi_tx, start_xmit, v6.1).
func (p *SKB) Orphan() {
	if o := p.Owner; o != nil {
		p.Owner = nil
		o.Freed(p)
	}
}

// Free orphans the buffer and returns it to its pool. The caller must not use
// it afterwards.
func (p *SKB) Free() {
	p.Orphan()
	if p.pool != nil {
		p.pool.put(p)
	}
}

// Pool recycles buffers, so that a packet costs no allocation in the steady
// state. The zero value is ready. It is not safe for concurrent use.
type Pool struct {
	free *SKB
	// Live is the number of buffers taken and not yet freed: a leak check.
	Live int
}

// Get returns a buffer with every field zero but the bytes of Hdr and the
// entries of Frags, which are stale.
func (q *Pool) Get() *SKB {
	q.Live++
	p := q.free
	if p == nil {
		return &SKB{pool: q}
	}
	q.free = p.Next
	p.reset()
	return p
}

func (q *Pool) put(p *SKB) {
	q.Live--
	p.Next = q.free
	q.free = p
}

func (p *SKB) reset() {
	p.Owner, p.Next = nil, nil
	p.Flow, p.Queue, p.Hash = 0, 0, 0
	p.Seq, p.Ack, p.Len, p.Segs, p.GSOSize, p.TrueSize = 0, 0, 0, 0, 0, 0
	p.Flags, p.Retrans, p.Rule = 0, false, 0
	p.Tstamp, p.Born = 0, 0
	p.HdrLen, p.NFrags = 0, 0
}
