package testpmd_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/reflect"
	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/hostnet/source"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest/testpmd"
)

// backendMark has a process of this test be a back-end on the socket that it
// names, instead of the test.
const backendMark = "VNETBENCH_TEST_BACKEND"

func TestMain(m *testing.M) {
	if path := os.Getenv(backendMark); path != "" {
		beBackend(path)
		return
	}
	os.Exit(m.Run())
}

// beBackend connects to a front-end that listens, until it is killed.
func beBackend(path string) {
	srv, err := vhost.Listen(vhost.Config{SocketPath: path, Client: true, Ports: []vhost.Port{&sink.Port{}}})
	if err == nil {
		err = srv.Serve(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// need skips a test without testpmd; where CI=true, not having it is a failure.
func need(t *testing.T) {
	t.Helper()
	if _, err := testpmd.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED, NOT TESTED:", err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// backend is a server in this process.
type backend struct {
	*vhost.Server
	path string
}

// serve starts a back-end with a port for each pair.
func serve(t *testing.T, ports ...vhost.Port) *backend {
	t.Helper()
	dir, err := os.MkdirTemp("", "vnb")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &backend{path: filepath.Join(dir, "s")}
	b.Server, err = vhost.Listen(vhost.Config{
		SocketPath: b.path, Ports: ports, Device: netdev.Config{QueuePairs: len(ports)}, PollTime: 50 * time.Microsecond,
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx) }()
	t.Cleanup(func() { cancel(); check(t, <-done) })
	return b
}

// acked are the features of the newest session.
func (b *backend) acked() virtio.Features {
	s := b.Stats().Sessions
	return virtio.Features(s[len(s)-1].Acked)
}

// frontEnd starts testpmd, which the test's end quits.
func frontEnd(t *testing.T, device string, args ...string) *testpmd.Process {
	t.Helper()
	p, err := testpmd.Start(context.Background(), testpmd.Config{
		CPU: anyCPU(), VDev: device, Args: args, Memory: 128, Mbufs: 16 << 10, // for four rings of 1024
	})
	check(t, err)
	t.Cleanup(p.Kill)
	return p
}

// anyCPU is the last CPU: the first has the most to do.
func anyCPU() int { return cpus() - 1 }

func cpus() (n int) {
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 1
	}
	s := strings.TrimSpace(string(list))
	_, _ = fmt.Sscanf(s[strings.LastIndexAny(s, "-,")+1:], "%d", &n)
	return n + 1
}

// eventually waits until ok, a minute at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// cell is one combination of the matrix.
type cell struct {
	packed, mrg, inOrder bool
	queues               int
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (c cell) String() string {
	kind := "split"
	if c.packed {
		kind = "packed"
	}
	return fmt.Sprintf("%s-mrg%d-inorder%d-%dq", kind, bit(c.mrg), bit(c.inOrder), c.queues)
}

// cells are all combinations.
func cells() (all []cell) {
	for _, queues := range []int{1, 2, 4} {
		for i := range 8 {
			all = append(all, cell{packed: i&1 != 0, mrg: i&2 == 0, inOrder: i&4 == 0, queues: queues})
		}
	}
	return all
}

// row is a line of the table that a test of the matrix prints.
type row struct {
	ring, feature, result string
}

// show prints the table.
func show(t *testing.T, rows []row) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-22s %-8s %-44s %s\n", "front-end", "ring", "feature", "result")
	for _, r := range rows {
		fmt.Fprintf(&b, "%-22s %-8s %-44s %s\n", "virtio-user (testpmd)", r.ring, r.feature, r.result)
	}
	t.Log(b.String())
}

func ringName(packed bool) string {
	if packed {
		return "packed"
	}
	return "split"
}

func verdict(ok bool, says string) string {
	if ok {
		return "ok: " + says
	}
	return "FAILED"
}

// TestMatrix has testpmd send through every kind of ring to a port that sends
// everything back, which testpmd sends again. Every pair carries packets both
// ways, the device takes exactly those that testpmd says it sent, and drops none.
func TestMatrix(t *testing.T) {
	need(t)
	var rows []row
	for _, c := range cells() {
		says := ""
		ok := t.Run(c.String(), func(t *testing.T) { says = c.run(t) })
		rows = append(rows, row{ringName(c.packed),
			fmt.Sprintf("mrg_rxbuf=%d in_order=%d queues=%d", bit(c.mrg), bit(c.inOrder), c.queues), verdict(ok, says)})
	}
	show(t, rows)
}

func (c cell) run(t *testing.T) string {
	var ports []vhost.Port
	for range c.queues {
		p, err := reflect.New()
		check(t, err)
		t.Cleanup(func() { check(t, p.Close()) })
		ports = append(ports, p)
	}
	b := serve(t, ports...)
	f := frontEnd(t, testpmd.FrontEnd(b.path, c.queues, fmt.Sprintf("packed_vq=%d", bit(c.packed)),
		fmt.Sprintf("mrg_rxbuf=%d", bit(c.mrg)), fmt.Sprintf("in_order=%d", bit(c.inOrder))),
		fmt.Sprintf("--rxq=%d", c.queues), fmt.Sprintf("--txq=%d", c.queues))
	for what, want := range map[virtio.Features]bool{
		virtio.FeatureRingPacked: c.packed, virtio.FeatureMrgRxBuf: c.mrg, virtio.FeatureInOrder: c.inOrder,
	} {
		if b.acked().Has(what) != want {
			t.Errorf("%v acknowledged: %v, want %v", what, !want, want)
		}
	}
	return c.turn(t, b, f)
}

// turn sends packets in a circle, stops, and compares the counts of both sides.
func (c cell) turn(t *testing.T, b *backend, f *testpmd.Process) string {
	_, err := f.Do("set fwd io", "start tx_first 4")
	check(t, err)
	eventually(t, "every pair carries packets both ways", func() bool {
		for _, p := range b.Stats().Pairs {
			if p.TX.Packets < 1000 || p.RX.Packets < 1000 {
				return false
			}
		}
		return true
	})
	_, err = f.Do("stop")
	check(t, err)
	s, err := f.Stats()
	check(t, err)
	var tx, rx uint64
	eventually(t, "the device has what testpmd sent", func() bool {
		tx, rx = 0, 0
		for _, p := range b.Stats().Pairs {
			tx += p.TX.Packets
			rx += p.RX.Packets
		}
		return tx == s.TxPackets
	})
	if rx < s.RxPackets {
		t.Errorf("testpmd received %d packets, the device delivered %d", s.RxPackets, rx)
	}
	for i, p := range b.Stats().Pairs {
		if n := p.TX.Drops.Total() + p.RX.Drops.Total(); n > 0 {
			t.Errorf("pair %d dropped %d: %v %v", i, n, p.TX.Drops, p.RX.Drops)
		}
	}
	return fmt.Sprintf("%d sent, %d received", tx, rx)
}

// TestTSO has testpmd receive GSO packets and send them on as such, on both kinds
// of ring: none is cut on the way.
func TestTSO(t *testing.T) {
	need(t)
	const bytes = 65226
	var rows []row
	for _, packed := range []bool{false, true} {
		says := ""
		ok := t.Run(ringName(packed), func(t *testing.T) {
			p, err := source.New(bytes, [6]byte{0x52, 0x54, 0, 0x12, 0x34, 0x56})
			check(t, err)
			b := serve(t, p)
			f := frontEnd(t, testpmd.FrontEnd(b.path, 1, fmt.Sprintf("packed_vq=%d", bit(packed))),
				"--tx-offloads=0x802c", "--rx-offloads=0x1c")
			if want := virtio.FeatureGuestTSO4 | virtio.FeatureHostTSO4; !b.acked().Has(want) {
				t.Errorf("acknowledged %v, want %v", b.acked(), want)
			}
			_, err = f.Do("port stop 0", "csum set tcp hw 0", "tso set 1448 0", "port start 0", "set fwd csum", "start")
			check(t, err)
			eventually(t, "GSO packets come back", func() bool { return b.Stats().Pairs[0].TX.GSOPackets > 500 })
			_, err = f.Do("stop")
			check(t, err)
			s, err := f.Stats()
			check(t, err)
			eventually(t, "the device has what testpmd sent", func() bool { return b.Stats().Pairs[0].TX.Packets == s.TxPackets })
			got := b.Stats().Pairs[0]
			if got.TX.GSOPackets != got.TX.Packets || got.TX.Bytes != got.TX.Packets*bytes || got.TX.Drops.Total() > 0 {
				t.Errorf("%d of %d packets were GSO, %d bytes, drops %v", got.TX.GSOPackets, got.TX.Packets, got.TX.Bytes, got.TX.Drops)
			}
			if s.RxBytes != s.RxPackets*bytes {
				t.Errorf("testpmd received %d packets of %d bytes in all", s.RxPackets, s.RxBytes)
			}
			says = fmt.Sprintf("%d GSO packets of %d bytes there and back", got.TX.Packets, bytes)
		})
		rows = append(rows, row{ringName(packed), "TSO, both ways", verdict(ok, says)})
	}
	show(t, rows)
}

// TestBackendKilled has testpmd listen (server=1) and send while its back-end is
// killed and started again: it goes on each time.
func TestBackendKilled(t *testing.T) {
	need(t)
	const kills = 3
	var rows []row
	for _, packed := range []bool{false, true} {
		ok := t.Run(ringName(packed), func(t *testing.T) {
			dir, err := os.MkdirTemp("", "vnb")
			check(t, err)
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "s")
			started := make(chan *exec.Cmd, 1)
			go func() { // testpmd takes no command before a back-end has come
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
					if _, err := os.Lstat(path); err == nil {
						break
					}
				}
				started <- startBackend(path)
			}()
			f := frontEnd(t, testpmd.FrontEnd(path, 1, fmt.Sprintf("packed_vq=%d", bit(packed)), "server=1"))
			b := <-started
			defer func() { end(b) }()
			_, err = f.Do("set fwd txonly", "start")
			check(t, err)
			for range kills {
				sends(t, f)
				end(b)
				if packed {
					quiet(t, f)
				}
				b = startBackend(path)
				if packed {
					link(t, f, "up")
					_, err = f.Do("start")
					check(t, err)
				}
			}
			sends(t, f)
		})
		rows = append(rows, row{ringName(packed), "server=1, back-end killed and started", verdict(ok, fmt.Sprintf("%d times", kills))})
	}
	show(t, rows)
}

// quiet has testpmd stop sending, once it knows that its back-end is gone. For a
// packed ring it begins anew with the next one, and gives a burst that is under way
// a millisecond to end (virtio_user_reset_queues_packed, DPDK 22.11). A thread that
// waits for its CPU takes longer, and then writes into a ring that is no more.
func quiet(t *testing.T, f *testpmd.Process) {
	t.Helper()
	link(t, f, "down")
	_, err := f.Do("stop")
	check(t, err)
}

// link waits until testpmd says this of its link; "up" follows the reset of rings.
func link(t *testing.T, f *testpmd.Process, status string) {
	t.Helper()
	eventually(t, "link status "+status, func() bool {
		s, err := f.Do("show port info 0")
		check(t, err)
		return strings.Contains(s, "Link status: "+status)
	})
}

// sends waits until testpmd has sent more than its rings hold.
func sends(t *testing.T, f *testpmd.Process) {
	t.Helper()
	from, err := f.Stats()
	check(t, err)
	eventually(t, "packets are sent", func() bool {
		s, err := f.Stats()
		check(t, err)
		return s.TxPackets > from.TxPackets+100_000
	})
}

// startBackend starts this test's program as a back-end.
func startBackend(path string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), backendMark+"="+path)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		panic(err)
	}
	return c
}

// end kills a back-end.
func end(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait()
}
