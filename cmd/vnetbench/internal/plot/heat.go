package plot

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
)

// heat draws a panel for each slice, all with one scale of colours, which is
// logarithmic: figures go over three decades.
func (m *matrix) heat(name string, f sweep.Figure) (sheet, error) {
	lo, hi := m.span(f)
	if math.IsInf(lo, 1) {
		return nil, nil // nobody knows the figure
	}
	var panels []*plot.Plot
	for i := range m.slices {
		s := &m.slices[i]
		p := panel(m.title(name, f, s), m.x.Key, m.y.Key)
		p.NominalX(m.x.Values...)
		p.NominalY(m.yLabels()...)
		h := plotter.NewHeatMap(&field{m, s, f}, colours())
		h.Min, h.Max = lo, hi
		h.NaN = color.Gray{220}
		if h.Max <= h.Min {
			h.Max = h.Min + 1
		}
		p.Add(h)
		labels, err := m.numbers(s, f)
		if err != nil {
			return nil, err
		}
		p.Add(labels)
		panels = append(panels, p)
	}
	return rows(panels, min(len(panels), 2)), nil
}

// colours go from blue to red, pale enough for numbers on them.
func colours() palette.Palette {
	c := moreland.SmoothBlueRed()
	c.SetAlpha(0.6)
	return c.Palette(64)
}

func (m *matrix) title(name string, f sweep.Figure, s *slice) string {
	out := name + ": " + f.Title
	if s.title != "" {
		out += "\n" + s.title
	}
	if m.total > len(m.slices) && s == &m.slices[0] {
		out += fmt.Sprintf(" (the first %d of %d)", len(m.slices), m.total)
	}
	return out
}

func (m *matrix) yLabels() []string {
	if len(m.y.Values) == 0 {
		return []string{""}
	}
	return m.y.Values
}

// span is the range of the figure's logarithms over all slices.
func (m *matrix) span(f sweep.Figure) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i := range m.slices {
		for x := range m.x.Values {
			for y := range m.yLabels() {
				if v := scale(m.slices[i].value(f, x, y)); !math.IsNaN(v) {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
	}
	return lo, hi
}

// scale is the logarithm of a figure; none at all counts as a hundredth.
func scale(v float64) float64 { return math.Log10(max(v, 0.01)) }

// field is a slice as plotter.HeatMap reads it.
type field struct {
	m *matrix
	s *slice
	f sweep.Figure
}

func (g *field) Dims() (c, r int)   { return len(g.m.x.Values), len(g.m.yLabels()) }
func (g *field) X(c int) float64    { return float64(c) }
func (g *field) Y(r int) float64    { return float64(r) }
func (g *field) Z(c, r int) float64 { return scale(g.s.value(g.f, c, r)) }

// numbers writes the figure into each field.
func (m *matrix) numbers(s *slice, f sweep.Figure) (*plotter.Labels, error) {
	var xy plotter.XYLabels
	for x := range m.x.Values {
		for y := range m.yLabels() {
			if v := s.value(f, x, y); !math.IsNaN(v) {
				xy.XYs = append(xy.XYs, plotter.XY{X: float64(x), Y: float64(y)})
				xy.Labels = append(xy.Labels, grid.Number(v))
			}
		}
	}
	l, err := plotter.NewLabels(xy)
	if err != nil {
		return nil, err
	}
	for i := range l.TextStyle {
		l.TextStyle[i].Font.Size = 8
		l.TextStyle[i].XAlign, l.TextStyle[i].YAlign = -0.5, -0.5
	}
	return l, nil
}

// curves draws the figure over the first axis, one curve for each value of the
// other and each slice.
func (m *matrix) curves(name string, f sweep.Figure) (sheet, error) {
	p := panel(name+": "+f.Title, m.x.Key, f.Title)
	p.NominalX(m.x.Values...)
	n, total, most := 0, 0, 0.0
	for i := range m.slices {
		for y, label := range m.yLabels() {
			xys := m.curve(&m.slices[i], f, y)
			if len(xys) == 0 {
				continue
			}
			if total++; n == maxCurves {
				continue
			}
			line, points, err := plotter.NewLinePoints(xys)
			if err != nil {
				return nil, err
			}
			line.Color, points.Color = plotutil.Color(n), plotutil.Color(n)
			line.Dashes, points.Shape = plotutil.Dashes(n/7), plotutil.Shape(n)
			points.Radius = vg.Points(2)
			p.Add(line, points)
			p.Legend.Add(m.curveLabel(&m.slices[i], label), line, points)
			for _, v := range xys {
				most = max(most, v.Y)
			}
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	if total > n {
		p.Title.Text += fmt.Sprintf(" (the first %d of %d curves)", n, total)
	}
	p.Y.Min, p.Y.Max = 0, most*legendRoom(n)+1e-9
	return sheet{{p}}, nil
}

func (m *matrix) curve(s *slice, f sweep.Figure, y int) plotter.XYs {
	var out plotter.XYs
	for x := range m.x.Values {
		if v := s.value(f, x, y); !math.IsNaN(v) {
			out = append(out, plotter.XY{X: float64(x), Y: v})
		}
	}
	return out
}

func (m *matrix) curveLabel(s *slice, y string) string {
	out := s.title
	if m.y.Key != "" {
		if out != "" {
			out += " "
		}
		out += m.y.Key + "=" + y
	}
	return out
}
