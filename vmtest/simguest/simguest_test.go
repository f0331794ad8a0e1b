package simguest_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
)

func TestSameSeedSameHash(t *testing.T) {
	base := report002(t)
	p, _ := vmtest.PlanByName("mq-small-packets")
	runs, err := p.Runs()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, r := range runs {
		a, b := run(t, r.Scenario, "duration=5ms"), run(t, r.Scenario, "duration=5ms")
		if *a.TraceHash != *b.TraceHash {
			t.Errorf("%s: hashes %s and %s of one scenario and seed", r.Label, *a.TraceHash, *b.TraceHash)
		}
		if other, ok := seen[*a.TraceHash]; ok {
			t.Errorf("%s and %s have the same hash", r.Label, other)
		}
		seen[*a.TraceHash] = r.Label
	}
	lossy := []string{"link.loss=0.01", "duration=5ms"}
	if a, b := run(t, base, append(lossy, "seed=1")...), run(t, base, append(lossy, "seed=2")...); *a.TraceHash == *b.TraceHash {
		t.Error("two seeds lose the same packets")
	}
}

// Runs share nothing: many at once give what one alone gives.
func TestConcurrentRuns(t *testing.T) {
	s := report002(t)
	s.Duration = 3 * time.Millisecond
	want := *run(t, s).TraceHash
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{})
			if err != nil || *r.TraceHash != want {
				t.Errorf("hash %v, %v, want %s", r, err, want)
			}
		})
	}
	wg.Wait()
}

// Every byte written arrives, whatever is lost on the way.
func TestBytesAreConserved(t *testing.T) {
	for _, extra := range [][]string{
		{}, {"link.loss=0.02"}, {"cc=reno", "link.loss=0.02", "link.delay=100us"}, {"link.rate=1G", "link.queue=50000"},
		{"write=64k"}, {"queue_pairs=2", "release=orphan"}, {"tso=off", "gso=off"}, {"ip=6", "mtu=9000"}, {"event_idx=off"},
		{"indirect=off"}, {"receiver.gro=off"}, {"policy=hold:packets=8,time=50us"}, {"flows=5", "queue_pairs=4"}, {"kernel=3.8"},
		{"qdisc=noqueue"}, {"ring_size=64"},
	} {
		t.Run(strings.Join(extra, " "), func(t *testing.T) {
			r := run(t, vmtest.Default(), append([]string{"bytes=600000", "duration=3s", "warmup=0"}, extra...)...)
			for _, f := range r.Flows {
				if *f.SentBytes != 600000 || *f.RecvBytes != 600000 {
					t.Errorf("flow %d: sent %d, received %d of 600000", f.Flow, *f.SentBytes, *f.RecvBytes)
				}
			}
			if len(r.Flows) == 0 {
				t.Error("no flows")
			}
		})
	}
}

// The device's counters are what the driver says it did.
func TestDeviceAgreesWithDriver(t *testing.T) {
	for _, release := range []string{"orphan", "napi"} {
		r := run(t, vmtest.Default(), "release="+release, "queue_pairs=2", "bytes=500000", "duration=1s", "warmup=0")
		for _, q := range r.Queues {
			name := q.Dir + "_queue_" + strconv.Itoa(q.Queue)
			if q.Dir == "ctrl" {
				continue
			}
			if got := int64(r.GuestCounters[name+"_kicks"]); got != q.Kicks {
				t.Errorf("%s %s: the driver sent %d kicks, the device got %d", release, name, got, q.Kicks)
			}
			if got := int64(r.GuestCounters[name+"_interrupts"]); got != q.Calls {
				t.Errorf("%s %s: %d interrupts, %d calls", release, name, got, q.Calls)
			}
		}
	}
}

