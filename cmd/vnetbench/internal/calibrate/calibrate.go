// Package calibrate measures on this machine what the cost tables of the
// simulator need: system calls, eventfds and wake-ups, copies, and the device's own
// work on a packet. Each measurement is repeated and the median taken. It needs no
// guest and no root; what a guest's exits and interrupts cost it cannot measure.
package calibrate

import (
	"fmt"
	"slices"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
)

// rounds is how often each measurement is made.
const rounds = 9

// Measurement is one entry that can be measured.
type Measurement struct {
	Side string // host or guest
	Name string // of the entry
	What string // how it is measured
	run  func() (ns float64, err error)
}

// Value is a measured entry.
type Value struct {
	Measurement
	Median, Min, Max float64 // nanoseconds, for each byte where the entry is
}

// Measurements are all that can be measured here, in the order of the file.
func Measurements() []Measurement {
	return []Measurement{
		{"host", "wake", "half a round trip over two eventfds between two threads that sleep in ppoll", wake},
		{"host", "call", "a write to an eventfd on which nobody waits", eventfd},
		{"host", "tx_base", "a frame of 64 bytes through ring and device into a port that discards it, in batches of 32", transmit},
		{"host", "rx", "an ACK of 66 bytes through device and ring into the guest's buffer, in batches of 32", receive},
		{"host", "tx_per_kb", "copying 1000 bytes from memory: 64 KB chunks of 256 MB", copyCold},
		{"guest", "copy_byte", "copying a byte from a warm buffer of 1024 into 2 MB of pages; a lower bound", copyWarm},
		{"guest", "clock_read", "reading the monotonic clock, on the host and not in a guest", clockRead},
	}
}

// NotMeasured are entries that this machine's user would ask for first, and why
// they are not there.
func NotMeasured() map[string]string {
	return map[string]string{
		"guest.kick":     "the cost of an exit needs a guest under KVM whose kernel counts them; it stays that of the base table",
		"guest.irq":      "the cost of an interrupt needs a guest under KVM; it stays that of the base table",
		"guest.syscall":  "its fixed part of tcp_sendmsg is the guest's kernel's; it stays that of the base table",
		"host.tx_stack":  "the local network stack's share depends on what the port is; it stays that of the base model",
		"guest.tcp_xmit": "as all of the guest's TCP it is the guest's kernel's; it stays that of the base table",
	}
}

// Run makes a measurement.
func (m Measurement) Run() (Value, error) {
	var all []float64
	for range rounds {
		ns, err := m.run()
		if err != nil {
			return Value{}, fmt.Errorf("%s.%s: %w", m.Side, m.Name, err)
		}
		all = append(all, ns)
	}
	slices.Sort(all)
	return Value{m, all[rounds/2], all[0], all[rounds-1]}, nil
}

// File makes the file of costs of the values. cpu is the machine's, date today's
// and command what measured.
func File(values []Value, cpu, date, command string) *vmtest.CostFile {
	f := &vmtest.CostFile{
		About:    fmt.Sprintf("%s, %s, %s", cpu, date, command),
		HostBase: "calibrated", GuestBase: "kvm",
		Host: map[string]vmtest.CostEntry{}, Guest: map[string]vmtest.CostEntry{},
	}
	for _, v := range values {
		side := f.Host
		if v.Side == "guest" {
			side = f.Guest
		}
		side[v.Name] = vmtest.CostEntry{NS: v.Median, Kind: vmtest.CostMeasured,
			Note: fmt.Sprintf("%s; median of %d, from %.4g to %.4g: %s, %s, %s", v.What, rounds, v.Min, v.Max, cpu, date, command)}
	}
	return f
}

// per returns nanoseconds for each of n.
func per(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / float64(n) }
