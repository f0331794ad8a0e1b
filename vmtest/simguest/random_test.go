package simguest_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

// randomScenario draws what scenarios may combine.
func randomScenario(t *rapid.T) vmtest.Scenario {
	s := vmtest.Default()
	one := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	set := func(key, value string) {
		if err := s.Set(key, value); err != nil {
			t.Fatal(err)
		}
	}
	set("kernel", one("kernel", tcp.Releases()...))
	set("cc", one("cc", "reno", "cubic", "bbr"))
	set("flows", strconv.Itoa(rapid.IntRange(1, 6).Draw(t, "flows")))
	set("queue_pairs", one("queue_pairs", "1", "2", "3", "4"))
	set("vcpus", one("vcpus", "1", "2", "4"))
	set("ring_size", one("ring_size", "32", "64", "256", "1024"))
	for _, key := range []string{"event_idx", "indirect", "tso", "gso", "nodelay", "more", "receiver.gro"} {
		set(key, one(key, "on", "on", "off"))
	}
	set("write", one("write", "1", "100", "1024", "1448", "16k", "64k", "1M"))
	set("think", one("think", "0", "0", "2us", "100us"))
	set("mtu", one("mtu", "1500", "576", "9000"))
	set("ip", one("ip", "4", "6"))
	set("host", one("host", "fast", "med", "med2", "slow", "calibrated"))
	set("guest_cpu", one("guest_cpu", "free", "uml", "kvm", "kvm-2013"))
	set("link.rate", one("link.rate", "0", "100M", "10G"))
	set("link.delay", one("link.delay", "0", "2us", "1ms"))
	set("link.queue", one("link.queue", "0", "0", "100k"))
	set("link.loss", one("link.loss", "0", "0", "0.001", "0.02"))
	set("policy", one("policy", "none", "hold:time=50us", "hold:packets=8,time=1ms", "hold:time=100us+thin-acks:time=100us", "adaptive", "adaptive",
		"coalesce-calls:packets=8,time=100us", "poll:time=100us", "poll:time=200us,every=50us+merge+thin-acks:time=50us",
		"delay-service:packets=16,time=50us", "share-worker:pairs=2+adaptive", "merge+share-worker:pairs=4"))
	set("qdisc", one("qdisc", "pfifo_fast", "noqueue", "fq", "fq_codel"))
	set("seed", strconv.Itoa(rapid.IntRange(0, 1<<20).Draw(t, "seed")))
	most := 300_000
	if strings.Contains(s.Policy, "adaptive") && s.Write >= 1000 {
		most = 2_000_000 // the policy does nothing for short flows
	}
	set("bytes", strconv.Itoa(rapid.IntRange(1, most).Draw(t, "bytes")))
	s.Duration, s.WarmUp, s.Drain = 0, 0, true
	if simguest.New(simguest.Config{}).Check(s) != nil {
		set("cc", "cubic") // the release is older than the algorithm
	}
	return s
}

// Whatever a scenario combines: nothing panics, every byte that was written
// arrives, none is invented, and the same seed gives the same packets. The long
// form is -rapid.checks=1000.
func TestRandomScenarios(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomScenario(t)
		a, b := mustRun(t, s), mustRun(t, s)
		if *a.TraceHash != *b.TraceHash {
			t.Fatalf("hashes %s and %s of one seed", *a.TraceHash, *b.TraceHash)
		}
		var sent int64
		for _, f := range a.Flows {
			if *f.SentBytes != int64(s.Total) || *f.RecvBytes != int64(s.Total) {
				t.Fatalf("flow %d: wrote %d, received %d of %d", f.Flow, *f.SentBytes, *f.RecvBytes, int64(s.Total))
			}
			sent += *f.SentBytes
		}
		if a.Totals.Bytes < sent {
			t.Fatalf("the device took %d bytes of %d that arrived", a.Totals.Bytes, sent)
		}
	})
}

// mustRun runs the scenario, which has to end by itself.
func mustRun(t *rapid.T, s vmtest.Scenario) *vmtest.Run {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := simguest.New(simguest.Config{}).Run(ctx, s, vmtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
