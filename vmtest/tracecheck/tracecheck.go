// Package tracecheck holds the simulated guest against traces of real kernels:
// it runs the model on what a trace's header says, and compares. The model sees
// the header and nothing else; the packets of the trace are read after its run.
package tracecheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

// ErrNoTraces is returned for a folder without traces.
var ErrNoTraces = errors.New("no traces")

// Files returns the traces at path: itself if it is a file, else the files
// *.tsv and *.tsv.gz in the folder, by name.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".tsv") || strings.HasSuffix(n, ".tsv.gz") {
			out = append(out, filepath.Join(path, n))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: %w; want files *.tsv or *.tsv.gz", path, ErrNoTraces)
	}
	return out, nil
}

// Options are what a check may vary to find the run that fits a trace best.
type Options struct {
	// Clock tries every phase of the guests' clock. It chooses by the trace's
	// packets, so what it finds says that the model can make a trace, not that the
	// header alone does.
	Clock bool
}

// Check runs the model on the header of the trace at path and compares it with
// the trace. Where a kernel draws a lot that no header tells, the first phase
// of BBR's cycle, every outcome is tried, and the report's Variant says which
// fitted best. With o.Clock so is the phase of the guests' clock, if the usual
// one does not agree packet for packet.
func Check(ctx context.Context, path string, o Options) (*trace.Report, error) {
	header, err := trace.ReadHeaderFile(path)
	if err != nil {
		return nil, err
	}
	models, err := Models(ctx, header)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	truth, err := trace.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var best *trace.Report
	for _, m := range models {
		r := trace.Compare(truth, m.Trace)
		r.Variant = m.Variant
		if best == nil || r.EqualLen > best.EqualLen || r.EqualLen == best.EqualLen && r.Within > best.Within {
			best = r
		}
	}
	if !o.Clock || best.EqualLen == best.Packets || best.Variant != "" {
		return best, nil
	}
	return fitClock(ctx, header, truth, best)
}

// Model is a run of the model on a trace's header.
type Model struct {
	Variant string // the lot that was drawn; "" if there is none
	Trace   *trace.Trace
}

// bbrPhases is the number of phases that BBR may begin its cycle in.
const bbrPhases = 7

// Models runs the model on a header, once for each lot that it might draw.
func Models(ctx context.Context, h *trace.Header) ([]Model, error) {
	s, x, err := trace.ScenarioOf(h)
	if err != nil {
		return nil, err
	}
	if x != nil {
		s = x.Complete(s)
	}
	s.Trace.Rules = true
	if s.CC != "bbr" {
		t, err := run(ctx, s, h.Name)
		return []Model{{Trace: t}}, err
	}
	var out []Model
	for phase := 1; phase <= bbrPhases; phase++ {
		s.BBRPhase = phase
		t, err := run(ctx, s, h.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, Model{fmt.Sprintf("phase %d", phase), t})
	}
	return out, nil
}

func run(ctx context.Context, s vmtest.Scenario, name string) (*trace.Trace, error) {
	var out bytes.Buffer
	if _, err := simguest.New(simguest.Config{}).Run(ctx, s, vmtest.Options{Trace: &out}); err != nil {
		return nil, err
	}
	return trace.Read(name+" (model)", &out)
}
