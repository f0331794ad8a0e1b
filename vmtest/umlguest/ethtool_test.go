package umlguest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/u-root/mkuimage/cpio"

	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// A kernel in user mode, in real time, behind the same back-end that `vnetbench
// serve` runs: its ethtool calls set coalescing (NOTF_COAL and VQ_NOTF_COAL),
// which the device honours, and read the device's own counters (DEVICE_STATS).
// QEMU passes none of the three on.
func TestEthtool(t *testing.T) {
	for _, name := range umlguest.Named {
		t.Run(name, func(t *testing.T) {
			k, err := umlguest.FindKernel(context.Background(), kernel(t, name))
			if err != nil {
				t.Fatal(err)
			}
			g := startPlain(t, k, netdev.DefaultFeatures, &sink.Port{}, &sink.Port{})
			said := g.report(t)
			st := g.srv.Stats()
			if acked := st.Sessions[0].Acked; !acked.Has(virtio.FeatureRingPacked) {
				t.Errorf("acknowledged %v, without packed rings", acked)
			}
			checkCoalescing(t, said, &st, name)
			checkUSO(t, &st, name)
			if name == "6.12" { // 6.1 knows neither per-queue parameters nor counters
				checkCounters(t, said, &st)
			}
			if said["speed"] != "25000 1" {
				t.Errorf("speed and duplex %q, want 25000 Mbit/s, full", said["speed"])
			}
		})
	}
}

// datagramHeaders is the length in bytes of Ethernet, IPv4 and UDP headers.
const datagramHeaders = 14 + 20 + 8

// checkUSO: a send of 10 datagrams of 1000 bytes is one packet where the kernel
// has USO, which 6.12 has and 6.1 has not.
func checkUSO(t *testing.T, st *vhost.Stats, kernel string) {
	t.Helper()
	var tx netdev.Stats
	for i := range st.Pairs {
		tx.Merge(&st.Pairs[i].TX)
	}
	packets, segs := uint64(0), uint64(0)
	if kernel == "6.12" {
		packets, segs = 1, 10
	}
	if tx.GSOPackets != packets || tx.GSOSegs != segs || tx.Segs != 110 {
		t.Errorf("%d large packets of %d datagrams, %d datagrams in all; want %d of %d, and 110", tx.GSOPackets, tx.GSOSegs, tx.Segs, packets, segs)
	}
}

// plainSink is a sink that takes no offloads.
type plainSink struct{ sink.Port }

func (*plainSink) Offloads() virtio.Features { return 0 }

