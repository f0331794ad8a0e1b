package vhost_test

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// segmentOf is segment i of a flow, its checksum left to the device.
func segmentOf(i int) (*virtio.NetHdr, []byte) {
	s := frame.TCPSpec{
		Src: frame.V4([4]byte{10, 0, 0, 2}), Dst: frame.V4([4]byte{10, 0, 0, 1}), SrcPort: 40000, DstPort: 5001,
		Seq: frame.Seq(1000 + 1000*i), Ack: 1, Flags: frame.TCPAck, Window: 500, Payload: make([]byte, 1000), Partial: true,
	}
	return &virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: uint16(s.L4()), CSumOffset: frame.TCPCSumOffset}, frame.AppendTCP(nil, &s)
}

// TestPoliciesServe: with each of the policies that act on transmit rings a worker
// takes everything, gives everything back, and comes to rest.
func TestPoliciesServe(t *testing.T) {
	for _, text := range []string{"merge", "poll:time=2ms", "poll:time=2ms,every=200us+merge", "delay-service:time=1ms", "delay-service:packets=16,time=1s",
		"coalesce-calls:packets=16,time=1s", "hold:time=1ms+thin-acks:time=1ms", "adaptive"} {
		policy, err := netdev.ParsePolicy(text)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, 1, func(c *vhost.Config) { c.Device.Policy = policy })
		g := w.connect()
		tx := w.start(g, 1)
		for round := range 3 {
			for i := range 16 {
				h, f := segmentOf(16*round + i)
				tx.Transmit(h, f)
				if i == 0 && policy.DelayPackets > 0 {
					tx.Notify()
				}
			}
			tx.Notify()
			if n := tx.Drain(16, 10*time.Second); n != 16 {
				t.Fatalf("%s: %d of 16 buffers came back", text, n)
			}
		}
		if s := w.srv.Stats().Pairs[0].TX; s.Packets != 48 || policy.Merge && s.Joined == 0 {
			t.Errorf("%s: %d packets, %d joined", text, s.Packets, s.Joined)
		}
	}
}
