package tap_test

import (
	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var (
	_ netdev.Port = (*tap.Queue)(nil)
	_ vhost.Port  = (*tap.Queue)(nil)
)
