package vhost_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// backendVariable names the socket of a back-end that this test binary is to be,
// instead of running tests: one that can be killed. A word and a colon may come
// before it.
const backendVariable = "VNETBENCH_TEST_BACKEND"

// Descriptors of such a process: its ends of the wires to and from the host.
const (
	wireOut = 3
	wireIn  = 4
)

// beBackend serves until it is killed.
func beBackend(path string) int {
	cfg := vhost.Config{Ports: []vhost.Port{&wirePort{}}, Device: netdev.Config{QueuePairs: 1, MTU: 65535}}
	if kind, rest, ok := strings.Cut(path, ":"); ok {
		path, cfg.Client = rest, kind == "client"
		if kind == "postcopy" {
			cfg.Protocol = vhost.PostcopyOffer
		}
	}
	cfg.SocketPath = path
	srv, err := vhost.Listen(cfg)
	if err == nil {
		err = srv.Serve(context.Background())
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// wirePort is a port whose wires are sockets of datagrams, which the test's
// process has the other ends of.
type wirePort struct {
	buf [2048]byte
	err error
}

func (p *wirePort) Send(now vtime.Time, _ *virtio.NetHdr, iov [][]byte, _ netdev.Token) (vtime.Time, netdev.SendResult) {
	n := 0
	for _, b := range iov {
		n += copy(p.buf[n:], b)
	}
	switch _, err := unix.Write(wireOut, p.buf[:n]); err {
	case nil:
		return now, netdev.Sent
	case unix.EAGAIN:
		return now, netdev.Full
	default:
		p.err = err
		return now, netdev.Sent
	}
}

func (p *wirePort) Receive(now vtime.Time, rx *netdev.RX, budget int) (n int, more bool, err error) {
	for ; n < budget; n++ {
		iov, ok := rx.Reserve(len(p.buf))
		if !ok {
			return n, false, nil
		}
		got, err := unix.Read(wireIn, p.buf[:])
		if err != nil || got == 0 {
			rx.Abort()
			return n, false, nil
		}
		for rest := p.buf[:got]; len(rest) > 0; iov = iov[1:] {
			rest = rest[copy(iov[0], rest):]
		}
		rx.Commit(got, &virtio.NetHdr{})
	}
	return n, true, nil
}

func (p *wirePort) Flush(vtime.Time)                 {}
func (p *wirePort) Negotiated(virtio.Features) error { return nil }
func (p *wirePort) Enable(bool) error                { return nil }
func (p *wirePort) RxFD() int                        { return wireIn }
func (p *wirePort) TxFD() int                        { return wireOut }
func (p *wirePort) Err() error                       { return p.err }
func (p *wirePort) Close() error                     { return nil }

// numbered is a frame with a number, of a length and with bytes that follow from
// it.
func numbered(n uint64, f []byte) []byte {
	f = f[:60+n%1000]
	copy(f, []byte{0x52, 0x54, 0, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
	binary.BigEndian.PutUint64(f[14:], n)
	for i := 22; i < len(f); i++ {
		f[i] = byte(n) + byte(i)
	}
	return f
}

// numberOf reads a numbered frame, and reports whether every byte of it is right.
func numberOf(f, scratch []byte) (n uint64, ok bool) {
	if len(f) < 60 {
		return 0, false
	}
	n = binary.BigEndian.Uint64(f[14:])
	return n, string(numbered(n, scratch)) == string(f)
}

// wires are a test's ends of the sockets that the back-ends send to and read
// from, one after the other.
type wires struct {
	fromGuest, toGuest    int
	backendOut, backendIn int
	buf, scratch          [2048]byte
	seen                  map[uint64]int // frames that the guest sent: how often
	wrong, next           uint64
}

func newWires() (*wires, error) {
	w := &wires{seen: make(map[uint64]int)}
	out, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	in, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	w.fromGuest, w.backendOut, w.toGuest, w.backendIn = out[0], out[1], in[0], in[1]
	return w, nil
}

func (w *wires) close() { osio.CloseAll([]int{w.fromGuest, w.backendOut, w.toGuest, w.backendIn}) }

// take reads what the guest has sent.
func (w *wires) take() {
	for {
		n, err := unix.Read(w.fromGuest, w.buf[:])
		if err != nil || n == 0 {
			return
		}
		k, ok := numberOf(w.buf[:n], w.scratch[:])
		if !ok {
			w.wrong++
			continue
		}
		w.seen[k]++
	}
}

// feed writes frames for the guest until the wire is full.
func (w *wires) feed() {
	for {
		if _, err := unix.Write(w.toGuest, numbered(w.next, w.scratch[:])); err != nil {
			return
		}
		w.next++
	}
}
