package sweep

import (
	"encoding/csv"
	"io"
	"strconv"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Figure is a number that each cell has.
type Figure struct {
	Name  string // as in the JSON of a run's totals
	Title string // for people, with its unit
	Of    func(*vmtest.Totals) *float64
}

// Figures are the columns of the table, in order.
func Figures() []Figure {
	plain := func(f func(*vmtest.Totals) float64) func(*vmtest.Totals) *float64 {
		return func(t *vmtest.Totals) *float64 { v := f(t); return &v }
	}
	return []Figure{
		{"goodput_bps", "goodput, bit/s", plain(func(t *vmtest.Totals) float64 { return t.GoodputBps })},
		{"gso_mean_bytes", "mean GSO size, bytes", plain(func(t *vmtest.Totals) float64 { return t.GSOMeanBytes })},
		{"big_share", "share of bytes in packets of 8 MSS and more", plain(func(t *vmtest.Totals) float64 { return t.BigShare })},
		{"packets_per_mb", "packets per MB", plain(func(t *vmtest.Totals) float64 { return t.PacketsPerMB })},
		{"kicks_per_mb", "kicks per MB", plain(func(t *vmtest.Totals) float64 { return t.KicksPerMB })},
		{"tx_calls_per_mb", "transmit calls per MB", plain(func(t *vmtest.Totals) float64 { return t.TxCallsPerMB })},
		{"rx_calls_per_mb", "receive calls per MB", plain(func(t *vmtest.Totals) float64 { return t.RxCallsPerMB })},
		{"acks_per_mb", "ACKs per MB", plain(func(t *vmtest.Totals) float64 { return t.AcksPerMB })},
		{"exit_ns_per_mb", "exits, ns per MB", plain(func(t *vmtest.Totals) float64 { return t.ExitNsPerMB })},
		{"irq_ns_per_mb", "interrupts, ns per MB", plain(func(t *vmtest.Totals) float64 { return t.IRQNsPerMB })},
		{"guest_cpu_ns_per_mb", "guest CPU, ns per MB", func(t *vmtest.Totals) *float64 { return t.GuestNsPerMB }},
		{"host_cpu_ns_per_mb", "host CPU, ns per MB", func(t *vmtest.Totals) *float64 { return t.HostNsPerMB }},
	}
}

// FigureNamed finds a figure.
func FigureNamed(name string) (Figure, bool) {
	for _, f := range Figures() {
		if f.Name == name {
			return f, true
		}
	}
	return Figure{}, false
}

// Value is a cell's figure, nil where the run could not know it.
func (f Figure) Value(r *vmtest.Run) *float64 {
	if r.MeasuredAt == vmtest.MeasuredAtGuest && deviceOnly[f.Name] {
		return nil
	}
	return f.Of(&r.Totals)
}

// deviceOnly are the figures that nobody counts without a device.
var deviceOnly = map[string]bool{"kicks_per_mb": true, "tx_calls_per_mb": true, "rx_calls_per_mb": true,
	"exit_ns_per_mb": true, "irq_ns_per_mb": true}

// CSV writes a line for each cell: its number, its values on the axes and its
// figures; what is not known is empty.
func CSV(w io.Writer, axes []vmtest.Axis, done []Done) error {
	out := csv.NewWriter(w)
	head := []string{"cell"}
	for _, a := range axes {
		head = append(head, a.Key)
	}
	for _, f := range Figures() {
		head = append(head, f.Name)
	}
	if err := out.Write(head); err != nil {
		return err
	}
	for i := range done {
		if err := out.Write(row(axes, &done[i])); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func row(axes []vmtest.Axis, d *Done) []string {
	out := []string{strconv.Itoa(d.Cell)}
	for _, a := range axes {
		out = append(out, d.Run.Axes[a.Key])
	}
	for _, f := range Figures() {
		text := ""
		if v := f.Value(&d.Run); v != nil {
			text = strconv.FormatFloat(*v, 'g', -1, 64)
		}
		out = append(out, text)
	}
	return out
}