// A host's side that takes no offloads gets the datagrams of a real kernel's USO
// one by one.
func TestUSOIsCut(t *testing.T) {
	k, err := umlguest.FindKernel(context.Background(), kernel(t, "6.12"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := &plainSink{}, &plainSink{}
	g := startPlain(t, k, netdev.DefaultFeatures, a, b)
	said := g.report(t)
	st := g.srv.Stats()
	checkUSO(t, &st, "6.12")
	frames, largest := a.Stats().Frames+b.Stats().Frames, max(a.Stats().Largest, b.Stats().Largest)
	if frames != 110 || largest != datagramHeaders+1000 || st.Pairs[0].TX.Cut+st.Pairs[1].TX.Cut != 110 {
		t.Errorf("the sink got %d frames of up to %d bytes; said %v", frames, largest, said)
	}
}

// A device that also offers HASH_REPORT and RSS: the kernel sets hashes, key and
// table when it finds the device, and puts net headers of 20 bytes before what it
// sends.
func TestHashes(t *testing.T) {
	for _, name := range umlguest.Named {
		t.Run(name, func(t *testing.T) {
			k, err := umlguest.FindKernel(context.Background(), kernel(t, name))
			if err != nil {
				t.Fatal(err)
			}
			g := startPlain(t, k, netdev.DefaultFeatures|virtio.FeatureHashReport|virtio.FeatureRSS, &sink.Port{}, &sink.Port{})
			said := g.report(t)
			st := g.srv.Stats()
			checkCoalescing(t, said, &st, name)
			if acked := st.Sessions[0].Acked; !acked.Has(virtio.FeatureHashReport | virtio.FeatureRSS) {
				t.Errorf("the kernel acknowledged %v", acked)
			}
			var sent netdev.Stats
			for i := range st.Pairs {
				sent.Merge(&st.Pairs[i].TX)
			}
			want := uint64(100*(datagramHeaders+200) + 10*(datagramHeaders+1000))
			if name == "6.12" {
				want -= 9 * datagramHeaders // it leaves the cutting to the device
			}
			if sent.Bytes != want || sent.Drops.Total() != 0 {
				t.Errorf("%d packets of %d bytes in all, want %d; %d dropped", sent.Packets, sent.Bytes, want, sent.Drops.Total())
			}
		})
	}
}

func checkCoalescing(t *testing.T, said map[string]string, st *vhost.Stats, kernel string) {
	t.Helper()
	if said["after"] != "16 2000 8 300" || said["sent"] != "100" {
		t.Fatalf("after `ethtool -C`: %q; said %v", said["after"], said)
	}
	if st.Ctrl.Refused != 0 || st.Ctrl.Packets == 0 {
		t.Errorf("%d commands, %d refused", st.Ctrl.Packets, st.Ctrl.Refused)
	}
	var held, calls, sent uint64
	for _, p := range st.Pairs {
		held += p.TX.CallsSuppressed[netdev.CallCoalesce]
		calls, sent = calls+p.TX.Calls, sent+p.TX.Packets
	}
	if sent < 100 || held == 0 || calls >= sent/2 {
		t.Errorf("%d packets, %d calls, held back %d times", sent, calls, held)
	}
	t.Logf("%s: %d packets sent, %d calls, held back %d times, %d commands; counters of the device in the guest: tx0_hw_interrupts %q, tx1_hw_interrupts %q",
		kernel, sent, calls, held, st.Ctrl.Packets, said["stat tx0_hw_interrupts"], said["stat tx1_hw_interrupts"])
}

// checkCounters holds what the guest was told against the back-end's counters.
func checkCounters(t *testing.T, said map[string]string, st *vhost.Stats) {
	t.Helper()
	for i, p := range st.Pairs {
		for name, want := range map[string]uint64{
			fmt.Sprintf("stat tx%d_hw_packets", i):       p.TX.Packets,
			fmt.Sprintf("stat tx%d_hw_bytes", i):         p.TX.Bytes,
			fmt.Sprintf("stat tx%d_hw_notifications", i): p.TX.Kicks,
			fmt.Sprintf("stat tx%d_hw_interrupts", i):    p.TX.Calls,
			fmt.Sprintf("stat rx%d_hw_packets", i):       p.RX.Packets,
		} {
			if got, ok := said[name]; !ok || got != strconv.FormatUint(want, 10) {
				t.Errorf("%s: %q, the device counted %d", name, got, want)
			}
		}
	}
	if said["queue"] != "1" {
		t.Errorf("coalescing of one queue: %q", said["queue"])
	}
}

// plainGuest is a kernel in real time with a program of the test's, and its
// back-end.
type plainGuest struct {
	cmd     *exec.Cmd
	srv     *vhost.Server
	console *bytes.Buffer
}

// startPlain starts a kernel with the program of testdata, behind a device that
// offers these features and has these two ports.
func startPlain(t *testing.T, k umlguest.Kernel, features virtio.Features, ports ...vhost.Port) *plainGuest {
	t.Helper()
	dir, err := os.MkdirTemp("", "vnb-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	out, err := exec.Command("gcc", "-static", "-O2", "-x", "c", "-o", filepath.Join(dir, "init"), filepath.Join("testdata", "ethtool.c.txt")).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	writeArchive(t, dir)
	g := &plainGuest{srv: serveTwoPairs(t, filepath.Join(dir, "net"), features, ports), console: &bytes.Buffer{}}
	g.cmd = exec.Command(k.Path, "mem=64M", "initrd=initrd", "con=null", "con0=null,fd:1", "quiet", "uml_dir=.", "umid=uml",
		"virtio_uml.device=net:1", "ipv6.disable=1") // what IPv6 sends comes at times of its own
	g.cmd.Dir, g.cmd.Stdout, g.cmd.Stderr = dir, g.console, g.console
	g.cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return g
}

func writeArchive(t *testing.T, dir string) {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(dir, "init"))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := cpio.Newc.Writer(&buf)
	for _, r := range []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.CharDev("dev/console", 0o600, 5, 1),
		cpio.StaticRecord(program, cpio.Info{Name: "init", Mode: cpio.S_IFREG | 0o755, NLink: 1}), cpio.TrailerRecord,
	} {
		if err := w.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "initrd"), buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveTwoPairs serves a device of two pairs that throws away what it gets, until
// the test's end.
func serveTwoPairs(t *testing.T, socket string, features virtio.Features, ports []vhost.Port) *vhost.Server {
	t.Helper()
	srv, err := vhost.Listen(vhost.Config{
		SocketPath: socket, Ports: ports,
		Device: netdev.Config{QueuePairs: 2, SpeedMbit: 25000, Features: features &^ virtio.FeatureMTU},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return srv
}

// report waits for the guest's end and returns what its program printed: the last
// word or words of each line by those before it.
func (g *plainGuest) report(t *testing.T) map[string]string {
	t.Helper()
	patience := time.AfterFunc(60*time.Second, func() { _ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) })
	err := g.cmd.Wait()
	patience.Stop()
	_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) // its helpers
	said := map[string]string{}
	for line := range strings.Lines(g.console.String()) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "@")
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(text, " ")
		if key == "stat" {
			name, n, _ := strings.Cut(value, " ")
			key, value = "stat "+name, n
		}
		said[key] = value
	}
	if _, ok := said["done"]; !ok || err != nil {
		t.Fatalf("guest: %v\n%s", err, g.console)
	}
	return said
}
