package vcpu

// The tables of KVM guests. Two published figures carry most of their weight:
//
// The price of a TCP packet and its ACK is the slope between the two columns of
// Linux commit 65466904b015 (v5.18), 600 flows on a 100 Gbit/s NIC: 65,945 ms
// against 48,983 ms of task clock, for 15,648,792 against 1,434,706 ACKs and as
// many TSO packets (3.7 against 41 segments each). That is 16,963 ms over
// 14,214,086 pairs, 1193 ns a pair. A NIC's driver is in it where we have a
// virtio ring. The sum is sourced; how it is split is not.
//
// The price of leaving the guest is crosvm commit 4d7fd7f93dcc for a kick, and
// the exit and IPI figures of SplitX and of the KVM mailing list for interrupts.

// pairNote is the note of the operations that share the price of a pair.
const pairNote = "a share of the 1193 ns that a TSO packet and its ACK cost in Linux commit 65466904b015 (task clock of both columns over the difference in ACKs); the split is assumed"

func kvmTable() *Table {
	return build("kvm", "a Linux guest of about 2020 on KVM with ioeventfd and posted interrupts", []row{
		{OpClockRead, 25 * ns, Assumed, "rdtsc with the kvm-clock or tsc clock source"},
		{OpSyscall, 400 * ns, Assumed, "entry and exit with mitigations, and the fixed part of tcp_sendmsg"},
		{OpCopyByte, 11, Measured, copyNote},
		{OpSKBAlloc, 120 * ns, Assumed, "an skb from the fclone cache and its accounting"},
		{OpTCPXmit, 330 * ns, Assumed, pairNote},
		{OpQdisc, 60 * ns, Assumed, pairNote},
		{OpSegment, 250 * ns, Assumed, "an skb of its own, its headers, and its share of the checksum fix-up"},
		{OpDriverXmit, 167 * ns, Sourced, "virtio_test --batch=64 at 2.6 GHz: 432 cycles per buffer, both ends of the ring (virt-archive 2c6d257e35, 2022)"},
		{OpKick, 960 * ns, Sourced, "exit to entry of a fast MMIO eventfd kick (crosvm commit 4d7fd7f93dcc, host 4.4.185); 3.36 us without fast MMIO"},
		{OpIRQ, 385 * ns, Sourced, "1000 cycles from timer expiry to a busy guest without an exit (KVM list 23241713941, Haswell), at an assumed 2.6 GHz: an interrupt that is posted"},
		{OpNAPI, 250 * ns, Assumed, "raising, entering and leaving the softirq, and completing the poll"},
		{OpTxFree, 60 * ns, Assumed, pairNote},
		{OpRxFrame, 220 * ns, Assumed, pairNote},
		{OpTCPAck, 356 * ns, Assumed, pairNote},
		{OpTSQ, 150 * ns, Assumed, "the tasklet, the socket's lock and the test of its owner"},
		{OpWake, 1500 * ns, Assumed, "wake-up of a sleeping writer on the same CPU and the switch to it"},
		{OpCtrl, 3360 * ns, Sourced, "a command is handled in user space: an exit that goes there and back (crosvm commit 4d7fd7f93dcc, without fast MMIO)"},
	})
}

// copyNote describes the measurement behind OpCopyByte.
const copyNote = "10.7 ns per 1024 bytes from a warm buffer into 2 MB of 32 KiB pages: AMD EPYC (family 26), 2026-11-30, go test -bench CopyByte ./guest/vcpu; a lower bound, a cold page costs more"

func kvm2013Table() *Table {
	const slower = "1.6 times the figure of table kvm, for a 2.9 GHz core of 2009 to 2013: "
	return build("kvm-2013", "a Linux guest of 2013 on KVM: exits of a Xeon X5570, interrupts injected by exits", []row{
		{OpClockRead, 40 * ns, Assumed, slower + "rdtsc with kvm-clock"},
		{OpSyscall, 400 * ns, Assumed, "no mitigations then, a slower core: as in table kvm"},
		{OpCopyByte, 100, Assumed, "10 GB/s from user space into a cold page"},
		{OpSKBAlloc, 190 * ns, Assumed, slower + "an skb from the fclone cache"},
		{OpTCPXmit, 530 * ns, Assumed, slower + pairNote},
		{OpQdisc, 100 * ns, Assumed, slower + pairNote},
		{OpSegment, 400 * ns, Assumed, slower + "an skb of its own and its headers"},
		{OpDriverXmit, 267 * ns, Assumed, slower + "virtio_test of virt-archive 2c6d257e35, and two descriptors more per packet"},
		{OpKick, 683 * ns, Sourced, "direct cost of one exit, 2,000 cycles of a Xeon X5570 at 2.93 GHz (SplitX); signalling the eventfd and the caches it cools are not in it, so a lower bound"},
		{OpIRQ, 1365 * ns, Sourced, "two exits of 2,000 cycles at 2.93 GHz (SplitX): the injection and the end of interrupt, neither of which the hardware did alone then"},
		{OpNAPI, 400 * ns, Assumed, slower + "softirq and completion of the poll"},
		{OpTxFree, 100 * ns, Assumed, slower + pairNote},
		{OpRxFrame, 350 * ns, Assumed, slower + pairNote},
		{OpTCPAck, 570 * ns, Assumed, slower + pairNote},
		{OpTSQ, 240 * ns, Assumed, slower + "the tasklet and the socket's lock"},
		{OpWake, 2400 * ns, Assumed, slower + "wake-up of a sleeping writer and the switch to it"},
		{OpCtrl, 4700 * ns, Assumed, "an exit that user space handles: 3.36 us (crosvm commit 4d7fd7f93dcc, 2019) and 2,000 cycles more (SplitX) for the older exit"},
	})
}
