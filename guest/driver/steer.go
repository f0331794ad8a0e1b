package driver

// Picker chooses transmit queues as a kernel does.
type Picker struct {
	Steering Steering
	CPUs     int // online
	MaxPairs int // of the device
	Pairs    int // in use
}

// Pick is what the choice of a queue depends on.
type Pick struct {
	CPU      int    // that sends
	Hash     uint32 // of the flow
	Prev     int    // queue of the socket's last packet, or -1
	OOOOkay  bool   // none of the socket's packets is below TCP, so that the queue may change (ooo_okay)
	Recorded int    // receive queue that the packet came from, or -1: forwarded packets only
}

// Queue returns the transmit queue of a packet (virtnet_select_queue, v3.8;
// netdev_pick_tx, v3.13 to v6.12). The composer remembers it as the socket's
// queue.
func (k *Picker) Queue(p Pick) int {
	if k.Pairs <= 1 {
		return 0
	}
	if k.Steering == SteerIndex {
		return k.byIndex(p)
	}
	if p.Prev >= 0 && p.Prev < k.Pairs && !p.OOOOkay {
		return p.Prev
	}
	if q, ok := k.byXPS(p); ok {
		return q
	}
	return ByHash(p.Hash, k.Pairs)
}

// byIndex is the driver's own choice: the receive queue the packet came from,
// else its table of CPUs.
func (k *Picker) byIndex(p Pick) int {
	if p.Recorded >= 0 {
		return p.Recorded % k.Pairs
	}
	if k.MaxPairs == k.CPUs {
		return p.CPU % k.Pairs
	}
	return (p.CPU + 1) % k.Pairs
}

// byXPS is the queue that the CPU's transmit map gives; a map of several queues
// is resolved by flow hash (get_xps_queue, v6.1). ok is false without maps.
func (k *Picker) byXPS(p Pick) (queue int, ok bool) {
	if k.Steering == SteerXPS && k.MaxPairs != k.CPUs {
		return 0, false
	}
	if k.Pairs > k.CPUs {
		// Pair i is mapped to CPU i modulo CPUs: this CPU has n of them.
		cpu := p.CPU % k.CPUs
		n := (k.Pairs - cpu + k.CPUs - 1) / k.CPUs
		return cpu + ByHash(p.Hash, n)*k.CPUs, true
	}
	// Pair i has a group of CPUs; the first ones have one more.
	each, more := k.CPUs/k.Pairs, k.CPUs%k.Pairs
	if wide := more * (each + 1); p.CPU >= wide {
		return min(more+(p.CPU-wide)/each, k.Pairs-1), true
	}
	return p.CPU / (each + 1), true
}

// NAPIWorks reports whether the kernel leaves napi_tx on: it wants the completion
// interrupts on the CPUs that send, and turns napi_tx off where the queues have no
// CPUs of their own, with one pair among others (virtnet_napi_tx_enable, v4.12;
// all queues have CPUs since they are striped).
func (k *Picker) NAPIWorks() bool {
	return k.Steering == SteerStriped || (k.Pairs > 1 && k.MaxPairs == k.CPUs)
}

// ByHash maps a flow hash evenly to a number of queues (reciprocal_scale,
// include/linux/kernel.h, v6.1).
func ByHash(hash uint32, queues int) int {
	return int(uint64(hash) * uint64(queues) >> 32)
}
