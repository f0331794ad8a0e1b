package vhost

import (
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// A frame takes at least the time that is asked for; one that the port refuses
// takes none of it, since it comes again.
func TestSendCostIsSpent(t *testing.T) {
	const each = 3 * time.Millisecond
	p := &sink.Port{Limit: 2}
	s := SendCost{Base: time.Millisecond, PerKB: 2 * time.Millisecond}.spend(p)
	frame := [][]byte{make([]byte, 500), make([]byte, 1000-500-virtio.NetHdrLen)}
	began := time.Now()
	for range 2 {
		if _, r := s.Send(0, &virtio.NetHdr{}, frame, 0); r != netdev.Sent {
			t.Fatalf("the port answered %v", r)
		}
	}
	if d := time.Since(began); d < 2*each {
		t.Errorf("two frames took %v, want %v at least", d, 2*each)
	}
	if _, r := s.Send(0, &virtio.NetHdr{}, frame, 0); r != netdev.Full || p.Stats().Frames != 2 {
		t.Errorf("the port answered %v and has %d frames", r, p.Stats().Frames)
	}
}

// A wrapper must not promise offloads that the port does not take, nor hide those
// that it takes.
func TestSendCostKeepsOffloads(t *testing.T) {
	cost := SendCost{Base: 1}
	if got := cost.spend(&sink.Port{}).(netdev.Limited).Offloads(); got != hostOffloads {
		t.Errorf("a port that takes everything takes %v", got)
	}
	if got := cost.spend(plain{&sink.Port{}}).(netdev.Limited).Offloads(); got != virtio.FeatureCSum {
		t.Errorf("a port that takes checksums only takes %v", got)
	}
	p := &sink.Port{}
	if got := (SendCost{}).spend(p); got != netdev.Port(p) {
		t.Error("no cost is no wrapper")
	}
}

type plain struct{ netdev.Port }

func (plain) Offloads() virtio.Features { return virtio.FeatureCSum }
