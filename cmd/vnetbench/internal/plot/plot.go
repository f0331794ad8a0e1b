// Package plot draws results and sweeps, as SVG and PNG. It reads no file and runs
// nothing.
package plot

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Formats are the endings of files that can be written.
var Formats = []string{".svg", ".png"}

// panelWidth and panelHeight are the size of one panel.
const (
	panelWidth  = 5 * vg.Inch
	panelHeight = 3.4 * vg.Inch
)

// sheet is panels in rows.
type sheet [][]*plot.Plot

// rows lays panels out in rows of n.
func rows(panels []*plot.Plot, n int) sheet {
	var out sheet
	for len(panels) > n {
		out, panels = append(out, panels[:n]), panels[n:]
	}
	last := make([]*plot.Plot, n)
	copy(last, panels)
	if len(out) == 0 {
		last = panels
	}
	return append(out, last)
}

// save writes the sheet into dir as name with each ending, and returns the files.
func (s sheet) save(dir, name string, formats []string) ([]string, error) {
	var out []string
	for _, f := range formats {
		file := filepath.Join(dir, name+f)
		w, err := os.Create(file)
		if err != nil {
			return out, err
		}
		err = s.write(w, strings.TrimPrefix(f, "."))
		if e := w.Close(); err == nil {
			err = e
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, file)
	}
	return out, nil
}

func (s sheet) write(w io.Writer, format string) error {
	cols := len(s[0])
	c, err := draw.NewFormattedCanvas(panelWidth*vg.Length(cols), panelHeight*vg.Length(len(s)), format)
	if err != nil {
		return err
	}
	const gap = 0.15 * vg.Inch
	t := draw.Tiles{Rows: len(s), Cols: cols, PadX: gap, PadY: gap, PadTop: gap, PadBottom: gap, PadLeft: gap, PadRight: gap}
	canvases := plot.Align(s, t, draw.New(c))
	for i, row := range s {
		for k, p := range row {
			if p != nil {
				p.Draw(canvases[i][k])
			}
		}
	}
	_, err = c.WriteTo(w)
	return err
}

// panel returns an empty panel.
func panel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size = 10
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 9, 9
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = 8, 8
	p.Legend.TextStyle.Font.Size = 8
	p.Legend.Top = true
	return p
}

// legendRoom is by how much an axis has to go beyond the largest value so that the
// names of n curves have a place above them.
func legendRoom(n int) float64 { return 1.05 + 0.06*float64(n) }