func TestTrace(t *testing.T) {
	for _, at := range []string{"qdisc", "driver", "device", "host"} {
		s := vmtest.Default()
		s.Trace.At, s.WarmUp, s.Duration, s.Total = at, 0, time.Second, 300000
		var out bytes.Buffer
		r, err := simguest.New(simguest.Config{}).Run(context.Background(), s, vmtest.Options{Trace: &out})
		if err != nil {
			t.Fatal(err)
		}
		var sum, packets int64
		last := int64(-1)
		for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
			f := strings.Split(line, "\t")
			if strings.HasPrefix(line, "#") || f[0] == "t_ns" {
				continue
			}
			if len(f) != 7 {
				t.Fatalf("%s: line %q has %d fields", at, line, len(f))
			}
			ns, _ := strconv.ParseInt(f[0], 10, 64)
			if n, _ := strconv.ParseInt(f[5], 10, 64); f[1] == "tx" && n > 0 {
				sum += n
				packets++
				if at == "host" && ns < last {
					t.Errorf("%s: time goes back at %q", at, line)
				}
				last = ns
			}
		}
		if sum != 600000 || packets != r.Totals.Packets {
			t.Errorf("%s: the trace has %d bytes in %d packets, the device %d in %d", at, sum, packets, r.Totals.Bytes, r.Totals.Packets)
		}
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := vmtest.Default()
	s.Duration = time.Hour
	r, err := simguest.New(simguest.Config{}).Run(ctx, s, vmtest.Options{Progress: func(p vmtest.Progress) {
		if p.Phase == "measure" && p.Done > 5*time.Millisecond {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || r == nil || r.Totals.Bytes == 0 || r.DurationNs == 0 {
		t.Errorf("an interrupted run gives %+v, %v", r, err)
	}
}

func TestRefuses(t *testing.T) {
	g := simguest.New(simguest.Config{})
	for _, c := range []struct {
		set  []string
		want string
	}{
		{[]string{"kernel=6.13"}, "nearest"},
		{[]string{"kernel=3.8", "release=napi"}, "napi_tx"},
		{[]string{"host=fats"}, `"fast"`},
		{[]string{"host=./nowhere.toml"}, "nowhere.toml"},
		{[]string{"guest_cpu=fre"}, `"free"`},
		{[]string{"qdisc=pfifo"}, "pfifo_fast"},
		{[]string{"cc=vegas"}, "cubic"},
		{[]string{"policy=hold:packets=4"}, "time="},
		{[]string{"receiver.kernel=new"}, "receiver.kernel"},
	} {
		s := vmtest.Default()
		for _, set := range c.set {
			kv, _ := vmtest.ParseSetting(set)
			if err := s.Set(kv.Key, kv.Value); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Check(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: Check = %v, want an error that says %q", c.set, err, c.want)
		}
	}
}

func TestHostModelFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.toml")
	var text strings.Builder
	for _, n := range []string{"wake", "tx_base", "tx_stack", "tx_per_kb", "rx", "call"} {
		text.WriteString("[host." + n + "]\nns = 100\nkind = \"measured\"\nnote = \"here\"\n")
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, vmtest.Default(), "host="+path, "duration=2ms")
	if r.Totals.Bytes == 0 {
		t.Error("nothing was sent")
	}
	if err := os.WriteFile(path, []byte(text.String()+"[host.txbase]\nns = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := vmtest.Default()
	s.Host.Model = path
	if err := simguest.New(simguest.Config{}).Check(s); err == nil || !strings.Contains(err.Error(), `"tx_base"`) {
		t.Errorf("an unknown cost: %v", err)
	}
}

func TestCosts(t *testing.T) {
	g := simguest.New(simguest.Config{})
	s := report002(t)
	costs, err := g.Costs(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range costs {
		if c.Note == "" || c.Unit == "" || c.Kind == "" {
			t.Errorf("cost %s has no note, unit or kind: %+v", c.Name, c)
		}
		if _, err := g.Run(context.Background(), shortened(s), vmtest.Options{Scale: map[string]float64{c.Name: 2}}); err != nil {
			t.Errorf("doubling %s: %v", c.Name, err)
		}
	}
	_, err = g.Run(context.Background(), shortened(s), vmtest.Options{Scale: map[string]float64{"guest.kik": 2}})
	if err == nil || !strings.Contains(err.Error(), "guest.kick") {
		t.Errorf("an unknown cost: %v", err)
	}
}

func shortened(s vmtest.Scenario) vmtest.Scenario {
	s.WarmUp, s.Duration = 0, 200*time.Microsecond
	return s
}

// TestReceivingKernelIsThere has a run say when it took the model for a receiving
// kernel that the scenario asks for, and only then.
func TestReceivingKernelIsThere(t *testing.T) {
	for settings, want := range map[string]int{
		"receiver.kind=model":                        0,
		"receiver.kind=kernel":                       1,
		"receiver.kind=kernel,guest_cpu=uml,vcpus=1": 0,
	} {
		base := vmtest.Default()
		base.Duration = time.Millisecond
		if got := run(t, base, strings.Split(settings, ",")...).Warnings; len(got) != want {
			t.Errorf("%s: warnings %q, want %d", settings, got, want)
		}
	}
}
