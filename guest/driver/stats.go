package driver

import "strconv"

// TxStats count what a transmit queue did.
type TxStats struct {
	Packets    uint64 // reaped
	Bytes      uint64 // of these, with headers and without net header
	Kicks      uint64 // notifications that the device asked for
	Drops      uint64 // packets that found the ring full
	Stops      uint64 // times the ring was nearly full
	Wakes      uint64 // times a stop was taken back
	BQLStops   uint64 // times the byte limit was reached
	Interrupts uint64
	Polls      uint64
	Descs      uint64 // buffers described, in direct or indirect descriptors
}

// RxStats count what a receive queue did.
type RxStats struct {
	Packets    uint64
	Bytes      uint64 // with headers and without net header
	Kicks      uint64 // notifications that the device asked for
	Drops      uint64 // frames that were shorter than their net header or incomplete
	Buffers    uint64 // buffers that frames took
	Interrupts uint64
	Polls      uint64
}

// Stat is a counter by its name.
type Stat struct {
	Name  string
	Value uint64
}

// Stats returns the counters of all queues, the first ones of each queue under
// the names that ethtool -S has for them (virtnet_get_strings, v6.1).
func (n *Net) Stats() []Stat {
	var out []Stat
	for i := range n.rx {
		r := &n.rx[i].Stats
		out = appendStats(out, "rx_queue_", i,
			Stat{"packets", r.Packets}, Stat{"bytes", r.Bytes}, Stat{"drops", r.Drops}, Stat{"kicks", r.Kicks},
			Stat{"buffers", r.Buffers}, Stat{"interrupts", r.Interrupts}, Stat{"polls", r.Polls})
	}
	for i := range n.tx {
		t := &n.tx[i].Stats
		out = appendStats(out, "tx_queue_", i,
			Stat{"packets", t.Packets}, Stat{"bytes", t.Bytes}, Stat{"kicks", t.Kicks},
			Stat{"drops", t.Drops}, Stat{"stops", t.Stops}, Stat{"wakes", t.Wakes}, Stat{"bql_stops", t.BQLStops},
			Stat{"interrupts", t.Interrupts}, Stat{"polls", t.Polls}, Stat{"descriptors", t.Descs})
	}
	return out
}

// appendStats appends the counters of queue i with their full names.
func appendStats(out []Stat, prefix string, i int, stats ...Stat) []Stat {
	for _, s := range stats {
		s.Name = prefix + strconv.Itoa(i) + "_" + s.Name
		out = append(out, s)
	}
	return out
}
