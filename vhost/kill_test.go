package vhost_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// kills is how often a back-end is killed: 4 times, or as often as
// VNETBENCH_KILLS says.
func kills(t *testing.T) int {
	text := os.Getenv("VNETBENCH_KILLS")
	if text == "" {
		return 4
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("VNETBENCH_KILLS: %v", err)
	}
	return n
}

// killed is a guest whose back-end is a process that dies.
type killed struct {
	t      *testing.T
	path   string
	wires  *wires
	cmd    *exec.Cmd
	g      *frontend.Guest
	rx, tx *frontend.Ring
	record *frontend.Inflight // nil without

	sent, back uint64 // chains of the transmit ring
	posted     uint64 // chains of the receive ring
	received   map[uint64]int
	scratch    [2048]byte
	wrong      int
}

// TestSIGKILL kills the back-end under load, in both directions, and starts it
// again. With a record of chains in flight each descriptor comes back once, and
// no frame that the guest sent is missing at the receiver; a frame that was on
// the wire when the process died may come there twice, as far as it was not yet
// given back. Without a record a split ring goes on from its used index, where
// the same holds of a device that finishes in order. A receiver's frames that
// were taken from the wire and not yet in the guest are lost, as on any wire.
func TestSIGKILL(t *testing.T) {
	for name, f := range ringKinds() {
		for _, recorded := range []bool{true, false} {
			if !recorded && f.Has(virtio.FeatureRingPacked) {
				continue // only the driver can start it anew (TestFault164PackedReconnect)
			}
			t.Run(name+map[bool]string{true: ", recorded", false: ", from the used index"}[recorded], func(t *testing.T) {
				k := newKilled(t, f, recorded)
				n := kills(t)
				for range n {
					k.load(time.Duration(2000+rand.IntN(20000)) * time.Microsecond)
					k.kill()
					k.load(2 * time.Millisecond) // the guest does not know yet
					k.start()
					k.resume()
				}
				k.load(20 * time.Millisecond)
				k.finish(n)
			})
		}
	}
}

func newKilled(t *testing.T, f virtio.Features, recorded bool) *killed {
	w, err := newWires()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close)
	k := &killed{t: t, path: filepath.Join(socketDir(t), "s"), wires: w, received: make(map[uint64]int)}
	k.start()
	t.Cleanup(func() { k.kill() })
	k.g, err = frontend.NewGuestOn(k.dial(), 16<<20)
	k.ok(err)
	t.Cleanup(k.g.Close)
	k.ok(k.g.Negotiate(f, vhost.ProtocolOffer))
	k.rx, err = k.g.AddRing(0, 256, 2048)
	k.ok(err)
	k.tx, err = k.g.AddRing(1, 256, 2048)
	k.ok(err)
	if recorded {
		k.record, err = k.g.AskInflight(2, 256)
		k.ok(err)
		t.Cleanup(k.record.Close)
	}
	k.share(k.rx.Config.Base, k.tx.Config.Base)
	return k
}

func (k *killed) ok(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// start starts a back-end.
func (k *killed) start() {
	self, err := os.Executable()
	k.ok(err)
	k.cmd = exec.Command(self)
	k.cmd.Env = append(os.Environ(), backendVariable+"="+k.path)
	k.cmd.Stderr = os.Stderr
	k.cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(k.t, k.wires.backendOut)), "out"), os.NewFile(uintptr(dup(k.t, k.wires.backendIn)), "in")}
	k.ok(k.cmd.Start())
	for _, f := range k.cmd.ExtraFiles {
		f.Close()
	}
}

func (k *killed) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// dial connects as soon as the back-end listens.
func (k *killed) dial() *frontend.Conn {
	k.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := frontend.Dial(k.path[strings.Index(k.path, ":")+1:])
		if err == nil {
			return c
		}
		if time.Now().After(end) || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			k.t.Fatal(err)
		}
	}
}

func (k *killed) share(rx, tx uint32) {
	k.t.Helper()
	k.ok(k.g.ShareMemory())
	if k.record != nil {
		k.ok(k.g.ShareInflight(k.record))
	}
	k.ok(k.g.Start(k.rx, rx))
	k.ok(k.g.Start(k.tx, tx))
}

// resume connects to the back-end that has come in the place of the dead one.
func (k *killed) resume() {
	k.t.Helper()
	k.ok(k.g.Resume(k.dial()))
	k.share(k.rx.ResumeBase(), k.tx.ResumeBase())
}

