package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// nic is the network device under test.
type nic struct {
	name   string
	driver string
	tool   *ethtool.Ethtool
}

// setUp finds the device by its address, and sets queue pairs, offloads, sizes,
// queueing discipline and address.
func setUp(cfg *proto.Config) (*nic, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("ethtool: %w", err)
	}
	link, err := findLink(cfg.MAC, 5*time.Second)
	if err != nil {
		return nil, err
	}
	n := &nic{name: link.Attrs().Name, tool: tool}
	if n.driver, err = tool.DriverName(n.name); err != nil {
		return nil, fmt.Errorf("%s: driver: %w", n.name, err)
	}
	if err := n.setChannels(cfg.Pairs); err != nil {
		return nil, err
	}
	if err := n.setOffloads(cfg); err != nil {
		return nil, err
	}
	if err := setSizes(link, cfg); err != nil {
		return nil, err
	}
	return n, bringUp(link, cfg)
}

// findLink waits for the device: its driver probes when the module is loaded.
func findLink(mac string, patience time.Duration) (netlink.Link, error) {
	deadline := time.Now().Add(patience)
	for {
		links, err := netlink.LinkList()
		if err != nil {
			return nil, fmt.Errorf("links: %w", err)
		}
		var have []string
		for _, l := range links {
			if l.Attrs().HardwareAddr.String() == mac {
				return l, nil
			}
			have = append(have, l.Attrs().Name+"="+l.Attrs().HardwareAddr.String())
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no network device with the address %s among %s", mac, strings.Join(have, " "))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (n *nic) setChannels(pairs int) error {
	ch, err := n.tool.GetChannels(n.name)
	if err != nil {
		return fmt.Errorf("%s: channels: %w", n.name, err)
	}
	if ch.CombinedCount == uint32(pairs) {
		return nil
	}
	if ch.MaxCombined < uint32(pairs) {
		return fmt.Errorf("%s: %d queue pairs wanted, the driver has at most %d", n.name, pairs, ch.MaxCombined)
	}
	ch.CombinedCount = uint32(pairs)
	if _, err := n.tool.SetChannels(n.name, ch); err != nil {
		return fmt.Errorf("%s: %d queue pairs: %w", n.name, pairs, err)
	}
	return nil
}

// setOffloads switches segmentation offload; the features are named as in
// net/ethtool/common.c netdev_features_strings, v6.1.
func (n *nic) setOffloads(cfg *proto.Config) error {
	have, err := n.tool.Features(n.name)
	if err != nil {
		return fmt.Errorf("%s: features: %w", n.name, err)
	}
	want := map[string]bool{}
	for name, on := range map[string]bool{
		"tx-tcp-segmentation": cfg.TSO, "tx-tcp6-segmentation": cfg.TSO,
		"tx-generic-segmentation": cfg.GSO,
	} {
		if now, known := have[name]; known && now != on {
			want[name] = on
		}
	}
	if len(want) == 0 {
		return nil
	}
	if err := n.tool.Change(n.name, want); err != nil {
		return fmt.Errorf("%s: features %v: %w", n.name, want, err)
	}
	return nil
}

func setSizes(link netlink.Link, cfg *proto.Config) error {
	name := link.Attrs().Name
	if err := netlink.LinkSetMTU(link, cfg.MTU); err != nil {
		return fmt.Errorf("%s: mtu %d: %w", name, cfg.MTU, err)
	}
	if cfg.GSOMaxSize > 0 {
		if err := netlink.LinkSetGSOMaxSize(link, cfg.GSOMaxSize); err != nil {
			return fmt.Errorf("%s: gso_max_size %d: %w", name, cfg.GSOMaxSize, err)
		}
	}
	if cfg.GSOMaxSegs > 0 {
		if err := netlink.LinkSetGSOMaxSegs(link, cfg.GSOMaxSegs); err != nil {
			return fmt.Errorf("%s: gso_max_segs %d: %w", name, cfg.GSOMaxSegs, err)
		}
	}
	return nil
}

// bringUp gives the device its address and waits until it may send. The
// queueing discipline is the default one by then (see writeSysctls); noqueue
// cannot be a default below mq, and replaces the root.
func bringUp(link netlink.Link, cfg *proto.Config) error {
	name := link.Attrs().Name
	addr, err := netlink.ParseAddr(cfg.Addr)
	if err != nil {
		return fmt.Errorf("address %q: %w", cfg.Addr, err)
	}
	if addr.IP.To4() == nil {
		addr.Flags |= 0x02 // IFA_F_NODAD: nobody else is on this network
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("%s: address %s: %w", name, cfg.Addr, err)
	}
	if lo, err := netlink.LinkByName("lo"); err == nil {
		_ = netlink.LinkSetUp(lo)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s: up: %w", name, err)
	}
	if cfg.Qdisc == "noqueue" {
		root := &netlink.GenericQdisc{QdiscType: "noqueue",
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}}
		if err := netlink.QdiscReplace(root); err != nil {
			return fmt.Errorf("%s: qdisc noqueue: %w", name, err)
		}
	}
	return waitCarrier(name, 5*time.Second)
}

func waitCarrier(name string, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		b, _ := os.ReadFile(filepath.Join("/sys/class/net", name, "carrier"))
		if strings.TrimSpace(string(b)) == "1" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: no carrier after %v", name, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stats is what ethtool -S shows.
func (n *nic) stats() (map[string]uint64, error) {
	s, err := n.tool.Stats(n.name)
	if err != nil {
		return nil, fmt.Errorf("%s: statistics: %w", n.name, err)
	}
	return s, nil
}

// release says when the driver lets go of a packet: virtio_net's napi_tx. A
// kernel without the parameter is older than it, and orphans.
func (n *nic) release() string {
	b, err := os.ReadFile("/sys/module/virtio_net/parameters/napi_tx")
	if err != nil || strings.TrimSpace(string(b)) == "N" {
		return "orphan"
	}
	return "napi"
}
