package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// load is what makes traffic. After warmUp and after measured nothing of it is
// under way.
type load interface {
	warmUp(ctl *control) error
	measured(ctl *control) error
	written() []int64 // bytes that each flow's program has written
	finish(*proto.Report) error
	close()
}

func newLoad(cfg *proto.Config) (load, error) {
	if len(cfg.Program) > 0 {
		return &program{cfg: cfg}, nil
	}
	return newSender(cfg)
}

// sender is our own load: the scenario's flows.
type sender struct {
	cfg   *proto.Config
	gate  *gate
	flows []*flow
}

// newSender connects the flows and starts their writers before a shut gate.
func newSender(cfg *proto.Config) (*sender, error) {
	s := &sender{cfg: cfg, gate: newGate()}
	for i := range cfg.Flows {
		f, err := dial(cfg, i)
		if f != nil {
			s.flows = append(s.flows, f)
		}
		if err != nil {
			return s, err
		}
	}
	for _, f := range s.flows {
		go f.run(s.gate)
	}
	return s, nil
}

func (s *sender) warmUp(ctl *control) error {
	return s.period(ctl, "warm-up", s.cfg.WarmUp, nil)
}

func (s *sender) measured(ctl *control) error {
	return s.period(ctl, "measure", s.cfg.Duration, func() {
		for _, f := range s.flows {
			f.sample()
		}
	})
}

// period opens the gate for d, or until every flow is done or the host says
// stop, shuts it, and waits until everything is acknowledged.
func (s *sender) period(ctl *control, name string, d time.Duration, sample func()) error {
	if d <= 0 {
		return nil
	}
	s.gate.unlock()
	s.wait(ctl, name, d, sample)
	s.gate.shut()
	if err := s.broken(); err != nil {
		return err
	}
	return s.drain(sendTimeout)
}

func (s *sender) wait(ctl *control, name string, d time.Duration, sample func()) {
	begin, said := time.Now(), time.Time{}
	timer := time.NewTimer(d)
	defer timer.Stop()
	tick := time.NewTicker(s.cfg.Sample)
	defer tick.Stop()
	for !s.finished() {
		select {
		case <-timer.C:
			return
		case <-ctl.stop:
			return
		case <-tick.C:
		}
		if sample != nil {
			sample()
		}
		if time.Since(said) > 500*time.Millisecond {
			said = time.Now()
			ctl.progress(name, time.Since(begin), d)
		}
	}
}

// finished reports whether every writer is gone.
func (s *sender) finished() bool {
	for _, f := range s.flows {
		select {
		case <-f.done:
		default:
			return false
		}
	}
	return true
}

// broken returns the errors of writers that are gone.
func (s *sender) broken() error {
	var errs []error
	for _, f := range s.flows {
		select {
		case <-f.done:
			errs = append(errs, f.err)
		default:
		}
	}
	return errors.Join(errs...)
}

// drain waits until the peer has acknowledged every byte.
func (s *sender) drain(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for _, f := range s.flows {
		for {
			n, err := f.unacked()
			if err != nil {
				return fmt.Errorf("flow %d: SIOCOUTQ: %w", f.index, err)
			}
			if n == 0 {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("flow %d: %d bytes not acknowledged after %v", f.index, n, patience)
			}
			time.Sleep(200 * time.Microsecond)
		}
	}
	return nil
}

func (s *sender) written() []int64 {
	out := make([]int64, len(s.flows))
	for i, f := range s.flows {
		out[i] = f.written.Load()
	}
	return out
}

func (s *sender) finish(r *proto.Report) error {
	s.gate.end()
	for _, f := range s.flows {
		<-f.done
		r.Flows = append(r.Flows, f.report())
	}
	return s.broken()
}

// close ends the connections with a FIN each.
func (s *sender) close() {
	for _, f := range s.flows {
		if f.fd >= 0 {
			closeFD(f.fd)
			f.fd = -1
		}
	}
}

// program is a load that somebody else wrote: a static binary, run once, from
// the snapshot at the start to that at the end. Its output goes to the console.
type program struct {
	cfg  *proto.Config
	exit int
}

func (p *program) warmUp(*control) error { return nil }

func (p *program) measured(ctl *control) error {
	argv := p.cfg.Program
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for k, v := range p.cfg.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("guest program %s: %w (it must be a static binary for the guest's architecture)", argv[0], err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctl.stop:
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	if err := cmd.Wait(); err != nil {
		p.exit = cmd.ProcessState.ExitCode()
	}
	return nil
}

func (p *program) written() []int64 { return []int64{} }

func (p *program) finish(r *proto.Report) error {
	r.Exit = p.exit
	if p.exit != 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the guest program ended with status %d", p.exit))
	}
	return nil
}

func (p *program) close() {}
