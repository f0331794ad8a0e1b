package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Change is something that could be done about a run.
type Change struct {
	Name string // as the user would set it
	Real bool   // an unpatched guest, or the device, can have it
	set  []vmtest.Setting
	Run  *vmtest.Run // what the simulator makes of it; nil if it cannot be had there
}

// ErrNoModel says that the simulator does not know a run's kernel.
var ErrNoModel = errors.New("the simulator has no model of the kernel")

// Changes are what can be tried on a scenario: what it does not have already.
func Changes(s *vmtest.Scenario) []Change {
	var out []Change
	add := func(real bool, key, value string) {
		out = append(out, Change{Name: key + "=" + value, Real: real, set: []vmtest.Setting{{Key: key, Value: value}}})
	}
	for _, r := range vmtest.Remedies() {
		if !slices.Contains(s.Remedies, r.Name) {
			names := append(append([]string{}, s.Remedies...), r.Name)
			add(r.Real(), "remedies", vmtest.RemedyLabel(names))
		}
	}
	if both := "win-divisor-1+no-full-size-test"; len(s.Remedies) == 0 {
		add(false, "remedies", both) // the report that proposes them asks for the two together
	}
	if s.QueuePairs > 1 {
		add(true, "queue_pairs", "1")
	}
	if s.Release != vmtest.ReleaseNAPI {
		add(true, "release", vmtest.ReleaseNAPI)
	} else {
		add(true, "release", vmtest.ReleaseOrphan)
	}
	if !s.More {
		add(true, "more", "on")
	}
	policies := []string{"hold:time=100us", "thin-acks:time=100us", "hold:time=100us+thin-acks:time=100us",
		"coalesce-calls:time=50us", "poll:time=100us", "delay-service:time=50us", "merge", "adaptive"}
	if s.QueuePairs > 1 {
		policies = append(policies, "share-worker:pairs="+strconv.Itoa(s.QueuePairs))
	}
	for _, p := range policies {
		if p != s.Policy {
			add(true, "policy", p)
		}
	}
	return out
}

// Try runs the scenario and each change of it in the simulator, side by side. The
// first answer is the scenario as it is. A change that the simulator cannot have
// has no run. done is called after each run, by one goroutine at a time; it may be
// nil.
func Try(ctx context.Context, s vmtest.Scenario, changes []Change, newGuest func() vmtest.Guest, done func(n, of int)) (*vmtest.Run, error) {
	if !slices.Contains(newGuest().Kernels(), s.Kernel) {
		return nil, fmt.Errorf("%w %q", ErrNoModel, s.Kernel)
	}
	base, err := newGuest().Run(ctx, s, vmtest.Options{})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	n := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range changes {
		g.Go(func() error {
			run, err := try(ctx, s.Clone(), changes[i].set, newGuest())
			mu.Lock()
			defer mu.Unlock()
			changes[i].Run = run
			if n++; done != nil {
				done(n, len(changes))
			}
			return err
		})
	}
	return base, g.Wait()
}

func try(ctx context.Context, s vmtest.Scenario, set []vmtest.Setting, g vmtest.Guest) (*vmtest.Run, error) {
	for _, st := range set {
		if err := s.Set(st.Key, st.Value); err != nil {
			return nil, nil // this scenario cannot have it
		}
	}
	if g.Check(s) != nil {
		return nil, nil
	}
	return g.Run(ctx, s, vmtest.Options{})
}

// Table writes what the changes do, against the scenario as it is.
func Table(w io.Writer, base *vmtest.Run, changes []Change) error {
	t := grid.Table{Columns: []grid.Column{{Head: []string{"change"}, Left: true}}}
	for _, h := range [][]string{{"GSO mean", "bytes"}, {"packets", "/MB"}, {"kicks", "/MB"}, {"tx calls", "/MB"}, {"rx calls", "/MB"},
		{"guest CPU", "us/MB"}, {"host CPU", "us/MB"}, {"goodput", "Gbit/s"}} {
		t.Columns = append(t.Columns, grid.Column{Head: h})
	}
	line(&t, "none", base)
	for i := range changes {
		c := &changes[i]
		name := c.Name
		if !c.Real {
			name += " (patch)"
		}
		if c.Run != nil && moved(base, c.Run) {
			line(&t, name, c.Run)
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, grid.Wrap(still(base, changes), width, "", ""))
	return err
}

func line(t *grid.Table, name string, r *vmtest.Run) {
	v := &r.Totals
	t.Row(name, grid.Number(v.GSOMeanBytes), grid.Number(v.PacketsPerMB), grid.Number(v.KicksPerMB), grid.Number(v.TxCallsPerMB), grid.Number(v.RxCallsPerMB),
		grid.Micros(v.GuestNsPerMB), grid.Micros(v.HostNsPerMB), grid.Number(v.GoodputBps/1e9))
}

// moved reports whether a change moves a figure by a tenth.
func moved(a, b *vmtest.Run) bool {
	x, y := figures(&a.Totals), figures(&b.Totals)
	for i := range x {
		if y[i] > 1.1*x[i]+0.5 || y[i] < 0.9*x[i]-0.5 {
			return true
		}
	}
	return false
}

// figures are what the table shows, in units in which one half is nothing.
func figures(t *vmtest.Totals) []float64 {
	out := []float64{t.GSOMeanBytes, t.PacketsPerMB, t.KicksPerMB, t.TxCallsPerMB, t.RxCallsPerMB, t.GoodputBps / 1e7}
	for _, ns := range []*float64{t.GuestNsPerMB, t.HostNsPerMB} {
		if ns != nil {
			out = append(out, *ns/1e3)
		}
	}
	return out
}

// still names the changes that do nothing here.
func still(base *vmtest.Run, changes []Change) string {
	var same, without []string
	for i := range changes {
		switch c := &changes[i]; {
		case c.Run == nil:
			without = append(without, c.Name)
		case !moved(base, c.Run):
			same = append(same, c.Name)
		}
	}
	text := ""
	if len(same) > 0 {
		text += fmt.Sprintf("No figure moves by a tenth with %s. ", list(same))
	}
	if len(without) > 0 {
		text += fmt.Sprintf("This scenario cannot have %s. ", list(without))
	}
	if text == "" {
		return "Each of the changes moves a figure by a tenth or more."
	}
	return text
}

func list(s []string) string {
	var out strings.Builder
	out.WriteString(s[0])
	for i, x := range s[1:] {
		if i == len(s)-2 {
			out.WriteString(" or " + x)
			continue
		}
		out.WriteString(", " + x)
	}
	return out.String()
}
