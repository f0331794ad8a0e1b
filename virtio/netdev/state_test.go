package netdev_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/virtio/netdev"
)

func newStateDevice(t *testing.T) *netdev.Device {
	t.Helper()
	d, err := netdev.New(netdev.Config{QueuePairs: 2})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestStateComesBack saves, loads and saves again, before and after the driver's
// features are set.
func TestStateComesBack(t *testing.T) {
	a, b := newStateDevice(t), newStateDevice(t)
	if err := a.SetFeatures(netdev.DefaultFeatures); err != nil {
		t.Fatal(err)
	}
	a.SetLink(false)
	if !a.Announce() {
		t.Error("the guest cannot announce itself")
	}
	if err := errors.Join(a.SetMTU(1400), a.SetMAC([6]byte{2, 0, 0, 0, 0, 7})); err != nil {
		t.Fatal(err)
	}
	state := a.Save()
	if err := b.Load(state); err != nil {
		t.Fatal(err)
	}
	if err := b.SetFeatures(netdev.DefaultFeatures); err != nil {
		t.Fatal(err)
	}
	if got := b.Save(); !bytes.Equal(got, state) {
		t.Errorf("got\n%s\nwant\n%s", got, state)
	}
	if !bytes.Equal(a.ConfigSpace(), b.ConfigSpace()) {
		t.Errorf("configuration % x, want % x", b.ConfigSpace(), a.ConfigSpace())
	}
	b.Reset()
	if bytes.Contains(b.Save(), []byte(`"mac":[2,`)) {
		t.Error("the state outlives a reset")
	}
}

// TestHashStateComesBack restores what a guest has configured of hashes.
func TestHashStateComesBack(t *testing.T) {
	const features = netdev.AllFeatures
	d, err := netdev.New(netdev.Config{QueuePairs: 2, Features: features})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.SetFeatures(features); err != nil {
		t.Fatal(err)
	}
	state := strings.Replace(string(d.Save()), `"rss":null`,
		`"rss":{"types":3,"key":"AQIDBA==","steers":true,"table":"AAEAAQ==","unclassified":1}`, 1)
	state = strings.Replace(state, `"coal":[{"MaxPackets":0,`, `"coal":[{"MaxPackets":7,`, 1)
	if err := d.Load([]byte(state)); err != nil {
		t.Fatal(err)
	}
	if got := string(d.Save()); got != state {
		t.Errorf("got\n%s\nwant\n%s", got, state)
	}
}

func TestBadStates(t *testing.T) {
	d := newStateDevice(t)
	good := string(d.Save())
	for _, change := range [][2]string{
		{`"version":1`, `"version":2`}, {`"pairs":1`, `"pairs":0`}, {`"pairs":1`, `"pairs":3`},
		{`"mtu":1500`, `"mtu":67`}, {`"mtu":1500`, `"mtu":65536`}, {`"mac":[82,`, `"mac":[83,`},
		{`"vlans":[0,`, `"vlans":[`}, {`]}`, `]`},
		{`"rss":null`, `"rss":{"types":0,"key":"AA==","table":"AgAA"}`}, {`"rss":null`, `"rss":{"types":0,"key":"AA==","table":"Ag=="}`},
		{`"rss":null`, `"rss":{"types":65535,"key":"AA==","table":"AA=="}`},
		{`"uni":[]`, `"uni":[` + strings.Repeat(`[2,0,0,0,0,1],`, 64) + `[2,0,0,0,0,1]]`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%q is not in %s", change[0], good)
		}
		if err := d.Load([]byte(bad)); !errors.Is(err, netdev.ErrState) {
			t.Errorf("%s: got %v", change[1], err)
		}
		if string(d.Save()) != good {
			t.Errorf("%s: the device has changed", change[1])
		}
	}
}
