package sink_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var _ vhost.Port = (*sink.Port)(nil)

func TestCounts(t *testing.T) {
	p := sink.Port{Sizes: make([]int, 0, 2)}
	plain, gso := virtio.NetHdr{}, virtio.NetHdr{GSOType: virtio.GSOTCPv4}
	p.Send(0, &plain, [][]byte{make([]byte, 60)}, 0)
	p.Send(0, &gso, [][]byte{make([]byte, 54), make([]byte, 4000)}, 0)
	p.Send(0, &plain, [][]byte{make([]byte, 1)}, 0)
	p.Flush(0)
	want := sink.Stats{Frames: 3, Bytes: 4115, GSO: 1, Largest: 4054, Flushes: 1}
	if d := cmp.Diff(want, p.Stats()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{60, 4054}, p.Sizes); d != "" {
		t.Error(d)
	}
}

func TestLimit(t *testing.T) {
	p := sink.Port{Limit: 1}
	var got []netdev.SendResult
	for i := range 3 {
		if i == 2 {
			p.Drain()
		}
		_, r := p.Send(7, &virtio.NetHdr{}, [][]byte{{1}}, 0)
		got = append(got, r)
	}
	if d := cmp.Diff([]netdev.SendResult{netdev.Sent, netdev.Full, netdev.Sent}, got); d != "" {
		t.Error(d)
	}
}

func TestSendAllocs(t *testing.T) {
	p := sink.Port{Sizes: make([]int, 0, 1000)}
	iov := [][]byte{make([]byte, 60)}
	var h virtio.NetHdr
	if n := testing.AllocsPerRun(100, func() { p.Send(0, &h, iov, 0) }); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}
