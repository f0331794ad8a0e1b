package tap_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

func TestConfig(t *testing.T) {
	for _, c := range []tap.Config{
		{Name: "a-name-that-is-too-long"}, {Queues: -1}, {Queues: 257},
	} {
		if _, err := tap.Open(c); !errors.Is(err, tap.ErrConfig) {
			t.Errorf("%+v: %v, want %v", c, err, tap.ErrConfig)
		}
	}
}

// TestNames opens what is taken, what is of another kind, and what is ours to
// join.
func TestNames(t *testing.T) {
	needRoot(t)
	inNamespace(t, func() error {
		first, err := tap.Open(tap.Config{Name: "mine", Queues: 2})
		check(t, err)
		defer first.Close()
		if _, err = tap.Open(tap.Config{Name: "mine"}); !errors.Is(err, tap.ErrBusy) || !oneLine(err) {
			t.Errorf("a name in use: %v, want one line of %v", err, tap.ErrBusy)
		}
		if _, err = tap.Open(tap.Config{Name: "lo"}); !errors.Is(err, tap.ErrKind) || !oneLine(err) {
			t.Errorf("the loopback's name: %v, want one line of %v", err, tap.ErrKind)
		}
		check(t, netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "kept"}, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_MULTI_QUEUE_DEFAULTS | netlink.TUNTAP_VNET_HDR, Queues: 1}))
		kept, err := tap.Open(tap.Config{Name: "kept", Queues: 2})
		check(t, err)
		check(t, kept.Close())
		if _, err := netlink.LinkByName("kept"); err != nil {
			t.Errorf("a persistent tap is gone after Close: %v", err)
		}
		return nil
	})
}

func oneLine(err error) bool { return err != nil && !strings.Contains(err.Error(), "\n") }

// TestClose shows that an interface that Open made goes with the last queue.
func TestClose(t *testing.T) {
	needRoot(t)
	inNamespace(t, func() error {
		d, err := tap.Open(tap.Config{Name: "gone", Queues: 4})
		check(t, err)
		check(t, d.Close())
		check(t, d.Close())
		if _, err := netlink.LinkByName("gone"); err == nil {
			t.Error("the interface is still there after Close")
		}
		return nil
	})
}

// TestFormat asks the kernel for the format that the device needs.
func TestFormat(t *testing.T) {
	needRoot(t)
	inNamespace(t, func() error {
		d, err := tap.Open(tap.Config{Queues: 2})
		check(t, err)
		defer d.Close()
		fd := d.Queue(1).RxFD()
		size, err := unix.IoctlGetInt(fd, unix.TUNGETVNETHDRSZ)
		check(t, err)
		ifr, _ := unix.NewIfreq(d.Name())
		check(t, unix.IoctlIfreq(fd, unix.TUNGETIFF, ifr))
		want := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE)
		if size != virtio.NetHdrLen || ifr.Uint16()&want != want {
			t.Errorf("header of %d bytes, flags %#x; want %d and %#x", size, ifr.Uint16(), virtio.NetHdrLen, want)
		}
		for _, f := range []virtio.Features{0, virtio.FeatureGuestTSO4, virtio.FeatureGuestCSum | virtio.FeatureGuestECN,
			virtio.FeatureGuestCSum | virtio.FeatureGuestTSO4 | virtio.FeatureGuestTSO6 | virtio.FeatureGuestECN} {
			if err := d.Queue(0).Negotiated(f); err != nil {
				t.Errorf("offloads of %v: %v", f, err)
			}
		}
		return nil
	})
}

// TestTroubles sends what cannot be sent: each loss has its counter, and none
// is an error of the port.
func TestTroubles(t *testing.T) {
	needRoot(t)
	inNamespace(t, func() error {
		d, err := tap.Open(tap.Config{})
		check(t, err)
		defer d.Close()
		q := d.Queue(0)
		frame := [][]byte{make([]byte, 64)}
		send := func(h virtio.NetHdr, iov [][]byte) {
			if _, r := q.Send(0, &h, iov, 0); r != netdev.Sent {
				t.Errorf("answer %v, want %v", r, netdev.Sent)
			}
		}
		send(virtio.NetHdr{}, frame) // detached
		check(t, q.Enable(true))
		send(virtio.NetHdr{}, frame) // attached, the interface is down
		check(t, d.Up())
		send(virtio.NetHdr{}, frame)
		send(virtio.NetHdr{Flags: virtio.HdrNeedsCSum, GSOType: 77, GSOSize: 1}, frame)
		send(virtio.NetHdr{}, make([][]byte, 1024))
		want := tap.Stats{Sent: 1, Rejected: 1, Detached: 2, Pieces: 1}
		if got := q.Stats(); got != want || q.Err() != nil {
			t.Errorf("stats %+v, error %v; want %+v and none", got, q.Err(), want)
		}
		return nil
	})
}

// TestNobodyListens counts interfaces: a test that leaves one behind is found
// here, when it ran before.
func TestNobodyListens(t *testing.T) {
	ifs, err := net.Interfaces()
	check(t, err)
	for _, i := range ifs {
		if strings.HasPrefix(i.Name, "vnb") {
			t.Errorf("interface %s is left over in the namespace of the tests", i.Name)
		}
	}
}
