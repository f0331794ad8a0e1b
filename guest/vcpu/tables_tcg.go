package vcpu

// tcgSlowdown is by how much an emulated guest takes longer than one on KVM.
const tcgSlowdown = 50

// tcgTable is a guest whose processor is emulated. It is for scenarios that run on
// such a guest as well, with the same pauses and the same host: what counts there is
// how fast guest and host are against each other.
func tcgTable() *Table {
	const slower = "50 times the figure of table kvm: with it the simulated guest takes about the CPU time per MB that Linux 6.12 takes for 1024-byte writes with pauses under QEMU 7.2's TCG, whose two processors share two cores with the device and the receiver (2026)"
	kvm := kvmTable()
	var rows []row
	for op := range NumOps {
		switch op {
		case OpTxLock:
		case OpKick:
			rows = append(rows, row{op, 10_000 * ns, Assumed, "no exit: the write to the register ends in a write to an eventfd, in the thread of the processor"})
		default:
			rows = append(rows, row{op, tcgSlowdown * kvm.Picos(op), Assumed, slower})
		}
	}
	return build("tcg", "a Linux guest whose processor QEMU emulates", rows)
}
