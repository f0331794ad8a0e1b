package qemuguest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// needGuest skips a test that needs a virtual machine; where CI=true, not
// having one is a failure.
func needGuest(t testing.TB, kernel string) {
	t.Helper()
	why := missing(kernel)
	if why == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, NOT TESTED:", why)
}

func missing(kernel string) string {
	if os.Geteuid() != 0 {
		return "needs root for a network namespace and a tap"
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return err.Error()
	}
	if _, err := qemuguest.FindEmulator(context.Background()); err != nil {
		return err.Error()
	}
	if _, err := qemuguest.FindKernel(kernel); err != nil {
		return err.Error()
	}
	if _, err := exec.LookPath("go"); err != nil {
		return err.Error()
	}
	return ""
}

func scenario(pairs int, set ...string) vmtest.Scenario {
	s := vmtest.Default()
	s.Kernel, s.QueuePairs = "6.1", pairs
	s.WarmUp, s.Duration = 300*time.Millisecond, 700*time.Millisecond
	for i := 0; i+1 < len(set); i += 2 {
		if err := s.Set(set[i], set[i+1]); err != nil {
			panic(err)
		}
	}
	return s
}

// testLog is the guest's console in the test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func run(t *testing.T, s vmtest.Scenario, c qemuguest.Config) *vmtest.Run {
	t.Helper()
	needGuest(t, s.Kernel)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	begin := time.Now()
	r, err := qemuguest.New(c).Run(ctx, s, vmtest.Options{Log: testLog{t}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v; %s", time.Since(begin).Round(10*time.Millisecond), brief(r))
	return r
}

func brief(r *vmtest.Run) string {
	return fmt.Sprintf("%s %s, %d pairs, %d byte writes: %.1f Mbit/s, GSO mean %.0f, big share %.2f, %d packets, %d kicks, %d+%d calls, offsets %v",
		r.KernelVersion, r.Release, r.QueuePairs, r.Write, r.Totals.GoodputBps/1e6, r.Totals.GSOMeanBytes, r.Totals.BigShare,
		r.Totals.Packets, r.Totals.Kicks, r.Totals.TxCalls, r.Totals.RxCalls, r.CostOffset)
}

// TestGuest sends through our device from a real Linux: one and two queue
// pairs, letting packets go at transmit and after completion. The device's
// counts of kicks are the driver's, ring by ring, and every byte that was
// written arrived.
func TestGuest(t *testing.T) {
	for _, c := range []struct {
		pairs   int
		release string
	}{{1, vmtest.ReleaseNAPI}, {2, vmtest.ReleaseOrphan}} {
		t.Run(fmt.Sprintf("%dq-%s", c.pairs, c.release), func(t *testing.T) {
			r := run(t, scenario(c.pairs, "release", c.release), qemuguest.Config{})
			if r.Release != c.release {
				t.Errorf("the driver's release is %q, want %q", r.Release, c.release)
			}
			checkKicks(t, r)
			checkBytes(t, r)
		})
	}
}

// checkKicks compares the two sides again, by what the run itself says.
func checkKicks(t *testing.T, r *vmtest.Run) {
	t.Helper()
	compared := 0
	for _, q := range r.Queues {
		for _, format := range []string{"nic.%s_queue_%d_kicks", "nic.%s%d_kicks"} {
			name := fmt.Sprintf(format, q.Dir, q.Queue)
			if _, ok := r.CostOffset[name]; !ok {
				continue
			}
			compared++
			if said := int64(r.GuestCounters[name]); said != q.Kicks {
				t.Errorf("%s %d: the device counted %d kicks, the driver %d", q.Dir, q.Queue, q.Kicks, said)
			}
		}
	}
	if want := 2 * r.QueuePairs; compared != want {
		t.Errorf("compared %d rings, want %d", compared, want)
	}
	if r.Totals.Kicks == 0 || r.Totals.Packets == 0 {
		t.Errorf("%d kicks and %d packets in the measured time", r.Totals.Kicks, r.Totals.Packets)
	}
}

// checkBytes: each flow sent something, all of which arrived, and some of it in the
// measured time. How much of that is which flow's depends on the machine's load.
func checkBytes(t *testing.T, r *vmtest.Run) {
	t.Helper()
	measured := int64(0)
	for _, f := range r.Flows {
		measured += f.Bytes
		if f.SentBytes == nil || f.RecvBytes == nil {
			t.Errorf("flow %d: sent or received bytes are not known", f.Flow)
			continue
		}
		if *f.SentBytes != *f.RecvBytes || *f.SentBytes == 0 {
			t.Errorf("flow %d: %d bytes sent, %d received", f.Flow, *f.SentBytes, *f.RecvBytes)
		}
		if f.Cwnd == 0 || f.RTTus == 0 || f.Queue < 0 {
			t.Errorf("flow %d: cwnd %d, RTT %v us, queue %d", f.Flow, f.Cwnd, f.RTTus, f.Queue)
		}
	}
	if measured == 0 {
		t.Error("nothing was sent in the measured time")
	}
}

// largest is the lower bound of the highest bucket that the transmit queues'
// GSO histograms have.
func largest(r *vmtest.Run) int {
	top := 0
	for _, q := range r.Queues {
		for bound, n := range q.GSOHist {
			if b, _ := strconv.Atoi(bound); n > 0 && q.Dir == "tx" {
				top = max(top, b)
			}
		}
	}
	return top
}

// TestLargeWrites shows that packets of more than 32 KB cross the device whole.
func TestLargeWrites(t *testing.T) {
	r := run(t, scenario(1, "write", "64k"), qemuguest.Config{})
	checkKicks(t, r)
	checkBytes(t, r)
	if got := largest(r); got < 32768 {
		t.Errorf("the largest packets had %d bytes, want 32768 and more", got)
	}
}

// TestNoSegmentation: without TSO and GSO no packet exceeds one segment.
func TestNoSegmentation(t *testing.T) {
	r := run(t, scenario(1, "tso", "off", "gso", "off", "write", "16k"), qemuguest.Config{})
	checkKicks(t, r)
	checkBytes(t, r)
	if got := largest(r); got != 1024 || r.Totals.GSOMeanBytes > float64(r.MSS) || r.Totals.BigShare != 0 {
		t.Errorf("packets of %d bytes and more, mean %v, with an MSS of %d", got, r.Totals.GSOMeanBytes, r.MSS)
	}
}

// TestVariety sets what else a scenario can, and follows the packets of a
// trace.
func TestVariety(t *testing.T) {
	s := scenario(1, "ip", "6", "qdisc", "fq", "cc", "bbr", "pacing", "4MB/s", "mtu", "9000",
		"gso_max_size", "20000", "policy", "hold:packets=8,time=100us", "sysctl.tcp_limit_output_bytes", "262144")
	needGuest(t, s.Kernel)
	var trace bytes.Buffer
	r, err := qemuguest.New(qemuguest.Config{}).Run(context.Background(), s, vmtest.Options{Trace: &trace})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(brief(r))
	checkKicks(t, r)
	checkBytes(t, r)
	if top := largest(r); top > 16384 || top < 4096 {
		t.Errorf("packets of %d bytes and more, with gso_max_size 20000", top)
	}
	if r.Totals.GoodputBps > 2.2*4e6*8 {
		t.Errorf("%v bit/s of two flows that are paced to 4 MB/s each", r.Totals.GoodputBps)
	}
	checkTrace(t, trace.String(), r)
}

// checkTrace adds up the payload of a trace: it is what the flows sent, and
// retransmissions.
func checkTrace(t *testing.T, trace string, r *vmtest.Run) {
	t.Helper()
	end := map[int]int64{} // by flow, one past the last byte
	acked := map[int]int64{}
	for line := range strings.Lines(trace) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, "#") || f[0] == "t_ns" {
			continue
		}
		flow, _ := strconv.Atoi(f[2])
		seq, _ := strconv.ParseInt(f[3], 10, 64)
		ack, _ := strconv.ParseInt(f[4], 10, 64)
		n, _ := strconv.ParseInt(f[5], 10, 64)
		if f[1] == "tx" {
			end[flow] = max(end[flow], seq+n-1) // the SYN takes a number
			continue
		}
		acked[flow] = max(acked[flow], ack-1)
	}
	for _, f := range r.Flows {
		// The FIN takes a number as well; its acknowledgement may not be in
		// the trace.
		if d := end[f.Flow] - *f.SentBytes; d < 0 || d > 1 {
			t.Errorf("flow %d: the trace ends at byte %d of %d", f.Flow, end[f.Flow], *f.SentBytes)
		}
		if d := acked[f.Flow] - *f.SentBytes; d < 0 || d > 1 {
			t.Errorf("flow %d: the trace acknowledges %d bytes of %d", f.Flow, acked[f.Flow], *f.SentBytes)
		}
	}
}

// TestOtherKernel is the same with the newer kernel, if it is here.
func TestOtherKernel(t *testing.T) {
	r := run(t, scenario(2, "kernel", "6.12"), qemuguest.Config{})
	checkKicks(t, r)
	checkBytes(t, r)
	if !strings.HasPrefix(r.KernelVersion, "6.12.") || r.Release != vmtest.ReleaseNAPI {
		t.Errorf("kernel %s, release %s; want 6.12 and its default, napi", r.KernelVersion, r.Release)
	}
}
