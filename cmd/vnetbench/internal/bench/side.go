package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vnetbench/vnetbench/vmtest/testpmd"
)

// side is a back-end with its front-end. Both rest between two windows.
type side interface {
	// run lets both work for a time and returns their rate in the case's unit.
	run(d time.Duration) (float64, error)
	close()
}

// backend is a back-end's process.
type backend interface {
	Pause()
	Resume()
	Kill()
}

// ownBackend is vnetbench serve.
type ownBackend struct {
	cmd *exec.Cmd
	log strings.Builder
}

// serve starts our back-end on a socket.
func (r *runner) serve(ctx context.Context, path, kind string) (*ownBackend, error) {
	b := &ownBackend{cmd: exec.CommandContext(ctx, r.cfg.Program, "serve", "--socket-path", path, "--net", kind,
		"--poll", "--cpus", strconv.Itoa(r.cfg.CPUs[0]), "--stats", "0", "--quiet")}
	b.cmd.Stdout, b.cmd.Stderr = io.Discard, &b.log
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if listens(path) {
			return b, nil
		}
		if time.Now().After(end) {
			b.Kill()
			return nil, fmt.Errorf("%s does not serve %s: %s", r.cfg.Program, path, b.log.String())
		}
	}
}

// listens reports whether somebody accepts connections at path.
func listens(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func (b *ownBackend) Pause()  { _ = b.cmd.Process.Signal(syscall.SIGSTOP) }
func (b *ownBackend) Resume() { _ = b.cmd.Process.Signal(syscall.SIGCONT) }
func (b *ownBackend) Kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// pmdSide is a back-end under testpmd.
type pmdSide struct {
	back  backend
	front *testpmd.Process
	rx    bool // packets go to the guest
}

func (r *runner) openOurs(ctx context.Context, s spec) (side, error) {
	path := r.path()
	b, err := r.serve(ctx, path, s.net)
	if err != nil {
		return nil, err
	}
	return r.openFront(ctx, s, b, path)
}

func (r *runner) openPeer(ctx context.Context, s spec) (side, error) {
	path := r.path()
	b, err := testpmd.Start(ctx, testpmd.Config{CPU: r.cfg.CPUs[0], VDev: testpmd.BackEnd(path, 1)})
	if err != nil {
		return nil, err
	}
	if err := forward(b, s.kind == hostToGuest, s.bytes); err != nil {
		b.Kill()
		return nil, err
	}
	return r.openFront(ctx, s, b, path)
}

// openFront starts the front-end of a back-end, which it closes on an error.
func (r *runner) openFront(ctx context.Context, s spec, b backend, path string) (side, error) {
	f, err := testpmd.Start(ctx, testpmd.Config{CPU: r.cfg.CPUs[1], VDev: testpmd.FrontEnd(path, 1)})
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("front-end: %w", err)
	}
	x := &pmdSide{back: b, front: f, rx: s.kind == hostToGuest}
	if err := forward(f, s.kind == guestToHost, s.bytes); err != nil {
		x.close()
		return nil, fmt.Errorf("front-end: %w", err)
	}
	x.rest()
	return x, nil
}

// forward has a testpmd send, or receive and throw away.
func forward(p *testpmd.Process, send bool, bytes int) error {
	if !send {
		_, err := p.Do("set fwd rxonly", "start")
		return err
	}
	_, err := p.Do("set fwd txonly", "set txpkts "+strconv.Itoa(bytes), "start")
	return err
}

func (x *pmdSide) rest() {
	x.front.Pause()
	x.back.Pause()
}

// settle is how long both sides run before they are measured.
const settle = 30 * time.Millisecond

// errNothing says that a window saw no packets.
var errNothing = errors.New("no packet went through")

func (x *pmdSide) run(d time.Duration) (float64, error) {
	x.back.Resume()
	x.front.Resume()
	defer x.rest()
	time.Sleep(settle)
	if _, err := x.front.Stats(); err != nil {
		return 0, err
	}
	time.Sleep(d)
	s, err := x.front.Stats()
	rate := s.TxRate
	if x.rx {
		rate = s.RxRate
	}
	if err == nil && rate == 0 {
		err = errNothing
	}
	return float64(rate) / 1e6, err
}

func (x *pmdSide) close() {
	x.front.Kill()
	x.back.Kill()
}
