package qemuguest

import (
	"time"

	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// seriesEvery is how often the device's counters are sampled while a scenario
// is measured: 50 times, but not so often that the looks disturb the device.
func seriesEvery(d time.Duration) time.Duration {
	return min(max(d/50, 20*time.Millisecond), time.Second)
}

// sample adds a point to the time series. Nothing is added before the measured
// time and after it.
func (s *session) sample() {
	if s.start == nil || s.end != nil {
		return
	}
	now := s.back.counters()
	p := vmtest.Sample{TNs: int64(time.Since(s.started))}
	for i := range now {
		d := now[i].stats
		d.Sub(&s.sampled[i].stats)
		if now[i].dir == netdev.DirRX {
			p.RxCalls += int64(d.Calls)
			continue
		}
		p.Bytes += int64(d.PayloadBytes)
		p.Packets += int64(d.DataPackets)
		p.Kicks += int64(d.Kicks)
		p.TxCalls += int64(d.Calls)
	}
	s.series, s.sampled = append(s.series, p), now
}
