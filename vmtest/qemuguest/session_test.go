package qemuguest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

// fakeDevice is a device whose counters the test sets.
type fakeDevice struct {
	counts []queueCount
	broken chan error
}

func (d *fakeDevice) counters() []queueCount { return append([]queueCount(nil), d.counts...) }
func (d *fakeDevice) failure() <-chan error  { return d.broken }

// play is a session whose guest is the test.
type play struct {
	t      testing.TB
	s      *session
	dev    *fakeDevice
	out    net.Conn // the guest's end of the line
	in     *bufio.Scanner
	result chan error
	phases chan string // of the session's progress
	stop   context.CancelFunc
}

func newPlay(t testing.TB) *play {
	ours, theirs := net.Pipe()
	vm := &machine{control: ours, messages: make(chan proto.Message, 16), ended: make(chan struct{}), console: &console{}}
	sc := vmtest.Default()
	p := &play{t: t, out: theirs, in: bufio.NewScanner(theirs), result: make(chan error, 1), phases: make(chan string, 16),
		dev: &fakeDevice{broken: make(chan error, 1)}}
	for _, dir := range []netdev.Dir{netdev.DirRX, netdev.DirTX} {
		p.dev.counts = append(p.dev.counts, queueCount{dir: dir})
	}
	said := &vmtest.Options{Progress: func(g vmtest.Progress) { p.phases <- g.Phase }}
	p.s = &session{scenario: &sc, options: said, vm: vm, back: p.dev, recv: &receiver{}}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	_ = theirs.SetDeadline(time.Now().Add(20 * time.Second))
	go vm.read()
	go func() { p.result <- p.s.run(ctx) }()
	t.Cleanup(func() { cancel(); theirs.Close(); ours.Close() })
	return p
}

func (p *play) say(m proto.Message) {
	p.t.Helper()
	if err := proto.Write(p.out, m); err != nil {
		p.t.Fatal(err)
	}
}

func (p *play) hear(want proto.Kind) {
	p.t.Helper()
	if !p.in.Scan() {
		p.t.Fatalf("the host hung up, want %s", want)
	}
	m, err := proto.Parse(p.in.Bytes())
	if err != nil || m.Kind != want {
		p.t.Fatalf("the host said %s (%v), want %s", m.Kind, err, want)
	}
}

// quiet is one round of counting, with the driver's counter of TX kicks.
func (p *play) quiet(at string, kicks uint64) {
	p.t.Helper()
	snap := &proto.Snapshot{NIC: map[string]uint64{"tx_queue_0_kicks": kicks, "rx_queue_0_kicks": 0}}
	p.say(proto.Message{Kind: proto.Quiet, At: at, Snapshot: snap})
	p.hear(proto.Seen)
	p.say(proto.Message{Kind: proto.Agreed, At: at})
}

func (p *play) wait() error {
	p.t.Helper()
	select {
	case err := <-p.result:
		return err
	case <-time.After(20 * time.Second):
		p.t.Fatal("the session does not end")
		return nil
	}
}

// TestSession is a guest that does everything as it should. The device's ring
// started one kick before the driver began to count.
func TestSession(t *testing.T) {
	p := newPlay(t)
	if _, err := p.out.Write([]byte("\x00noise of a line\n")); err != nil {
		t.Fatal(err)
	}
	p.say(proto.Message{Kind: proto.Hello, Kernel: "6.1.0-test"})
	p.say(proto.Message{Kind: proto.Ready})
	p.hear(proto.Go)
	p.dev.counts[1].stats.Kicks = 11
	p.quiet(proto.AtStart, 10)
	p.dev.counts[1].stats.Kicks = 111
	p.quiet(proto.AtEnd, 110)
	p.say(proto.Message{Kind: proto.Result, Report: &proto.Report{Measured: time.Second}})
	if err := p.wait(); err != nil {
		t.Fatal(err)
	}
	if got := offsets(p.s.start)["nic.tx_queue_0_kicks"]; got != 1 {
		t.Errorf("offset %v, want 1", got)
	}
	if err := mismatch(p.s.start, p.s.end); err != nil {
		t.Error(err)
	}
	p.s.end.device[1].stats.Kicks++
	err := mismatch(p.s.start, p.s.end)
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "tx 0: the driver says 100 (tx_queue_0_kicks), the device 101") {
		t.Errorf("%v, want %v with both counts", err, ErrMismatch)
	}
}

