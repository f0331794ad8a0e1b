package tap_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// needRoot skips a test that needs a network namespace and a tap; where
// CI=true, not having them is a failure.
func needRoot(t testing.TB) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "needs root for a tap in a network namespace"
	} else if _, err := os.Stat("/dev/net/tun"); err != nil {
		why = err.Error()
	}
	if why == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, NOT TESTED:", why)
}

// inNamespace runs f on a thread in a new network namespace. The namespace goes
// when what f opened is closed.
func inNamespace(t testing.TB, f func() error) {
	t.Helper()
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done) // also when f ends the goroutine by t.Fatal
		runtime.LockOSThread()
		var ns netns.NsHandle
		if ns, err = netns.New(); err == nil {
			defer ns.Close()
			err = f()
		}
	}()
	<-done
	if t.Failed() {
		t.FailNow()
	}
	check(t, err)
}

// Layout of an end's guest memory.
const (
	ringSize  = 256
	bufSize   = 2048
	buffersAt = 1 << 16
	memSize   = buffersAt + ringSize*bufSize
)

// end is a tap queue with a receive ring behind it, and the guest that fills
// and empties the ring.
type end struct {
	t    testing.TB
	q    *tap.Queue
	pair *netdev.Pair
	drv  *ring.Driver
	mem  []byte
	big  int // bytes of the largest frame taken
	gso  int // frames taken that were to be segmented
}

const features = virtio.FeatureVersion1 | virtio.FeatureMrgRxBuf | virtio.FeatureEventIdx | virtio.FeatureMAC |
	virtio.FeatureCSum | virtio.FeatureHostTSO4 | virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4

func newEnd(t testing.TB, q *tap.Queue) *end {
	e := &end{t: t, q: q, mem: make([]byte, memSize)}
	mem, err := shm.NewMemory([]shm.Region{{GPA: 0, UVA: 0x7f0000000000, Mem: e.mem}})
	check(t, err)
	need := ring.BytesNeeded(ringSize)
	cfg := ring.Config{Size: ringSize, Desc: 0, Avail: need.Desc, Used: (need.Desc + need.Avail + 3) &^ 3, Features: features}
	e.drv, err = ring.NewDriver(mem, cfg)
	check(t, err)
	for i := range ringSize {
		e.post(uint32(i))
	}
	e.drv.Publish()
	dev, err := netdev.New(netdev.Config{})
	check(t, err)
	check(t, dev.SetFeatures(features))
	e.pair = dev.Pair(0)
	rx, err := ring.NewDevice(mem, cfg)
	check(t, err)
	e.pair.AttachRX(0, rx)
	check(t, q.Negotiated(features))
	check(t, q.Enable(true))
	return e
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (e *end) buf(token uint32) []byte {
	at := buffersAt + int(token)*bufSize
	return e.mem[at : at+bufSize]
}

func (e *end) post(token uint32) {
	check(e.t, e.drv.Add(nil, []ring.Buf{{Addr: buffersAt + uint64(token)*bufSize, Len: bufSize}}, token))
}

// forward moves the frames that wait at e to the other end's tap, out of the
// guest memory that they were read into. It reports whether there were any.
func (e *end) forward(to *end) bool {
	n, _, err := e.q.Receive(0, e.pair.RX, 64)
	check(e.t, err)
	e.pair.RX.Poll(0, netdev.Budget{})
	for e.forwardOne(to) {
	}
	e.drv.Publish()
	return n > 0
}

// forwardOne is one frame, which may lie in several buffers.
func (e *end) forwardOne(to *end) bool {
	token, n, ok := e.drv.Reap()
	if !ok {
		return false
	}
	var h virtio.NetHdr
	h.Decode(e.buf(token))
	tokens := []uint32{token}
	iov := [][]byte{e.buf(token)[virtio.NetHdrLen:n]}
	for range h.NumBuffers - 1 {
		token, n, ok = e.drv.Reap()
		if !ok {
			e.t.Fatal("a frame's buffers were not published together")
		}
		tokens, iov = append(tokens, token), append(iov, e.buf(token)[:n])
	}
	size := 0
	for _, b := range iov {
		size += len(b)
	}
	e.big = max(e.big, size)
	if h.GSOType != virtio.GSONone {
		e.gso++
	}
	h.HdrLen, h.NumBuffers = 0, 0
	if _, r := to.q.Send(0, &h, iov, 0); r != netdev.Sent {
		e.t.Fatalf("Send answers %v", r)
	}
	for _, token := range tokens {
		e.post(token)
	}
	return true
}

// site is a namespace with a tap.
type site struct {
	tap    *tap.Tap
	listen net.Listener
	dial   func() (net.Conn, error)
}

func newSite(t testing.TB, addr, peer string) *site {
	t.Helper()
	s := new(site)
	inNamespace(t, func() (err error) {
		if s.tap, err = tap.Open(tap.Config{Name: "t%d"}); err != nil {
			return err
		}
		link, err := netlink.LinkByName(s.tap.Name())
		if err != nil {
			return err
		}
		a, _ := netlink.ParseAddr(addr + "/24")
		if err := netlink.AddrAdd(link, a); err != nil {
			return err
		}
		if err := s.tap.Up(); err != nil {
			return err
		}
		s.listen, err = net.Listen("tcp", addr+":9000")
		if err != nil {
			return err
		}
		s.dial, err = prepareDial(peer)
		return err
	})
	t.Cleanup(func() { s.listen.Close(); s.tap.Close() })
	return s
}

// prepareDial makes a socket in the thread's namespace, to be connected later.
func prepareDial(peer string) (func() (net.Conn, error), error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return func() (net.Conn, error) {
		to := &unix.SockaddrInet4{Port: 9000, Addr: [4]byte(net.ParseIP(peer).To4())}
		if err := unix.Connect(fd, to); err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), "tcp")
		defer f.Close()
		return net.FileConn(f)
	}, nil
}

