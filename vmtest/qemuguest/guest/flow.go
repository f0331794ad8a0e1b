package guest

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// sendTimeout is how long a write may block before the flow counts as stuck.
const sendTimeout = 20 * time.Second

// flow is one connection and its writer.
type flow struct {
	cfg     proto.Flow
	index   int
	fd      int
	flags   int // of send(2)
	written atomic.Int64
	done    chan struct{} // closed when the writer is gone
	err     error         // valid after done

	cwnds map[uint32]int // samples in the measured time
}

// dial opens the connection of flow i.
func dial(cfg *proto.Config, i int) (*flow, error) {
	f := &flow{cfg: cfg.Flows[i], index: i, fd: -1, done: make(chan struct{}), cwnds: map[uint32]int{}}
	if cfg.More {
		f.flags = unix.MSG_MORE
	}
	from, to, family, err := addresses(cfg, i)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("flow %d: socket: %w", i, err)
	}
	f.fd = fd
	if err := f.configure(cfg); err != nil {
		return f, err
	}
	if err := unix.Bind(fd, from); err != nil {
		return f, fmt.Errorf("flow %d: bind: %w", i, err)
	}
	if err := connect(fd, to); err != nil {
		return f, fmt.Errorf("flow %d: connect to %s port %d: %w", i, cfg.Peer, cfg.Port, err)
	}
	return f, nil
}

// connect is connect(2), which a signal may interrupt.
func connect(fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	for errors.Is(err, unix.EINTR) || errors.Is(err, unix.EALREADY) {
		time.Sleep(time.Millisecond)
		err = unix.Connect(fd, to)
	}
	if errors.Is(err, unix.EISCONN) {
		return nil
	}
	return err
}

// configure sets the options that the scenario asks for.
func (f *flow) configure(cfg *proto.Config) error {
	set := func(what string, err error) error {
		if err != nil {
			return fmt.Errorf("flow %d: %s: %w", f.index, what, err)
		}
		return nil
	}
	tv := unix.NsecToTimeval(int64(sendTimeout))
	errs := []error{
		set("SO_SNDTIMEO", unix.SetsockoptTimeval(f.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv)),
		set("SO_REUSEADDR", unix.SetsockoptInt(f.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)),
	}
	if f.cfg.CC != "" {
		errs = append(errs, set("congestion control "+f.cfg.CC,
			unix.SetsockoptString(f.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, f.cfg.CC)))
	}
	if f.cfg.NoDelay {
		errs = append(errs, set("TCP_NODELAY", unix.SetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)))
	}
	if f.cfg.Pacing > 0 {
		errs = append(errs, set("SO_MAX_PACING_RATE", unix.SetsockoptUint64(f.fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, f.cfg.Pacing)))
	}
	if cfg.MSS > 0 { // the option counts the 12 bytes of the timestamp option
		errs = append(errs, set("TCP_MAXSEG", unix.SetsockoptInt(f.fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, cfg.MSS+12)))
	}
	return errors.Join(errs...)
}

func addresses(cfg *proto.Config, i int) (from, to unix.Sockaddr, family int, err error) {
	local, err := netip.ParsePrefix(cfg.Addr)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("address: %w", err)
	}
	peer, err := netip.ParseAddr(cfg.Peer)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("peer: %w", err)
	}
	if peer.Is4() {
		return &unix.SockaddrInet4{Port: cfg.FromPort + i, Addr: local.Addr().As4()},
			&unix.SockaddrInet4{Port: cfg.Port, Addr: peer.As4()}, unix.AF_INET, nil
	}
	return &unix.SockaddrInet6{Port: cfg.FromPort + i, Addr: local.Addr().As16()},
		&unix.SockaddrInet6{Port: cfg.Port, Addr: peer.As16()}, unix.AF_INET6, nil
}

// run is the writer: pinned to its CPU, it writes while the gate is open.
func (f *flow) run(g *gate) {
	defer close(f.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var cpu unix.CPUSet
	cpu.Set(f.cfg.CPU)
	if err := unix.SchedSetaffinity(0, &cpu); err != nil {
		f.err = fmt.Errorf("flow %d: cpu %d: %w", f.index, f.cfg.CPU, err)
		return
	}
	buf := make([]byte, f.cfg.Write)
	for entered := false; g.enter(entered); entered = true {
		for g.isOpen() {
			more, err := f.step(g, buf)
			if err != nil {
				f.err = fmt.Errorf("flow %d after %d bytes: %w", f.index, f.written.Load(), err)
			}
			if err != nil || !more {
				g.leave()
				return
			}
		}
	}
}

// step makes one write; more is false after the last.
func (f *flow) step(g *gate, buf []byte) (more bool, err error) {
	if wait := f.wait(g); wait > 0 {
		time.Sleep(min(wait, 5*time.Millisecond))
		return true, nil
	}
	if left := f.cfg.Total - f.written.Load(); f.cfg.Total > 0 {
		if left <= 0 {
			return false, nil
		}
		buf = buf[:min(left, int64(len(buf)))]
	}
	if err := f.write(buf); err != nil {
		return false, err
	}
	if f.cfg.Think > 0 {
		return true, nanosleep(f.cfg.Think)
	}
	return true, nil
}

// wait is how long the flow's start is still ahead.
func (f *flow) wait(g *gate) time.Duration {
	if f.cfg.Start == 0 {
		return 0
	}
	return f.cfg.Start - g.elapsed()
}

// write writes all of b, in one call unless the kernel takes less.
func (f *flow) write(b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(f.fd, b, nil, nil, f.flags)
		if n > 0 {
			f.written.Add(int64(n))
			b = b[n:]
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("write: %w", err)
		}
	}
	return nil
}

// unacked is how many bytes the peer has not acknowledged (SIOCOUTQ).
func (f *flow) unacked() (int, error) { return unix.IoctlGetInt(f.fd, unix.SIOCOUTQ) }

// sample looks at the congestion window.
func (f *flow) sample() {
	if info, err := unix.GetsockoptTCPInfo(f.fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		f.cwnds[info.Snd_cwnd]++
	}
}

// report is the flow's account.
func (f *flow) report() proto.FlowReport {
	r := proto.FlowReport{Written: f.written.Load(), CC: f.cfg.CC}
	info, err := unix.GetsockoptTCPInfo(f.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return r
	}
	if name, err := unix.GetsockoptString(f.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err == nil {
		r.CC = name
	}
	r.CwndLast, r.RTTus = int64(info.Snd_cwnd), float64(info.Rtt)
	r.Retrans, r.MSS = int64(info.Total_retrans), int(info.Snd_mss)
	r.PacingBps, r.DeliveryBps = 8*float64(info.Pacing_rate), 8*float64(info.Delivery_rate)
	r.Cwnd = mode(f.cwnds, info.Snd_cwnd)
	return r
}

// mode is the most frequent value, the larger one of two; without samples it is
// last.
func mode(count map[uint32]int, last uint32) int64 {
	best := last
	for v, n := range count {
		if n > count[best] || n == count[best] && v > best {
			best = v
		}
	}
	return int64(best)
}

// nanosleep sleeps without the runtime's timers.
func nanosleep(d time.Duration) error {
	ts := unix.NsecToTimespec(int64(d))
	for {
		err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, &ts)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
