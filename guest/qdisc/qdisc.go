// Package qdisc is what the simulated guest has between TCP and a transmit
// queue of the driver: the queueing discipline and the code that empties it
// (dev_queue_xmit, qdisc_run and software segmentation). It is without clock,
// goroutines and locks, and sends no notification: a step returns what the
// driver asked for, and the composer does it before the next step.
//
// A composer sends a packet like this:
//
//	o := q.Xmit(cpu.Now(), cpu.ID, p)
//	for {
//		// charge and send the kick if o.Kick, raise the TX poll if o.Poll
//		if !o.More {
//			break
//		}
//		o = q.Run(cpu.Now())
//	}
//	q.Release(cpu.Now())
//	// raise the softirq if o.Resched, post the hand-off if o.Handoff
package qdisc

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Verdict is what a driver's transmit function says about a packet.
type Verdict struct {
	Busy bool // no room: the packet was not taken (NETDEV_TX_BUSY)
	Kick bool // the device wants to be notified
	Poll bool // completions are there already: schedule the queue's TX poll
}

// Dev is a transmit queue of a driver.
type Dev interface {
	// Xmit gives the driver a packet, which is then the driver's unless the
	// verdict is Busy. more says that another packet follows at once.
	Xmit(now vtime.Time, p *skb.SKB, more bool) Verdict
	// Stopped reports whether the driver or its byte limit wants no packet.
	Stopped() bool
	// BulkBytes returns how many bytes may be dequeued for one batch: what the
	// byte queue limit leaves, 0 for a driver without one (qdisc_avail_bulklimit,
	// v6.1).
	BulkBytes() int64
}

// Kind is a queueing discipline.
type Kind uint8

// The disciplines.
const (
	PFIFOFast Kind = iota // three bands by TOS, drop-tail
	NoQueue               // no queue: a packet that finds the driver stopped is dropped
)

// ErrUnknownKind is returned for a name that no discipline has.
var ErrUnknownKind = errors.New("unknown queueing discipline")

var kindNames = [...]string{"pfifo_fast", "noqueue"}

// String is the discipline's name as tc(8) has it.
func (k Kind) String() string { return kindNames[k] }

// ParseKind returns the discipline called name, or an error that wraps
// ErrUnknownKind and lists those that exist.
func ParseKind(name string) (Kind, error) {
	for i, n := range kindNames {
		if n == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("%w %q: there are %v", ErrUnknownKind, name, kindNames)
}

// DefaultLimit is the queue length in packets of a network device
// (txqueuelen, net/ethernet/eth.c ether_setup, all releases).
const DefaultLimit = 1000

// DefaultQuota is how many packets one run of the queue sends before it goes on
// in a softirq (weight_p, net/core/dev.c, all releases).
const DefaultQuota = 64

// Config describes a TxQ. The zero value is pfifo_fast of a kernel before 3.18.
type Config struct {
	Kind  Kind
	Limit int // packets; 0 means DefaultLimit
	Quota int // packets per run; 0 means DefaultQuota
	// NoBypass makes even a packet that finds the queue empty go through it, as
	// the lockless pfifo_fast of 4.16 to 5.13 does.
	NoBypass bool
	// Bulk lets one run dequeue several packets, as far as the driver's BulkBytes
	// reach, and tell the driver that more follow (since 3.18).
	Bulk bool
	// SoftGSO cuts packets of several segments before they reach the driver
	// (validate_xmit_skb): the device has no segmentation offload.
	SoftGSO bool
}

func (c Config) withDefaults() Config {
	if c.Limit <= 0 {
		c.Limit = DefaultLimit
	}
	if c.Quota <= 0 {
		c.Quota = DefaultQuota
	}
	return c
}

// Stats count what a TxQ did.
type Stats struct {
	Packets    uint64 // given to the driver, after segmentation
	Bytes      uint64 // of these, with headers
	Bypassed   uint64 // packets that found the queue empty and went around it
	Dropped    uint64 // packets refused by a full queue, or by noqueue in front of a stopped driver
	Requeued   uint64 // times the driver stopped with a packet in hand
	Segmented  uint64 // packets cut in software
	Contended  uint64 // packets queued because another CPU held the queue
	Rescheds   uint64 // runs that used up their quota
	BacklogMax int    // most packets queued at once
}

// TxQ is a queueing discipline in front of one transmit queue. It is not safe
// for concurrent use; that several CPUs share it is modelled by time.
type TxQ struct {
	Stats Stats

	cfg   Config
	dev   Dev
	meter vcpu.Meter
	pool  *skb.Pool // segments come from here

	bands [bands]list
	n     int  // packets in bands
	batch list // dequeued, next for the driver: the kernel's gso_skb and its local list

	inHand  bool // the batch's first packet was counted as requeued
	quota   int  // left of this run
	holder  int  // CPU that ran the queue last
	until   vtime.Time
	handoff bool // the holder was asked to come back
}

// New returns an empty queue in front of dev. Work is counted on meter; pool
// provides the buffers of segments.
func New(dev Dev, meter vcpu.Meter, pool *skb.Pool, cfg Config) *TxQ {
	return &TxQ{cfg: cfg.withDefaults(), dev: dev, meter: meter, pool: pool}
}

// Len returns the packets that wait, those in front of a stopped driver
// included.
func (q *TxQ) Len() int { return q.n + q.batch.n }