// TestCable joins two taps by a cable that runs through guest memory and sends
// TCP from one kernel socket to the other: what arrives is what was sent, and
// the kernel's large packets crossed whole.
func TestCable(t *testing.T) {
	needRoot(t)
	a, b := newSite(t, "10.9.8.1", "10.9.8.2"), newSite(t, "10.9.8.2", "10.9.8.1")
	left, right := newEnd(t, a.tap.Queue(0)), newEnd(t, b.tap.Queue(0))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			busy := left.forward(right)
			busy = right.forward(left) || busy
			select {
			case <-stop:
				return
			default:
			}
			if !busy {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	sent, got := transfer(t, a, b, 24<<20)
	close(stop)
	<-stopped
	if !bytes.Equal(sent, got) {
		t.Fatal("what arrived is not what was sent")
	}
	if left.big <= 32<<10 || left.gso == 0 {
		t.Errorf("the largest of %d GSO frames had %d bytes, want more than 32 KiB", left.gso, left.big)
	}
	lost := tap.Stats{Sent: a.tap.Queue(0).Stats().Sent, Received: a.tap.Queue(0).Stats().Received}
	if st := a.tap.Queue(0).Stats(); st != lost {
		t.Errorf("frames were lost: %+v", st)
	}
	t.Logf("largest frame %d bytes, %d GSO frames, stats %+v", left.big, left.gso, a.tap.Queue(0).Stats())
}

// transfer sends n bytes from a to b and returns the digests of both ends.
func transfer(t *testing.T, a, b *site, n int) (sent, got []byte) {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		c, err := b.listen.Accept()
		if err == nil {
			h := sha256.New()
			_, err = io.Copy(h, c)
			got = h.Sum(nil)
			c.Close()
		}
		result <- err
	}()
	c, err := a.dial()
	check(t, err)
	h := sha256.New()
	chunk := make([]byte, 1<<20)
	for i := 0; i < n; i += len(chunk) {
		copy(chunk, fmt.Sprint(i))
		h.Write(chunk)
		_, err := c.Write(chunk)
		check(t, err)
	}
	c.Close()
	select {
	case err := <-result:
		check(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the transfer does not end")
	}
	return h.Sum(nil), got
}

// TestSendAllocs shows that a frame costs no allocation, however many pieces
// it lies in.
func TestSendAllocs(t *testing.T) {
	needRoot(t)
	s := newSite(t, "10.9.8.1", "10.9.8.2")
	q := s.tap.Queue(0)
	check(t, q.Enable(true))
	pieces := make([][]byte, 17)
	for i := range pieces {
		pieces[i] = make([]byte, 64)
	}
	h := virtio.NetHdr{}
	if n := testing.AllocsPerRun(100, func() { q.Send(0, &h, pieces, 0) }); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
	if st := q.Stats(); st.Sent != 101 {
		t.Errorf("sent %d of 101 frames: %+v", st.Sent, st)
	}
}

// TestReceiveAllocs shows the same for the other direction.
func TestReceiveAllocs(t *testing.T) {
	needRoot(t)
	a, b := newSite(t, "10.9.8.1", "10.9.8.2"), newSite(t, "10.9.8.2", "10.9.8.1")
	left, right := newEnd(t, a.tap.Queue(0)), newEnd(t, b.tap.Queue(0))
	left.forward(right) // the scratch of the device grows once
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := left.q.Receive(0, left.pair.RX, 64); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a look at an empty tap", n)
	}
}
