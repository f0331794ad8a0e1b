package vhost_test

import (
	"testing"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

func TestQueueNum(t *testing.T) {
	tests := []struct {
		name     string
		mode     vhost.QueueNumMode
		protocol wire.ProtocolFeatures
		features virtio.Features
		want     wire.U64
	}{
		{"pairs for QEMU", vhost.QueueNumAuto, wire.ProtocolMQ, netdev.DefaultFeatures, 4},
		{"rings for crosvm", vhost.QueueNumAuto, wire.ProtocolMQ | wire.ProtocolConfig, netdev.DefaultFeatures, 9},
		{"rings without a control queue", vhost.QueueNumRings, wire.ProtocolMQ, netdev.DefaultFeatures &^ virtio.FeatureCtrlVQ, 8},
		{"pairs by order", vhost.QueueNumPairs, wire.ProtocolMQ | wire.ProtocolConfig, netdev.DefaultFeatures, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := vhost.NewSession(vhost.SessionConfig{QueuePairs: 4, QueueNum: tt.mode, Features: tt.features})
			s.Handle(wire.Message{Request: wire.SetProtocolFeatures, Payload: wire.U64(tt.protocol)}, nil, nil)
			got := s.Handle(wire.Message{Request: wire.GetQueueNum, Payload: wire.Empty{}}, nil, nil)
			if r := got[0].(vhost.Reply); r.Message.Payload != tt.want {
				t.Errorf("got %v, want %v", r.Message, tt.want)
			}
		})
	}
}