// load sends and receives for a time, whether somebody is there or not.
func (k *killed) load(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		k.turn(true)
	}
}

// turn does what there is to do once.
func (k *killed) turn(send bool) {
	for range 32 {
		if !send || !k.tx.Transmit(&virtio.NetHdr{}, numbered(k.sent, k.scratch[:])) {
			break
		}
		k.sent++
	}
	if k.tx.Notify(); send {
		k.wires.feed()
	}
	k.wires.take()
	for {
		if _, _, ok := k.tx.Done(); !ok {
			break
		}
		k.back++
	}
	for {
		token, n, ok := k.rx.Done()
		if !ok {
			break
		}
		k.take(token, n)
	}
	k.posted += uint64(k.rx.Post())
	k.rx.Notify()
}

func (k *killed) take(token, n uint32) {
	if n < virtio.NetHdrLen || n > 2048 {
		k.wrong++
		return
	}
	f, ok := numberOf(k.rx.Buffer(token)[virtio.NetHdrLen:n], k.scratch[:])
	if !ok {
		k.wrong++
		return
	}
	k.received[f]++
}

// finish waits until everything has come back, and counts.
func (k *killed) finish(kills int) {
	k.t.Helper()
	for end := time.Now().Add(10 * time.Second); k.tx.Outstanding() > 0 && time.Now().Before(end); {
		k.turn(false)
	}
	time.Sleep(10 * time.Millisecond)
	k.turn(false)
	if err := errors.Join(k.tx.Driver.Err(), k.rx.Driver.Err()); err != nil {
		k.t.Fatalf("a descriptor came back that was not out: %v", err)
	}
	if k.back != k.sent || k.tx.Outstanding() != 0 {
		k.t.Errorf("%d chains sent, %d came back, %d are out", k.sent, k.back, k.tx.Outstanding())
	}
	twice := 0
	for n := range k.sent {
		switch c := k.wires.seen[n]; {
		case c == 0:
			k.t.Fatalf("frame %d of %d is missing", n, k.sent)
		case c > 1:
			twice++
		}
	}
	if twice > kills*256 || k.wires.wrong > 0 || len(k.wires.seen) != int(k.sent) {
		k.t.Errorf("%d frames came twice, %d were wrong, %d of %d came", twice, k.wires.wrong, len(k.wires.seen), k.sent)
	}
	lost := int(k.wires.next) - len(k.received)
	for n, c := range k.received {
		if c > 1 {
			k.t.Errorf("frame %d was received %d times", n, c)
		}
	}
	if k.wrong > 0 || len(k.received) == 0 {
		k.t.Errorf("%d of %d received frames were wrong", k.wrong, len(k.received))
	}
	k.t.Logf("%d kills: %d chains sent, %d back, %d frames twice on the wire; %d frames received, %d of %d lost or still on the wire",
		kills, k.sent, k.back, twice, len(k.received), lost, k.wires.next)
}

// TestBackendRestartsAsClient has a front-end that listens (virtio-user's
// server=1) and a back-end that connects, dies and connects again: base 0 while
// the used index is not.
func TestBackendRestartsAsClient(t *testing.T) {
	k := &killed{t: t, path: filepath.Join(socketDir(t), "s"), received: make(map[uint64]int)}
	var err error
	k.wires, err = newWires()
	k.ok(err)
	t.Cleanup(k.wires.close)
	w := &world{t: t, path: k.path}
	d := openFrontDoor(w)
	t.Cleanup(func() { d.Close() })
	k.path = "client:" + k.path
	accept := func() *frontend.Conn {
		c, err := d.AcceptUnix()
		k.ok(err)
		conn, err := frontend.NewConn(c)
		k.ok(err)
		return conn
	}
	k.start()
	t.Cleanup(func() { k.kill() })
	k.g, err = frontend.NewGuestOn(accept(), 16<<20)
	k.ok(err)
	t.Cleanup(k.g.Close)
	k.ok(k.g.Negotiate(ringKinds()["split"], wire.ProtocolMQ|wire.ProtocolReplyAck|wire.ProtocolStatus))
	k.rx, err = k.g.AddRing(0, 256, 2048)
	k.ok(err)
	k.tx, err = k.g.AddRing(1, 256, 2048)
	k.ok(err)
	k.share(0, 0)
	for range 3 {
		k.load(10 * time.Millisecond)
		k.kill()
		k.start()
		k.ok(k.g.Resume(accept()))
		k.share(0, 0)
	}
	k.load(10 * time.Millisecond)
	k.finish(3)
}
