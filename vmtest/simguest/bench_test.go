package simguest_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// BenchmarkCopyFromMemory is the measurement behind the host model's
// tx_per_kb: copies of 64 KB chunks out of an area that no cache holds.
func BenchmarkCopyFromMemory(b *testing.B) {
	const chunk = 64 << 10
	src, dst := make([]byte, 256<<20), make([]byte, chunk)
	for i := range src {
		src[i] = byte(i)
	}
	b.SetBytes(chunk)
	off := 0
	for b.Loop() {
		copy(dst, src[off:off+chunk])
		off = (off + 7*chunk) % len(src)
	}
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchScenario runs a scenario once per iteration and reports CPU seconds per
// simulated GB and per simulated second, and packets per CPU second, all of the
// measured time: what it takes to set a run up and to warm up is left out, as the
// bytes of the warm-up are.
func benchScenario(b *testing.B, settings ...string) {
	s := vmtest.Default()
	for _, set := range settings {
		kv, err := vmtest.ParseSetting(set)
		if err == nil {
			err = s.Set(kv.Key, kv.Value)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	g := simguest.New(simguest.Config{})
	var bytes, packets int64
	var seconds, cpu float64
	for b.Loop() {
		var start time.Duration
		r, err := g.Run(context.Background(), s, vmtest.Options{Progress: func(p vmtest.Progress) {
			if p.Phase == "warm-up" && p.Done == p.Total {
				start = cpuTime(b)
			}
		}})
		if err != nil {
			b.Fatal(err)
		}
		if start == 0 {
			b.Fatal("the end of the warm-up was not reported")
		}
		cpu += (cpuTime(b) - start).Seconds()
		bytes += r.Totals.Bytes
		packets += r.Totals.Packets
		seconds += s.Duration.Seconds()
	}
	b.ReportMetric(cpu/(float64(bytes)/1e9), "cpu-s/GB")
	b.ReportMetric(float64(bytes)*8/seconds/1e9, "Gbit/s")
	b.ReportMetric(cpu/seconds, "cpu-s/s")
	b.ReportMetric(float64(packets)/cpu, "packets/cpu-s")
}

// bench100G is bulk traffic over a 100 Gbit/s link with a round trip of 100 us:
// BBR, MSS 1448, 500 simulated ms. cpu-s/s below 1 is faster than real time.
func bench100G(b *testing.B, flows, gso, gro, queue string) {
	benchScenario(b, "kernel=6.12", "cc=bbr", "write=64k", "flows="+flows, "vcpus=8", "queue_pairs=8", "guest_cpu=free",
		"host.wake=1us", "host.tx_base=0", "host.tx_per_kb=0", "host.rx=0", "link.rate=100G", "link.delay=49us", queue,
		"receiver.rmem=64M", gro, "tcp_wmem=4096 65536 67108864", "tso="+gso, "gso="+gso, "duration=500ms", "warmup=50ms")
}

// BenchmarkSim100G has one flow and 200, with segmentation offload and without
// (software segmentation below TCP, one ring entry for each segment). The link
// has a queue, which never fills, since GRO at the receiver works segment by
// segment behind such a link only.
func BenchmarkSim100G(b *testing.B) {
	for _, flows := range []string{"1", "200"} {
		for _, gso := range []string{"on", "off"} {
			b.Run("flows="+flows+"/gso="+gso, func(b *testing.B) {
				bench100G(b, flows, gso, "receiver.gro=true", "link.queue=64M")
			})
		}
	}
}

// BenchmarkSim100GNoGRO is the same without GSO, and without GRO at the receiver,
// which acknowledges every other segment.
func BenchmarkSim100GNoGRO(b *testing.B) {
	for _, flows := range []string{"1", "200"} {
		b.Run("flows="+flows, func(b *testing.B) {
			bench100G(b, flows, "off", "receiver.gro=false", "link.queue=0")
		})
	}
}

// BenchmarkSimBulk is a few senders of 64 KB writes over 100 Gbit/s.
func BenchmarkSimBulk(b *testing.B) {
	benchScenario(b, "kernel=6.12", "write=64k", "flows=4", "queue_pairs=4", "guest_cpu=free", "host=fast",
		"think=20us", "link.rate=100G", "link.delay=10us", "receiver.rmem=32M", "duration=50ms")
}

// BenchmarkSimSmallWrites is the default plan's first run: small packets.
func BenchmarkSimSmallWrites(b *testing.B) {
	benchScenario(b, "kernel=3.8", "queue_pairs=2", "guest_cpu=kvm-2013", "duration=50ms")
}
