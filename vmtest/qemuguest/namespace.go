package qemuguest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/vmtest"
)

// ErrNamespace says that no network namespace can be made. It comes wrapped in
// a line that says what to do.
var ErrNamespace = errors.New("no network namespace")

// The addresses of the two ends, and the receiver's port. They are visible in
// the namespace and in the guest only.
const (
	guestMAC     = "02:76:6e:62:00:02"
	receiverPort = 7000
	firstPort    = 20000 // local port of the guest's flow 0
)

// ends are the two addresses, with prefix length.
type ends struct{ guest, host string }

func endsFor(ip int) ends {
	if ip == 6 {
		return ends{"fd00:766e::2/64", "fd00:766e::1/64"}
	}
	return ends{"10.118.110.2/24", "10.118.110.1/24"}
}

func (e ends) hostIP() string {
	ip, _, _ := net.ParseCIDR(e.host)
	return ip.String()
}

// network is the receiver's side of a run: a namespace without a name that
// holds a tap and the receiver's socket. It exists as long as those are open,
// so the end of this process, however it comes, ends it.
type network struct {
	tap    *tap.Tap
	listen net.Listener
}

// newNetwork makes the namespace with a tap of so many queues.
func newNetwork(s *vmtest.Scenario) (*network, error) {
	n := new(network)
	err := inNewNamespace(func() error { return n.build(s) })
	if err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// build runs in the new namespace.
func (n *network) build(s *vmtest.Scenario) error {
	if err := hostSysctls(s); err != nil {
		return err
	}
	t, err := tap.Open(tap.Config{Name: "vnb0", Queues: s.QueuePairs})
	if err != nil {
		return err
	}
	n.tap = t
	if err := setAddress(t.Name(), endsFor(s.IP).host, s.MTU); err != nil {
		return err
	}
	n.listen, err = net.Listen("tcp", net.JoinHostPort(endsFor(s.IP).hostIP(), strconv.Itoa(receiverPort)))
	return err
}

func setAddress(name, cidr string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		return fmt.Errorf("%s: %w", cidr, err)
	}
	if addr.IP.To4() == nil {
		addr.Flags |= unix.IFA_F_NODAD
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("%s: mtu %d: %w", name, mtu, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s: up: %w", name, err)
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("%s: %s: %w", name, cidr, err)
	}
	return nil
}

// hostSysctls sets the namespace's kernel parameters: the receiver's largest
// buffer, and no IPv6 chatter of the kernel's own.
func hostSysctls(s *vmtest.Scenario) error {
	set := map[string]string{
		"net/ipv4/tcp_rmem": fmt.Sprintf("4096 %d %d", min(131072, s.Receiver.Rmem), s.Receiver.Rmem),
	}
	maps.Copy(set, quietIPv6(s.IP))
	for name, v := range set {
		err := os.WriteFile("/proc/sys/"+name, []byte(v), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("receiver: sysctl %s = %s: %w", name, v, err)
		}
	}
	return nil
}

// quietIPv6 are the kernel parameters that keep a kernel from speaking IPv6
// when nobody asked: at all, or beyond the neighbours that a run needs.
func quietIPv6(ip int) map[string]string {
	if ip == 4 {
		return map[string]string{
			"net/ipv6/conf/all/disable_ipv6":     "1",
			"net/ipv6/conf/default/disable_ipv6": "1",
		}
	}
	return map[string]string{
		"net/ipv6/conf/default/router_solicitations": "0",
		"net/ipv6/conf/default/accept_ra":            "0",
		"net/ipv6/conf/default/dad_transmits":        "0",
	}
}

func (n *network) close() {
	if n.listen != nil {
		n.listen.Close()
	}
	if n.tap != nil {
		n.tap.Close()
	}
}

// inNewNamespace runs f on an OS thread in a new network namespace. What f
// opens stays in it.
func inNewNamespace(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			result <- fmt.Errorf("%w: %w", ErrNamespace, err)
			return
		}
		defer home.Close()
		result <- visit(f)
		// A thread that cannot go home ends with this goroutine.
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return <-result
}

func visit(f func() error) error {
	ns, err := netns.New()
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: this user may not make one (CAP_SYS_ADMIN needed): run as root", ErrNamespace)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNamespace, err)
	}
	defer ns.Close()
	return f()
}

// CheckNamespace makes a network namespace and lets it go.
func CheckNamespace() error { return inNewNamespace(func() error { return nil }) }

// CheckTap makes a tap with two queues in a network namespace and lets both go.
func CheckTap() error {
	return inNewNamespace(func() error {
		t, err := tap.Open(tap.Config{Queues: 2})
		if err != nil {
			return err
		}
		return t.Close()
	})
}
