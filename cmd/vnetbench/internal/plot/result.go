package plot

import (
	"fmt"
	"image/color"
	"maps"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Result draws the runs of a result into one file for each format: the sizes of
// GSO packets by the bytes in them, what each MB cost in packets, kicks and calls,
// and how the runs went over time.
func Result(dir, name string, r *vmtest.Result, formats []string) ([]string, error) {
	if len(r.Runs) == 0 {
		return nil, fmt.Errorf("the result has no runs to draw")
	}
	sizes, err := sizePanel(r)
	if err != nil {
		return nil, err
	}
	counts, err := countPanel(r)
	if err != nil {
		return nil, err
	}
	panels := []*plot.Plot{sizes, counts}
	for _, s := range []struct {
		title string
		of    func(vmtest.Sample) float64
	}{
		{"Gbit/s to the device", func(s vmtest.Sample) float64 { return float64(s.Bytes) * 8 }},
		{"million kicks/s", func(s vmtest.Sample) float64 { return float64(s.Kicks) * 1e3 }},
	} {
		p, err := seriesPanel(r, s.title, s.of)
		if err != nil {
			return nil, err
		}
		if p != nil {
			panels = append(panels, p)
		}
	}
	return rows(panels, 2).save(dir, name, formats)
}

// sizePanel shows which share of the payload went in packets of which size: a
// bucket is named by its lower end.
func sizePanel(r *vmtest.Result) (*plot.Plot, error) {
	p := panel("packets by GSO size", "payload of a packet, bytes (up to the next power of two)", "% of the packets")
	buckets := map[int]bool{}
	for i := range r.Runs {
		for b := range histogram(&r.Runs[i]) {
			buckets[b] = true
		}
	}
	order := slices.Sorted(maps.Keys(buckets))
	labels := make([]string, len(order))
	for i, b := range order {
		labels[i] = strconv.Itoa(b)
	}
	width := vg.Points(min(14, 240/float64(max(1, len(order)*len(r.Runs)))))
	for i := range r.Runs {
		if err := addBars(p, order, &r.Runs[i], i, len(r.Runs), width); err != nil {
			return nil, err
		}
	}
	p.NominalX(labels...)
	p.Y.Max *= legendRoom(len(r.Runs))
	return p, nil
}

func addBars(p *plot.Plot, order []int, run *vmtest.Run, i, n int, width vg.Length) error {
	h := histogram(run)
	all := 0.0
	for _, v := range h {
		all += v
	}
	values := make(plotter.Values, len(order))
	for k, b := range order {
		if all > 0 {
			values[k] = 100 * h[b] / all
		}
	}
	if len(values) == 0 {
		return nil
	}
	return bars(p, values, run.Label, i, n, width)
}

func bars(p *plot.Plot, values plotter.Values, label string, i, n int, width vg.Length) error {
	b, err := plotter.NewBarChart(values, width)
	if err != nil {
		return err
	}
	b.Color, b.LineStyle.Width = colour(i), 0
	b.Offset = width * vg.Length(float64(i)-float64(n-1)/2)
	p.Add(b)
	p.Legend.Add(label, b)
	return nil
}

// histogram is that of all transmit queues.
func histogram(run *vmtest.Run) map[int]float64 {
	out := map[int]float64{}
	for _, q := range run.Queues {
		if q.Dir != "tx" || (q.Guest != "" && q.Guest[0] == 'r') {
			continue
		}
		for b, n := range q.GSOHist {
			if v, err := strconv.Atoi(b); err == nil {
				out[v] += float64(n)
			}
		}
	}
	return out
}

// countPanel shows what a MB cost.
func countPanel(r *vmtest.Result) (*plot.Plot, error) {
	p := panel("counts for each MB", "", "per MB")
	width := vg.Points(min(14, 240/float64(5*len(r.Runs))))
	for i := range r.Runs {
		t := &r.Runs[i].Totals
		v := plotter.Values{t.PacketsPerMB, t.KicksPerMB, t.TxCallsPerMB, t.RxCallsPerMB, t.AcksPerMB}
		if err := bars(p, v, r.Runs[i].Label, i, len(r.Runs), width); err != nil {
			return nil, err
		}
	}
	p.NominalX("packets", "kicks", "tx calls", "rx calls", "ACKs")
	p.Y.Max *= legendRoom(len(r.Runs))
	return p, nil
}

// seriesPanel shows a rate over time, of is its amount in a sample; nil if no run
// has samples.
func seriesPanel(r *vmtest.Result, title string, of func(vmtest.Sample) float64) (*plot.Plot, error) {
	p := panel(title, "ms", title)
	any := false
	for i := range r.Runs {
		xys := rates(r.Runs[i].Series, of)
		if len(xys) == 0 {
			continue
		}
		any = true
		l, err := plotter.NewLine(xys)
		if err != nil {
			return nil, err
		}
		l.Color = colour(i)
		p.Add(l)
		p.Legend.Add(r.Runs[i].Label, l)
	}
	if !any {
		return nil, nil
	}
	p.Y.Min, p.Y.Max = 0, p.Y.Max*legendRoom(len(r.Runs))
	return p, nil
}

// rates are the amounts of the samples by the time since the sample before; the
// first has none before it.
func rates(series []vmtest.Sample, of func(vmtest.Sample) float64) plotter.XYs {
	var out plotter.XYs
	for i := 1; i < len(series); i++ {
		if dt := series[i].TNs - series[i-1].TNs; dt > 0 {
			out = append(out, plotter.XY{X: float64(series[i].TNs) / 1e6, Y: of(series[i]) / float64(dt)})
		}
	}
	return out
}

func colour(i int) color.Color { return plotutil.Color(i) }
