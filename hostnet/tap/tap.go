// Package tap is a multi-queue tap interface as the host's side of a net
// device: one file descriptor for each queue pair, frames behind a 12-byte
// virtio-net header in both directions, and GSO packets passed on whole. A
// frame goes by writev straight out of the guest's memory and by readv straight
// into it; this package copies nothing but the header and frames of 256 bytes
// and less. It is without policy, protocol and goroutines, and works on Linux
// only.
package tap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio"
)

// Errors of Open and Up. They come wrapped in a line that says what to do.
var (
	// ErrNoDriver says that the kernel offers no tap driver: /dev/net/tun is
	// missing or has nothing behind it.
	ErrNoDriver = errors.New("no tap driver")
	// ErrPermission says that this user may not do it.
	ErrPermission = errors.New("no permission for a tap")
	// ErrBusy says that the interface is open in another process, or has fewer
	// queues than were asked for.
	ErrBusy = errors.New("tap is in use")
	// ErrKind says that an interface of that name exists and is something else.
	ErrKind = errors.New("interface is no multi-queue tap")
	// ErrConfig says that a field of Config is out of its bounds.
	ErrConfig = errors.New("bad tap configuration")
)

// MaxQueues is the most queues that the kernel gives one tap
// (drivers/net/tun.c MAX_TAP_QUEUES, v6.1).
const MaxQueues = 256

// device is the file through which taps are made.
const device = "/dev/net/tun"

// Config describes a tap.
type Config struct {
	// Name of the interface, up to 15 bytes; a name that ends in %d is
	// completed by the kernel, and empty is vnb%d. An interface that exists is
	// opened if it is a multi-queue tap, and outlives Close; one that does not
	// is made, and Close removes it.
	Name string
	// Queues is how many to open, 1 to MaxQueues; 0 is 1.
	Queues int
}

func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		c.Name = "vnb%d"
	}
	if c.Queues == 0 {
		c.Queues = 1
	}
	if len(c.Name) >= unix.IFNAMSIZ {
		return c, fmt.Errorf("%w: name %q is longer than %d bytes", ErrConfig, c.Name, unix.IFNAMSIZ-1)
	}
	if c.Queues < 0 || c.Queues > MaxQueues {
		return c, fmt.Errorf("%w: %d queues, want 1 to %d", ErrConfig, c.Queues, MaxQueues)
	}
	return c, nil
}

// Tap is an open tap interface. Its methods are not safe for concurrent use;
// its queues are independent of each other.
type Tap struct {
	name   string
	queues []*Queue
}

// Open opens or makes the interface in the network namespace of the calling OS
// thread. Its queues start detached: the kernel queues no frame for them before
// Queue.Enable.
func Open(c Config) (*Tap, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Tap{name: c.Name}
	for i := range c.Queues {
		q, name, err := openQueue(t.name, i == 0)
		if err != nil {
			_ = t.Close()
			return nil, fmt.Errorf("tap %s queue %d: %w", t.name, i, err)
		}
		t.name = name
		t.queues = append(t.queues, q)
	}
	for i, q := range t.queues {
		if err := q.Enable(false); err != nil {
			_ = t.Close()
			return nil, fmt.Errorf("tap %s queue %d: %w", t.name, i, err)
		}
	}
	return t, nil
}

// Name is the name of the interface.
func (t *Tap) Name() string { return t.name }

// Queues is the number of open queues.
func (t *Tap) Queues() int { return len(t.queues) }

// Queue returns queue i. It panics if there is no such queue.
func (t *Tap) Queue(i int) *Queue { return t.queues[i] }

// Up sets the interface up, so that the kernel takes its frames. The calling OS
// thread must be in the interface's network namespace.
func (t *Tap) Up() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("tap %s: socket: %w", t.name, err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq(t.name)
	if err != nil {
		return fmt.Errorf("tap %s: %w", t.name, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return fmt.Errorf("tap %s: SIOCGIFFLAGS: %w", t.name, err)
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: cannot set %s up: run as root, or let root do it with `ip link set %s up`", ErrPermission, t.name, t.name)
	}
	if err != nil {
		return fmt.Errorf("tap %s: SIOCSIFFLAGS: %w", t.name, err)
	}
	return nil
}

// Close closes every queue; an interface that Open made goes with the last.
func (t *Tap) Close() error {
	var errs []error
	for _, q := range t.queues {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}

// openQueue opens one queue of the interface, the first one or a further one,
// and returns the interface's name.
func openQueue(name string, first bool) (*Queue, string, error) {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", explainOpen(err)
	}
	name, err = attach(fd, name, first)
	if err != nil {
		unix.Close(fd)
		return nil, "", err
	}
	q := newQueue(fd)
	if err := q.probe(); err != nil {
		unix.Close(fd)
		return nil, "", err
	}
	return q, name, nil
}

// attach binds fd to a queue of the interface and sets the format of frames.
func attach(fd int, name string, first bool) (string, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return "", fmt.Errorf("%w: name %q", ErrConfig, name)
	}
	if err := setInterface(fd, ifr, first); err != nil {
		return "", explainAttach(err, name)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETHDRSZ, virtio.NetHdrLen); err != nil {
		return "", fmt.Errorf("TUNSETVNETHDRSZ: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TUNSETVNETLE, 1); err != nil {
		return "", fmt.Errorf("TUNSETVNETLE: %w", err)
	}
	return ifr.Name(), nil
}

// setInterface is TUNSETIFF. The first queue makes the interface, or joins one
// that exists if it is persistent: a multi-queue tap that is not belongs to the
// process that made it, and would silently share its frames with us.
func setInterface(fd int, ifr *unix.Ifreq, first bool) error {
	const flags = unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE
	if !first {
		ifr.SetUint16(flags)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	ifr.SetUint16(flags | unix.IFF_TUN_EXCL)
	err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	ifr.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.TUNGETIFF, ifr); err != nil {
		return err
	}
	if ifr.Uint16()&unix.IFF_PERSIST == 0 {
		return unix.EBUSY
	}
	return nil
}

func explainOpen(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: %s is missing: `modprobe tun`, or in a container `mkdir -p /dev/net && mknod %s c 10 200`", ErrNoDriver, device, device)
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("%w: nothing is behind %s: `modprobe tun`", ErrNoDriver, device)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %s cannot be opened: run as root, or `chmod 0666 %s`", ErrPermission, device, device)
	}
	return fmt.Errorf("open %s: %w", device, err)
}

func explainAttach(err error, name string) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: run as root, or let root make it with `ip tuntap add dev %s mode tap multi_queue vnet_hdr user $USER`", ErrPermission, name)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: stop the process that has %s open, or choose another name", ErrBusy, name)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%w: %s has no queue left: open fewer, or stop the other process", ErrBusy, name)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: choose another name, or remove it with `ip link delete %s`", ErrKind, name)
	}
	return fmt.Errorf("TUNSETIFF: %w", err)
}
