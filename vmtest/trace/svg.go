package trace

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
)

// Measures of the picture in its own units, about a pixel each.
const (
	svgWidth    = 1200
	svgHeight   = 700
	panelTop    = 78
	panelHeight = 250
	panelGap    = 40
	wholeLeft   = 78
	wholeRight  = 740
	closeLeft   = 840
	closeRight  = 1180
)

// closePackets is how many packets of the truth stand before and behind the
// first difference in the panels on the right.
const closePackets = 16

// The colours are of middling lightness, so that they can be read on white and
// on black.
const svgStyle = `<style>
text { fill: #7a7a7a; font: 13px Helvetica, Arial, sans-serif; }
.title { font-size: 17px; font-weight: bold; }
.name { font-weight: bold; }
.end { text-anchor: end; }
.mid { text-anchor: middle; }
.frame { fill: none; stroke: #8a8a8a; }
.grid { stroke: #8a8a8a; stroke-opacity: 0.25; fill: none; }
.stem { stroke-opacity: 0.45; fill: none; }
.equal { fill: #3487c4; stroke: #3487c4; }
.other { fill: #d9632a; stroke: #d9632a; }
.mark { stroke: #d9632a; stroke-dasharray: 5 4; stroke-width: 1.5; fill: none; }
.marktext { fill: #d9632a; }
</style>
`

// WriteSVG draws the lengths of the packets over time, the truth above and the
// model below with the same axes; where they differ, the neighbourhood of the
// first difference beside them. Packets that do not agree in flow, sequence
// number and length have another colour. The picture has no background and at
// most one mark for each place that can be told apart.
func (r *Report) WriteSVG(w io.Writer) error {
	p := &picture{w: bufio.NewWriter(w), r: r}
	p.draw()
	return p.w.Flush()
}

// picture is a report while it is drawn.
type picture struct {
	w *bufio.Writer
	r *Report
}

func (p *picture) draw() {
	p.head()
	whole := p.whole()
	right := float64(closeRight)
	if p.r.FirstDiff != nil {
		right = wholeRight
	}
	p.column(whole, wholeLeft, right, true)
	if p.r.FirstDiff != nil {
		p.column(p.near(whole), closeLeft, closeRight, false)
	}
	fmt.Fprintln(p.w, "</svg>")
}

func (p *picture) head() {
	fmt.Fprintf(p.w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-labelledby=\"title\">\n",
		svgWidth, svgHeight, svgWidth, svgHeight)
	title := fmt.Sprintf("%s: %d packets, %s %% of equal length, %s %% within 2.1 us", p.r.Trace, p.r.Packets, percent(p.r.EqualLen, p.r.Packets), percent(p.r.Within, p.r.Packets))
	fmt.Fprintf(p.w, "<title id=\"title\">%s</title>\n%s", html.EscapeString(title), svgStyle)
	p.text(wholeLeft, 28, "title", title)
	line := "no difference"
	if p.r.FirstDiff != nil {
		line = "first difference: " + p.r.FirstDiff.short()
	}
	p.text(wholeLeft, 50, "", line)
	p.legend()
}

func (p *picture) legend() {
	y := float64(svgHeight - 12)
	fmt.Fprintf(p.w, "<circle class=\"equal\" cx=\"%d\" cy=\"%g\" r=\"3\"/>\n", wholeLeft+4, y-4)
	p.text(wholeLeft+14, y, "", "equal length in both")
	fmt.Fprintf(p.w, "<circle class=\"other\" cx=\"%d\" cy=\"%g\" r=\"3\"/>\n", wholeLeft+184, y-4)
	p.text(wholeLeft+194, y, "", "another length, or only in one")
}

func (p *picture) text(x, y float64, class, s string) {
	fmt.Fprintf(p.w, "<text x=\"%s\" y=\"%s\" class=\"%s\">%s</text>\n", place(x), place(y), class, html.EscapeString(s))
}

// place writes a coordinate to half a unit.
func place(v float64) string { return fmt.Sprintf("%g", math.Round(v*2)/2) }

// window is what a column of panels shows.
type window struct {
	from, to int64 // ns
	most     int   // bytes
}

// whole is the window of all packets of the truth.
func (p *picture) whole() window {
	w := window{}
	for i := range p.r.sent {
		t, m := p.r.pairOf(i)
		w.to = max(w.to, t.TNs)
		w.most = max(w.most, t.Len)
		if m != nil {
			w.most = max(w.most, m.Len)
		}
	}
	if len(p.r.sent) == 0 {
		for _, at := range p.r.other {
			w.to, w.most = max(w.to, p.r.model.Packets[at].TNs), max(w.most, p.r.model.Packets[at].Len)
		}
	}
	w.to += max(w.to/200, 1)
	return w
}

// near is the window around the first difference.
func (p *picture) near(whole window) window {
	d := p.r.FirstDiff
	n := len(p.r.sent)
	if d.Kind == KindExtra || n == 0 {
		span := (whole.to - whole.from) / 50
		return window{max(0, d.TNs-span), d.TNs + span, whole.most}
	}
	before := &p.r.truth.Packets[p.r.sent[max(0, d.Index-closePackets)]]
	behind := &p.r.truth.Packets[p.r.sent[min(n-1, d.Index+closePackets)]]
	margin := (behind.TNs-before.TNs)/20 + 1000
	w := window{before.TNs - margin, behind.TNs + margin, 0}
	w.include(d.ModelTNs)
	w.from = max(w.from, 0)
	for _, t := range []*Trace{p.r.truth, p.r.model} {
		w.most = max(w.most, longestIn(t, w))
	}
	return w
}

// include widens the window to a time of the model, unless that is so far away
// that nothing else could be told apart.
func (w *window) include(t *int64) {
	span := w.to - w.from
	if t == nil || *t < w.from-2*span || *t > w.to+2*span {
		return
	}
	w.from, w.to = min(w.from, *t-span/20), max(w.to, *t+span/20)
}

func longestIn(t *Trace, w window) int {
	most := 1
	for i := range t.Packets {
		if q := &t.Packets[i]; q.data() && q.TNs >= w.from && q.TNs <= w.to {
			most = max(most, q.Len)
		}
	}
	return most
}
