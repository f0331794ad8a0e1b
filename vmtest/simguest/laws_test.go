package simguest_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
)

// A request at a time is a kick and a call each way while both sides sleep in
// between, and no kick at all while the device looks by itself: what event indices
// did for a block device of 60,000 requests a second (cloud-hypervisor
// 0e4e27ea9df4: 58,817 kicks and 58,881 interrupts a second became 4 and 69).
func TestKicksVanishWhileTheDevicePolls(t *testing.T) {
	request := []string{"flows=1", "guest_cpu=free", "host=med2", "think=1us", "flow.0.kind=request", "flow.0.write=1", "flow.0.nodelay=on",
		"release=napi"}
	asleep := run(t, vmtest.Default(), request...)
	n := float64(asleep.Flows[0].Latency.Count)
	for what, got := range map[string]int64{"kicks": asleep.Totals.Kicks, "transmit calls": asleep.Totals.TxCalls, "receive calls": asleep.Totals.RxCalls} {
		if r := float64(got) / n; r < 0.99 || r > 1.01 {
			t.Errorf("%s for a request: %.3f, want 1", what, r)
		}
	}
	polled := run(t, vmtest.Default(), append(request, "policy=poll:time=1ms")...)
	if k := polled.Totals.Kicks; k > 2 {
		t.Errorf("%d kicks for %d requests to a device that polls, want none", k, polled.Flows[0].Latency.Count)
	}
	if a, b := asleep.Flows[0].Latency.MedianNs, polled.Flows[0].Latency.MedianNs; b >= a {
		t.Errorf("a request takes %d ns while the device polls, and %d ns while it sleeps", b, a)
	}
}

// TCP small queues of 128 KB keep a bulk sender's data out of the device's ring: about a
// millisecond of a Gbit link (46d3ceabd8d9, v3.6), at the same goodput. A driver
// that orphans packets takes their effect away, and the ring fills.
func TestSmallQueues(t *testing.T) {
	gbit := []string{"kernel=6.12", "flows=1", "write=64k", "guest_cpu=free", "host=fast", "host.tx_base=0s", "host.tx_per_kb=8us",
		"duration=300ms", "warmup=300ms", "receiver.rmem=6M"}
	limited := run(t, vmtest.Default(), append(gbit, "release=napi", "tcp_limit_output_bytes=131072")...)
	free := run(t, vmtest.Default(), append(gbit, "release=orphan", "tcp_limit_output_bytes=131072")...)
	if rtt := limited.Flows[0].RTTus; rtt > 1600 { // three packets of 64 KB: two that fit 128 KB, and the one in service
		t.Errorf("a round trip of %.0f us with small queues on 1 Gbit/s", rtt)
	}
	if a, b := limited.Flows[0].RTTus, free.Flows[0].RTTus; b < 5*a {
		t.Errorf("a round trip of %.0f us with small queues, and of %.0f us without", a, b)
	}
	if a, b := limited.Totals.GoodputBps, free.Totals.GoodputBps; a < 0.97*b {
		t.Errorf("%.3g bit/s with small queues, and %.3g without", a, b)
	}
}

// A paced flow over a short path sends packets ten times as large once their size
// looks at the round trip too: 3.7 segments became 41 (65466904b015, v5.18: flows
// of 20 MB/s, segments of 4 KB).
func TestSizeByRoundTrip(t *testing.T) {
	paced := []string{"kernel=6.12", "release=napi", "cc=dctcp", "qdisc=fq", "flows=4", "vcpus=4", "write=1M", "guest_cpu=free", "host=fast", "link.rate=100G", "pacing=20MB/s",
		"ip=6", "mtu=4168", "mss=4096", "gso_max_size=181000", "nic.tso_max_size=524280", "receiver.rmem=32M", "duration=100ms", "warmup=20ms"}
	for log, want := range map[string][2]float64{"0": {3.5, 4.5}, "9": {36, 44}} {
		r := run(t, vmtest.Default(), append(paced, "tcp_tso_rtt_log="+log)...)
		if segs := r.Totals.GSOMeanBytes / 4096; segs < want[0] || segs > want[1] {
			t.Errorf("tcp_tso_rtt_log=%s: %.1f segments in a packet, want %v to %v", log, segs, want[0], want[1])
		}
	}
}
