package umlguest_test

import (
	"context"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// BenchmarkGbit is five virtual seconds of one flow over 1 Gbit/s and 10 ms there
// and back, with the modelled receiver and with a second kernel, and with and
// without memory that is shared with the guests' clocks. ratio is the CPU time of
// guests and calendar by that of the guests alone.
func BenchmarkGbit(b *testing.B) {
	for _, c := range []struct {
		name     string
		kind     string
		messages bool
	}{
		{"model", vmtest.ReceiverModel, false},
		{"guest", vmtest.ReceiverKernel, false},
		{"model-messages", vmtest.ReceiverModel, true},
		{"guest-messages", vmtest.ReceiverKernel, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := vmtest.Default()
			s.Kernel, s.Flows, s.QueuePairs, s.Write = kernel(b, "6.12"), 1, 1, 65536
			s.WarmUp, s.Duration = 0, 5*time.Second
			s.Link.Rate, s.Link.Delay = 1_000_000_000, 5*time.Millisecond
			s.Receiver.Kind = c.kind
			g := umlguest.New(umlguest.Config{Messages: c.messages})
			var sum umlguest.Usage
			for b.Loop() {
				if _, err := g.Run(context.Background(), s, vmtest.Options{}); err != nil {
					b.Fatal(err)
				}
				u := g.Usage()
				sum.Wall, sum.Guests, sum.Calendar = sum.Wall+u.Wall, sum.Guests+u.Guests, sum.Calendar+u.Calendar
			}
			b.ReportMetric(sum.Guests.Seconds()/float64(b.N), "guests-cpu-s")
			b.ReportMetric(sum.Calendar.Seconds()/float64(b.N), "calendar-cpu-s")
			b.ReportMetric(sum.Wall.Seconds()/float64(b.N), "wall-s")
			b.ReportMetric(sum.Ratio(), "ratio")
			b.ReportMetric(float64(sum.Wall)/float64(sum.Guests), "wall-ratio")
		})
	}
}
