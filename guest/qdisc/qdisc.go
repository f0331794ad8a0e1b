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
//	// look at q.Next: a discipline that holds packets back may have set its watchdog
//
// When the watchdog's time comes it calls Restart, and goes on as above.
//
// The disciplines are also there on their own, for a router: see Disc and
// NewDisc. What each of them does is told at its type, from the sources of v6.1
// (6.1.192) and v6.12 (6.12.117); where the two agree, one text serves for both.
//
// The time that a step is called with is the time of every clock read in it. In
// the kernel too, reads there take none in virtual time: software interrupts are
// off from before the queue is looked at until after the driver returned
// (__dev_queue_xmit, v6.1).
package qdisc

import (
	"errors"
	"fmt"
	"strings"

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
	FQ                    // fair queue with pacing
	FQCodel               // fair queue with CoDel
	TBF                   // token bucket
	Netem                 // delay and rate
)

// ErrUnknownKind is returned for a name that no discipline has.
var ErrUnknownKind = errors.New("unknown queueing discipline")

var kindNames = [...]string{"pfifo_fast", "noqueue", "fq", "fq_codel", "tbf", "netem"}

// String is the discipline's name as tc(8) has it.
func (k Kind) String() string { return kindNames[k] }

// ParseKind returns the discipline called name, or an error that wraps
// ErrUnknownKind, names the nearest and lists those that exist.
func ParseKind(name string) (Kind, error) {
	for i, n := range kindNames {
		if n == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("%w %q%s: there are %s", ErrUnknownKind, name, didYouMean(name, kindNames[:]),
		strings.Join(kindNames[:], ", "))
}

// MarshalText is the discipline's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKind. A leading "mq ", which says that every transmit
// queue has a discipline of its own, makes no difference to one of them.
func (k *Kind) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKind(strings.TrimPrefix(string(b), "mq "))
	return err
}

// DefaultLimit is the queue length in packets of a network device
// (txqueuelen, net/ethernet/eth.c ether_setup, all releases).
const DefaultLimit = 1000

// DefaultQuota is how many packets one run of the queue sends before it goes on
// in a softirq (weight_p, net/core/dev.c, all releases).
const DefaultQuota = 64

// Config describes a TxQ. The zero value is pfifo_fast of a kernel before 3.18.
type Config struct {
	Kind  Kind // for New: PFIFOFast or NoQueue; others have parameters, see NewFrom
	Limit int  // for New: packets; 0 means DefaultLimit
	Quota int  // packets per run; 0 means DefaultQuota
	// NoBypass makes even a packet that finds the queue empty go through it, as
	// the lockless pfifo_fast of 4.16 to 5.13 does.
	NoBypass bool
	// Bulk lets one run dequeue several packets, as far as the driver's BulkBytes
	// reach, and tell the driver that more follow (since 3.18). Deviation: what the
	// driver leaves of a batch is sent one by one later, as since 4.16.
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
	Dropped    uint64 // packets refused by the discipline, or by noqueue in front of a stopped driver
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
	split splitter

	disc  Disc
	batch skb.List // dequeued, next for the driver: the kernel's gso_skb and its local list

	again   int  // packets of the batch that were put back
	inHand  bool // the batch's first packet was counted as requeued
	quota   int  // left of this run
	holder  int  // CPU that ran the queue last
	until   vtime.Time
	handoff bool // the holder was asked to come back
}

// New returns an empty queue in front of dev, with the discipline that cfg names,
// which is one without other parameters than a limit. Work is counted on meter;
// pool provides the buffers of segments.
func New(dev Dev, meter vcpu.Meter, pool *skb.Pool, cfg Config) *TxQ {
	spec := Spec{Kind: cfg.Kind, Limit: int64(cfg.withDefaults().Limit)}
	q, err := NewFrom(dev, meter, pool, cfg, spec)
	if err != nil {
		panic("qdisc: a discipline with parameters needs NewFrom: " + err.Error())
	}
	return q
}

// NewFrom is New with the discipline that spec describes, whatever cfg.Kind and
// cfg.Limit say. An error wraps ErrUnknownKind or ErrSpec.
func NewFrom(dev Dev, meter vcpu.Meter, pool *skb.Pool, cfg Config, spec Spec) (*TxQ, error) {
	d, err := NewDisc(spec, meter, pool)
	if err != nil {
		return nil, err
	}
	cfg.Kind = d.Kind()
	return &TxQ{cfg: cfg.withDefaults(), dev: dev, meter: meter, split: splitter{meter, pool}, disc: d}, nil
}

// Len returns the packets that wait, those in front of a stopped driver
// included.
func (q *TxQ) Len() int { return q.disc.Len() + q.batch.Len() }

// Disc returns the discipline, to look at.
func (q *TxQ) Disc() Disc { return q.disc }

// Next is the time at which the watchdog of a discipline that holds packets back
// fires, vtime.Never if it is not set. It changes with every step.
func (q *TxQ) Next() vtime.Time { return q.disc.Next() }

// Fire ends the watchdog's wait ahead of Next, at a time in the discipline's Window
// when the CPU takes a timer interrupt anyway, and says whether it did. The
// composer calls Restart then. At Next, Restart alone is enough.
func (q *TxQ) Fire(now vtime.Time) bool { return q.disc.Fire(now) }