// TestSessionTroubles: each ends the session with an error that names it.
func TestSessionTroubles(t *testing.T) {
	old := lastWordsPatience
	lastWordsPatience = 20 * time.Millisecond
	defer func() { lastWordsPatience = old }()
	for _, c := range []struct {
		name string
		do   func(*play)
		want error
		text string
	}{
		{"guest gives up", func(p *play) { p.say(proto.Message{Kind: proto.Error, Text: "no carrier"}) }, ErrGuest, "no carrier"},
		{"unknown word", func(p *play) { p.say(proto.Message{Kind: "hum"}) }, ErrGuest, `"hum"`},
		{"host's word", func(p *play) { p.say(proto.Message{Kind: proto.Seen}) }, ErrGuest, `"seen"`},
		{"agrees to nothing", func(p *play) { p.say(proto.Message{Kind: proto.Agreed, At: proto.AtStart}) }, ErrGuest, "agreed to nothing"},
		{"quiet without counters", func(p *play) { p.say(proto.Message{Kind: proto.Quiet}) }, ErrGuest, "without a snapshot"},
		{"result without report", func(p *play) { p.say(proto.Message{Kind: proto.Result}) }, ErrGuest, "without a report"},
		{"machine ends", func(p *play) {
			_, _ = p.s.vm.console.Write([]byte("Kernel panic - not syncing\n"))
			close(p.s.vm.ended)
			p.out.Close()
		}, ErrGuest, "Kernel panic"},
		{"device fails", func(p *play) { p.dev.broken <- errors.New("memory truncated") }, nil, "memory truncated"},
		{"interrupted early", func(p *play) { p.stop() }, context.Canceled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlay(t)
			c.do(p)
			err := p.wait()
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

// TestLastWords: the device's connection ends before the guest's result is read.
func TestLastWords(t *testing.T) {
	p := newPlay(t)
	p.say(proto.Message{Kind: proto.Hello})
	p.quiet(proto.AtStart, 0)
	p.quiet(proto.AtEnd, 0)
	p.dev.broken <- errors.New("the front-end has gone")
	for len(p.dev.broken) > 0 { // the session knows, or is about to
		time.Sleep(time.Millisecond)
	}
	p.say(proto.Message{Kind: proto.Result, Report: &proto.Report{}})
	p.out.Close()
	if err := p.wait(); err != nil || p.s.report == nil {
		t.Errorf("%v, report %v", err, p.s.report)
	}
}

// TestInterrupted: after the measurement began the guest is told to stop, and
// what it reports counts.
func TestInterrupted(t *testing.T) {
	p := newPlay(t)
	p.say(proto.Message{Kind: proto.Hello})
	p.quiet(proto.AtStart, 0)
	p.say(proto.Message{Kind: proto.Progress, Text: "measure"})
	for name := range p.phases { // the session is past the start then
		if name == "measure" {
			break
		}
	}
	p.stop()
	p.hear(proto.Stop)
	p.quiet(proto.AtEnd, 0)
	p.say(proto.Message{Kind: proto.Result, Report: &proto.Report{}})
	if err := p.wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if p.s.end == nil || p.s.report == nil {
		t.Error("what the guest reported after stop is lost")
	}
}

// TestLost: a byte that does not arrive is not overlooked.
func TestLost(t *testing.T) {
	r := &receiver{}
	s := &session{recv: r}
	old := lostPatience
	lostPatience = 10 * time.Millisecond
	defer func() { lostPatience = old }()
	if _, err := s.arrived([]int64{5}); !errors.Is(err, ErrLost) {
		t.Errorf("%v, want %v", err, ErrLost)
	}
}
