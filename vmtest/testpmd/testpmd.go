// Package testpmd drives DPDK's dpdk-testpmd: as a vhost-user front-end that
// needs neither virtual machine nor hugepages (virtio-user), and as a back-end to
// compare ours with (the vhost PMD). It knows nothing of our own back-end.
package testpmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Program is the name of the executable, which Debian has in dpdk-dev.
const Program = "dpdk-testpmd"

// ErrFailed says that testpmd ended, or that its device did not start.
var ErrFailed = errors.New("dpdk-testpmd failed")

// Find returns the path of the executable; the error says where to get it.
func Find() (string, error) {
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("%s is not here: apt-get install --no-install-recommends dpdk-dev", Program)
	}
	return path, nil
}

// Config describes a process. It takes memory that needs no hugepages.
type Config struct {
	CPU    int      // that all of its threads run on
	VDev   string   // its device: FrontEnd or BackEnd, or one's own
	Memory int      // MB; 0 is 64
	Mbufs  int      // packet buffers; 0 is 4096
	Args   []string // further arguments of the application
}

// FrontEnd is a virtio-user device of some queue pairs on a back-end's socket.
// options are appended as they are: "packed_vq=1", "mrg_rxbuf=0", "server=1".
func FrontEnd(socket string, queues int, options ...string) string {
	return vdev(fmt.Sprintf("net_virtio_user0,path=%s,queues=%d,queue_size=1024", socket, queues), options)
}

// BackEnd is a vhost device of some queue pairs that listens on a socket.
func BackEnd(socket string, queues int, options ...string) string {
	return vdev(fmt.Sprintf("net_vhost0,iface=%s,queues=%d", socket, queues), options)
}

func vdev(s string, options []string) string {
	return strings.Join(append([]string{s}, options...), ",")
}

// Process is a running testpmd that waits for commands. Its methods are for one
// goroutine.
type Process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  chan []byte // what it prints, in pieces; closed at its end
	text strings.Builder
	log  logged
}

// logged is what DPDK's threads log, on standard error: at any time, also in the
// middle of an answer.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns what was logged since it was called before.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// number tells the processes of a process apart, for DPDK's files.
var number atomic.Int64

const prompt = "testpmd> "

// patience is how long an answer may take: a machine may have much else to do.
const patience = time.Minute

// Start runs testpmd and waits until it takes commands. The process ends with
// ctx, and with this process. A device that does not start is ErrFailed, with the
// line that says so.
func Start(ctx context.Context, cfg Config) (*Process, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	if cfg.Memory == 0 {
		cfg.Memory = 64
	}
	if cfg.Mbufs == 0 {
		cfg.Mbufs = 4096
	}
	args := append([]string{"-o0", path, "--lcores", fmt.Sprintf("0@%d,1@%d", cfg.CPU, cfg.CPU), "--no-pci", "--no-telemetry",
		"--no-huge", "-m", strconv.Itoa(cfg.Memory), "--file-prefix", fmt.Sprintf("vnb%d-%d", os.Getpid(), number.Add(1)),
		"--vdev", cfg.VDev, "--", "-i", "--total-num-mbufs", strconv.Itoa(cfg.Mbufs), "--txd=1024", "--rxd=1024"}, cfg.Args...)
	p := &Process{cmd: exec.CommandContext(ctx, "stdbuf", args...), out: make(chan []byte, 64)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.start(); err != nil {
		return nil, err
	}
	said, err := p.wait(prompt)
	if err == nil {
		err = complaint(said + p.log.take())
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func (p *Process) start() (err error) {
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.cmd.Stderr = &p.log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	go func() {
		defer close(p.out)
		for {
			buf := make([]byte, 4096)
			n, err := out.Read(buf)
			if n > 0 {
				p.out <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// complaints are what testpmd prints about a device that does not work, without
// failing.
var complaints = regexp.MustCompile(`(?m)^.*(Failed to start device|Too many memory regions|Fail to configure|Fail to start port|Cannot create port|invalid parameter).*$`)

func complaint(log string) error {
	if line := complaints.FindString(log); line != "" {
		return fmt.Errorf("%w: %s", ErrFailed, strings.TrimSpace(line))
	}
	return nil
}

// event is what another thread of testpmd prints when a link goes up or down, in
// one piece and anywhere: testpmd writes its prompt letter by letter.
var event = regexp.MustCompile(`\nPort \d+: [^\n]* event\n`)

// wait reads until the text ends a line's beginning, and returns what came before,
// without the events.
func (p *Process) wait(text string) (string, error) {
	late := time.After(patience)
	for {
		if s := event.ReplaceAllString(p.text.String(), ""); strings.Contains(s, text) {
			before, after, _ := strings.Cut(s, text)
			p.text.Reset()
			p.text.WriteString(after)
			return before, nil
		}
		select {
		case b, ok := <-p.out:
			if !ok {
				return "", fmt.Errorf("%w: it ended: %s", ErrFailed, lastLine(p.text.String()+p.log.take()))
			}
			p.text.Write(b)
		case <-late:
			return "", fmt.Errorf("%w: no answer in %v: %s", ErrFailed, patience, lastLine(p.text.String()))
		}
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// Do runs commands, one after the other, and returns what the last one printed.
func (p *Process) Do(commands ...string) (out string, err error) {
	for _, c := range commands {
		if _, err := io.WriteString(p.in, c+"\n"); err != nil {
			return "", fmt.Errorf("%w: %w", ErrFailed, err)
		}
		if out, err = p.wait(prompt); err != nil {
			return "", fmt.Errorf("%s: %w", c, err)
		}
		if err := complaint(out + p.log.take()); err != nil {
			return "", err
		}
	}
	return out, nil
}

// Stats are the counters of port 0, and its rates since they were asked for
// before, by testpmd's own clock.
type Stats struct {
	RxPackets, RxBytes, TxPackets, TxBytes uint64
	RxRate, TxRate                         uint64 // packets per second
	RxBits, TxBits                         uint64 // bits per second
}

var counter = regexp.MustCompile(`([RT]X-(?:packets|bytes)|[RT]x-[pb]ps): +(\d+)`)

// Stats asks for the counters of port 0.
func (p *Process) Stats() (s Stats, err error) {
	out, err := p.Do("show port stats 0")
	if err != nil {
		return s, err
	}
	return parseStats(out)
}

func parseStats(out string) (s Stats, err error) {
	fields := map[string]*uint64{
		"RX-packets": &s.RxPackets, "RX-bytes": &s.RxBytes, "TX-packets": &s.TxPackets, "TX-bytes": &s.TxBytes,
		"Rx-pps": &s.RxRate, "Tx-pps": &s.TxRate, "Rx-bps": &s.RxBits, "Tx-bps": &s.TxBits,
	}
	found := counter.FindAllStringSubmatch(out, -1)
	if len(found) != len(fields) {
		return s, fmt.Errorf("%w: statistics that are none: %q", ErrFailed, out)
	}
	for _, m := range found {
		if *fields[m[1]], err = strconv.ParseUint(m[2], 10, 64); err != nil {
			return s, fmt.Errorf("%w: %s: %w", ErrFailed, m[1], err)
		}
	}
	return s, nil
}

// Pause stops the process where it is.
func (p *Process) Pause() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a process go on that was paused.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// Quit ends the process as its user would, and waits for it.
func (p *Process) Quit() error {
	_, err := io.WriteString(p.in, "quit\n")
	late := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	p.drain()
	return errors.Join(err, p.cmd.Wait())
}

// Kill ends the process at once, and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	p.drain()
	_ = p.cmd.Wait()
}

func (p *Process) drain() {
	for range p.out {
	}
}
