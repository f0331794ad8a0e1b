package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio"
)

// connection is the flags about how a back-end and its front-ends meet. The
// names of the first ones are those that managers of virtual machines expect of
// every such program.
type connection struct {
	SocketPath        []string `placeholder:"PATH" sep:"none" xor:"socket" help:"Listen there, at most 107 bytes. Several times: a device for each."`
	FD                *int     `name:"fd" placeholder:"N" xor:"socket" help:"Use this descriptor: a listening or connected UNIX socket."`
	Client            bool     `help:"Connect to the front-end that listens at the path, and again when it has gone, instead of listening there."`
	Once              bool     `help:"End with the first session."`
	QueueNum          string   `enum:"auto,pairs,rings" default:"auto" help:"What GET_QUEUE_NUM counts: pairs (QEMU, DPDK), rings (crosvm, cloud-hypervisor), or auto: rings for who acknowledges CONFIG."`
	LiteralBase       bool     `help:"Start split rings at the index that the front-end says, not at the used index in memory."`
	IOMMU             bool     `name:"iommu" help:"Offer ACCESS_PLATFORM: for a guest behind a virtual IOMMU, whose front-end translates addresses. Without live migration."`
	Postcopy          bool     `help:"Take part in post-copy migration, in which a guest runs before its memory has come. Needs userfaultfd; without memory slots."`
	PrintCapabilities bool     `help:"Print the capabilities of this back-end as JSON and exit."`
	PrintDescriptor   bool     `help:"Print the description for /usr/share/qemu/vhost-user, which libvirt reads, and exit."`
}

// place is where one server meets its front-ends.
type place struct {
	path string
	fd   int // if path is empty
}

func (p place) String() string {
	if p.path == "" {
		return fmt.Sprintf("descriptor %d", p.fd)
	}
	return p.path
}

// places are where to serve.
func (c *connection) places() ([]place, error) {
	if c.FD != nil {
		if c.Client {
			return nil, errors.New("--client: give --socket-path PATH to connect to; a descriptor is connected already")
		}
		return []place{{fd: *c.FD}}, nil
	}
	if len(c.SocketPath) == 0 {
		return nil, errors.New("where to serve? give --socket-path PATH or --fd N")
	}
	var out []place
	seen := map[string]bool{}
	for _, p := range c.SocketPath {
		if p == "" || seen[p] {
			return nil, fmt.Errorf("--socket-path: %q is empty or given twice; give each socket a path of its own", p)
		}
		seen[p] = true
		out = append(out, place{path: p})
	}
	return out, nil
}

// configure puts the flags into a server's configuration.
func (c *connection) configure(cfg *vhost.Config, p place) error {
	cfg.SocketPath, cfg.FD, cfg.Client, cfg.Once = p.path, p.fd, c.Client, c.Once
	cfg.LiteralBase = c.LiteralBase
	if c.IOMMU {
		cfg.Device.Features |= virtio.FeatureAccessPlatform
	}
	switch c.QueueNum {
	case "pairs":
		cfg.QueueNum = vhost.QueueNumPairs
	case "rings":
		cfg.QueueNum = vhost.QueueNumRings
	}
	if !c.Postcopy {
		return nil
	}
	cfg.Protocol = vhost.PostcopyOffer
	fd, err := osio.Userfault()
	if err != nil {
		return fmt.Errorf("--postcopy: the kernel gives this process no userfaultfd: run as root, or set vm.unprivileged_userfaultfd to 1: %w", err)
	}
	osio.Close(fd)
	return nil
}

// print prints what was asked for instead of serving, and reports whether
// anything was.
func (c *connection) print(s *streams) (done bool, err error) {
	var v any
	switch {
	case c.PrintCapabilities:
		v = map[string]string{"type": "net"}
	case c.PrintDescriptor:
		v = describe()
	default:
		return false, nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return true, err
	}
	_, err = fmt.Fprintln(s.out, string(b))
	return true, err
}

// descriptor is a file in /usr/share/qemu/vhost-user (QEMU's
// docs/interop/vhost-user.json, VhostUserBackend).
type descriptor struct {
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Binary      string   `json:"binary"`
	Tags        []string `json:"tags"`
}

// backendName is the name under which this program is a back-end without a
// command's name: libvirt runs BINARY --socket-path=PATH or BINARY --fd=N.
const backendName = "vnetbench-net"

func describe() descriptor {
	dir := "/usr/libexec"
	if self, err := os.Executable(); err == nil {
		dir = filepath.Dir(self)
	}
	return descriptor{
		Description: "vnetbench: a multi-queue net device that counts what crosses it",
		Type:        "net",
		Binary:      filepath.Join(dir, backendName),
		Tags:        []string{},
	}
}

// commandLine is the arguments as the parser takes them: a program that is
// called by backendName serves.
func commandLine(args []string) []string {
	if filepath.Base(args[0]) == backendName {
		return append([]string{"serve"}, args[1:]...)
	}
	return args[1:]
}
