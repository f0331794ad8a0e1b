// Package vcpu is the guest's processor in the simulator: a serial CPU that
// runs one piece of work at a time, and the operations by which the guest's
// code says what it did. A cost table turns the counts into virtual time; with
// the table "free" every operation takes none. It owns no clock: the simulator
// tells it when it may run.
package vcpu

// Op is a kind of work that guest code counts as it does it. What one costs is
// the cost table's business.
type Op uint8

// The operations. The unit of the count is one event, unless it says bytes.
const (
	OpClockRead  Op = iota // a clock read in process context (tcp_clock_ns, ktime_get)
	OpSyscall              // entry and exit of one write(2), with tcp_sendmsg's fixed part
	OpCopyByte             // bytes copied from user space into the write queue
	OpSKBAlloc             // a new skb in the write queue
	OpTCPXmit              // one packet through tcp_transmit_skb and IP
	OpQdisc                // one packet through enqueue and dequeue
	OpTxLock               // waiting for another CPU that holds the transmit queue; bytes: ns waited
	OpSegment              // one MSS cut by software segmentation
	OpDriverXmit           // one packet through the driver's start_xmit, without the kick
	OpKick                 // one notification that leaves the guest: the exit and the return
	OpIRQ                  // one interrupt: injection, handler, end of interrupt
	OpNAPI                 // one softirq with a NAPI poll
	OpTxFree               // one completed packet reaped by the driver
	OpRxFrame              // one received frame from the ring to TCP
	OpTCPAck               // one acknowledgement processed by TCP
	OpTSQ                  // one run of the TSQ tasklet for a socket
	OpWake                 // waking a process that slept, and its switch
	OpCtrl                 // one control queue command, waited for
	NumOps
)

// String is the operation's name in cost tables and reports.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

var opNames = [NumOps]string{
	"clock_read", "syscall", "copy_byte", "skb_alloc", "tcp_xmit", "qdisc", "tx_lock",
	"segment", "driver_xmit", "kick", "irq", "napi", "tx_free", "rx_frame", "tcp_ack",
	"tsq", "wake", "ctrl",
}

// OpByName returns the operation that a cost table calls name.
func OpByName(name string) (Op, bool) {
	for i, n := range opNames {
		if n == name {
			return Op(i), true
		}
	}
	return 0, false
}

// OpNames returns the names of all operations, in the order of their values.
func OpNames() []string { return append([]string(nil), opNames[:]...) }
