// Package bench measures how fast vnetbench serve is beside other vhost-user
// back-ends, under the same front-end on the same two CPUs, in turns of a fraction
// of a second: what the machine does meanwhile happens to both.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vmtest/testpmd"
)

// Config describes a measurement.
type Config struct {
	Seconds  float64          // all of it together, about; at least MinSeconds
	Program  string           // the executable of vnetbench
	CPUs     [2]int           // of the back-ends, and of the front-ends
	Progress func(say string) // is told what is done now; nil is nobody
	Note     func(say string) // is told what is left out, and why; nil is nobody
}

// MinSeconds is the shortest measurement: a pair of each case.
const MinSeconds = 20

// ErrCPUs says that there are not two CPUs.
var ErrCPUs = errors.New("two CPUs are needed, one for each side")

// PickCPUs returns the first two CPUs that the process may use.
func PickCPUs() (cpus [2]int, err error) {
	n := 0
	for cpu := 0; cpu < 1024 && n < 2; cpu++ {
		if osio.HasCPU(cpu) {
			cpus[n] = cpu
			n++
		}
	}
	if n < 2 {
		return cpus, ErrCPUs
	}
	return cpus, nil
}

// Peer is the name of the other back-end.
const Peer = "DPDK vhost PMD (testpmd)"

// spec is one case.
type spec struct {
	name  string
	about string
	unit  string
	kind  kind
	bytes int
	net   string // of our back-end
}

// kind is which front-end a case has, and which way the packets go.
type kind uint8

const (
	guestToHost kind = iota // testpmd sends
	hostToGuest             // testpmd receives
	segmented               // our own front-end sends GSO packets
)

var specs = []spec{
	{"tx-64", "guest to host, 64 bytes", "Mpps", guestToHost, 64, "sink"},
	{"tx-1500", "guest to host, 1500 bytes", "Mpps", guestToHost, 1500, "sink"},
	{"rx-64", "host to guest, 64 bytes", "Mpps", hostToGuest, 64, "source:64"},
	{"rx-1500", "host to guest, 1500 bytes", "Mpps", hostToGuest, 1500, "source:1500"},
	{"tx-64k", "guest to host, GSO packets of 64 KB", "Gbit/s", segmented, gsoBytes, "sink"},
	{"tx-64k-copy", "guest to host, GSO packets of 64 KB, copied", "Gbit/s", segmented, gsoBytes, "sink:copy"},
}

// runner carries a measurement out.
type runner struct {
	cfg    Config
	dir    string
	socket int
	left   time.Time // until when
}

// Run measures every case that can be measured here.
func Run(ctx context.Context, cfg Config) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "vnb")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r := &runner{cfg: cfg, dir: dir}
	_, missing := testpmd.Find()
	if missing != nil {
		r.note(fmt.Sprintf("%v; left out: %s, and all cases but those of our own front-end", missing, Peer))
	}
	end := time.Now().Add(time.Duration(cfg.Seconds * float64(time.Second)))
	for i, s := range specs {
		if missing != nil && s.kind != segmented {
			continue
		}
		r.left = time.Now().Add(time.Until(end) / time.Duration(len(specs)-i))
		r.say(s.about)
		res, err := r.measure(ctx, s, missing == nil)
		if err != nil {
			return results, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, res)
	}
	return results, nil
}

func (r *runner) say(s string) {
	if r.cfg.Progress != nil {
		r.cfg.Progress(s)
	}
}

func (r *runner) note(s string) {
	if r.cfg.Note != nil {
		r.cfg.Note(s)
	}
}

// path is a fresh socket's.
func (r *runner) path() string {
	r.socket++
	return filepath.Join(r.dir, fmt.Sprintf("s%d", r.socket))
}

// measure runs pairs of one case until its time is up.
func (r *runner) measure(ctx context.Context, s spec, peer bool) (res Result, err error) {
	var sides []side
	defer func() {
		for _, x := range sides {
			x.close()
		}
	}()
	for _, open := range r.sides(s, peer) {
		x, err := open(ctx, s)
		if err != nil {
			return res, err
		}
		sides = append(sides, x)
	}
	res = Result{Case: s.name, About: s.about, Unit: s.unit}
	longest := time.Duration(0)
	for n := 0; n == 0 || time.Until(r.left) > longest && n < maxPairs; n++ {
		start := time.Now()
		if err := r.pair(ctx, &res, sides, n); err != nil {
			return res, err
		}
		longest = max(longest, time.Since(start))
	}
	res.finish()
	return res, nil
}

const maxPairs = 1000

// sides are what opens ours and, if it is there, the peer's.
func (r *runner) sides(s spec, peer bool) []func(context.Context, spec) (side, error) {
	ours, theirs := r.openOurs, r.openPeer
	if s.kind == segmented {
		ours, theirs = r.openOursSegmented, r.openPeerSegmented
	}
	if !peer {
		return []func(context.Context, spec) (side, error){ours}
	}
	return []func(context.Context, spec) (side, error){ours, theirs}
}

// window is how long one back-end runs before it is the other's turn.
const window = 300 * time.Millisecond

// patiently measures a side once. Where the machine has so much else to do that no
// packet goes through, it waits longer, up to some seconds.
func patiently(x side) (rate float64, err error) {
	for d := window; d < 20*window; d *= 2 {
		if rate, err = x.run(d); !errors.Is(err, errNothing) {
			return rate, err
		}
	}
	return rate, err
}

// pair measures each side once, in an order that changes, and how far the CPUs
// are from each other before and after.
func (r *runner) pair(ctx context.Context, res *Result, sides []side, n int) error {
	var rates [2]float64
	before, err := pingPong(r.cfg.CPUs)
	if err != nil {
		return err
	}
	for i := range sides {
		if err := ctx.Err(); err != nil {
			return err
		}
		which := (i + n) % len(sides)
		if rates[which], err = patiently(sides[which]); err != nil {
			return err
		}
	}
	after, err := pingPong(r.cfg.CPUs)
	if err != nil {
		return err
	}
	res.add(rates[:len(sides)], before, after)
	return nil
}
