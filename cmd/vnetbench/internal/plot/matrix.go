package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
	"github.com/vnetbench/vnetbench/vmtest"
)

// maxPanels bounds the heat maps of one picture, maxCurves the curves of one.
const (
	maxPanels = 16
	maxCurves = 14
)

// matrix is a sweep seen for drawing: one axis to the right, one upwards, and a
// slice for each combination of the others.
type matrix struct {
	x, y   vmtest.Axis
	slices []slice
	total  int // slices that there are; some may be left out
}

// slice is the cells with the same values on all axes but x and y.
type slice struct {
	title string
	run   map[[2]int]*vmtest.Run // by position on x and y
}

// value is a figure at a position, NaN where there is none.
func (s *slice) value(f sweep.Figure, x, y int) float64 {
	r := s.run[[2]int{x, y}]
	if r == nil {
		return math.NaN()
	}
	if v := f.Value(r); v != nil {
		return *v
	}
	return math.NaN()
}

// arrange chooses the axes: sizes of writes to the right and queue pairs upwards,
// if they are swept, and else the innermost ones.
func arrange(axes []vmtest.Axis, done []sweep.Done) matrix {
	var m matrix
	xi := choose(axes, "write", -1)
	yi := choose(axes, "queue_pairs", xi)
	m.x = axes[xi]
	if yi >= 0 {
		m.y = axes[yi]
	}
	index := map[string]int{}
	for i := range done {
		r := &done[i].Run
		title := restOf(axes, r, xi, yi)
		k, ok := index[title]
		if !ok {
			m.total++
			k = -1
			if len(m.slices) < maxPanels {
				k = len(m.slices)
				m.slices = append(m.slices, slice{title, map[[2]int]*vmtest.Run{}})
			}
			index[title] = k
		}
		if k >= 0 {
			m.slices[k].run[[2]int{at(m.x, r), at(m.y, r)}] = r
		}
	}
	return m
}

// choose returns the axis of that key if it has several values, else the last
// that has and is not taken, else the last not taken; -1 if there is none.
func choose(axes []vmtest.Axis, key string, taken int) int {
	best := -1
	for i, a := range axes {
		switch {
		case i == taken:
		case a.Key == key && len(a.Values) > 1:
			return i
		case best < 0 || len(a.Values) > 1:
			best = i
		}
	}
	return best
}

func at(a vmtest.Axis, r *vmtest.Run) int {
	for i, v := range a.Values {
		if r.Axes[a.Key] == v {
			return i
		}
	}
	return 0
}

func restOf(axes []vmtest.Axis, r *vmtest.Run, xi, yi int) string {
	var parts []string
	for i, a := range axes {
		if i != xi && i != yi && len(a.Values) > 1 {
			parts = append(parts, a.Key+"="+r.Axes[a.Key])
		}
	}
	return strings.Join(parts, " ")
}

// Sweep draws the mean GSO size and the kicks for each MB of a sweep, as heat maps
// and as curves, into dir. It returns the files.
func Sweep(dir string, h sweep.Header, done []sweep.Done, formats []string) ([]string, error) {
	var out []string
	if len(done) == 0 {
		return nil, fmt.Errorf("sweep %s has no cells to draw", h.Name)
	}
	m := arrange(h.Axes, done)
	for _, name := range []string{"gso_mean_bytes", "kicks_per_mb"} {
		f, _ := sweep.FigureNamed(name)
		heat, err := m.heat(h.Name, f)
		if err != nil {
			return out, err
		}
		curves, err := m.curves(h.Name, f)
		if err != nil {
			return out, err
		}
		for kind, s := range map[string]sheet{"heat": heat, "curves": curves} {
			if s == nil {
				continue
			}
			files, err := s.save(dir, kind+"."+name, formats)
			out = append(out, files...)
			if err != nil {
				return out, err
			}
		}
	}
	slices.Sort(out)
	return out, nil
}
