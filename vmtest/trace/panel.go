package trace

import (
	"fmt"
	"strings"
)

// stemsUpTo is the number of packets in a panel up to which each has a line to
// the axis.
const stemsUpTo = 150

// headroom is the height of a panel against its highest packet: the label of
// the first difference stands above all packets.
const headroom = 1.16

// column draws the truth's panel and the model's, one below the other.
func (p *picture) column(w window, left, right float64, named bool) {
	x := axis{float64(w.from), float64(w.to), left, right}
	other := p.marks()
	for i, t := range []*Trace{p.r.truth, p.r.model} {
		bottom := float64(panelTop + panelHeight + i*(panelHeight+panelGap))
		y := axis{0, float64(w.most) * headroom, bottom, bottom - panelHeight}
		pn := panel{p: p, x: x, y: y}
		pn.frame(i == 1)
		pn.packets(t, other[i])
		pn.mark(i == 1)
		pn.name(i, named)
	}
}

// marks says for truth and model which packets have no equal in the other, by
// place in the trace.
func (p *picture) marks() [2]map[int32]bool {
	m := [2]map[int32]bool{{}, {}}
	for _, at := range p.r.other {
		m[1][at] = true
	}
	for i, at := range p.r.sent {
		if _, equal := p.r.equal(i); equal {
			delete(m[1], p.r.match[i])
			continue
		}
		m[0][at] = true
	}
	return m
}

// panel is one diagram.
type panel struct {
	p    *picture
	x, y axis
}

// frame draws the border, the grid and the ticks; those of time have numbers
// only below the lower panel.
func (n *panel) frame(lower bool) {
	w := n.p.w
	fmt.Fprintf(w, "<path class=\"frame\" d=\"M%s %sH%sV%sH%sz\"/>\n", place(n.x.from), place(n.y.from), place(n.x.to), place(n.y.to), place(n.x.from))
	n.sizeTicks()
	unit, ns := timeUnit(n.x.hi - n.x.lo)
	scaled := axis{n.x.lo / ns, n.x.hi / ns, n.x.from, n.x.to}
	count := int((n.x.to - n.x.from) / 130)
	ticks := scaled.ticks(count)
	step := roundStep((scaled.hi - scaled.lo) / float64(count))
	for _, v := range ticks {
		at := scaled.at(v)
		fmt.Fprintf(w, "<path class=\"grid\" d=\"M%s %sV%s\"/>\n", place(at), place(n.y.from), place(n.y.to))
		if lower {
			n.p.text(at, n.y.from+18, "mid", tickText(v, step))
		}
	}
	if lower {
		n.p.text((n.x.from+n.x.to)/2, n.y.from+38, "mid", "time since the first SYN ("+unit+")")
	}
}

func (n *panel) sizeTicks() {
	unit, bytes := "bytes", 1.0
	if n.y.hi >= 5000 {
		unit, bytes = "kB", 1000
	}
	scaled := axis{0, n.y.hi / bytes, n.y.from, n.y.to}
	step := roundStep(scaled.hi / 3)
	for _, v := range scaled.ticks(3) {
		at := scaled.at(v)
		fmt.Fprintf(n.p.w, "<path class=\"grid\" d=\"M%s %sH%s\"/>\n", place(n.x.from), place(at), place(n.x.to))
		n.p.text(n.x.from-6, at+4, "end", tickText(v, step))
	}
	fmt.Fprintf(n.p.w, "<text class=\"mid\" transform=\"translate(%s %s) rotate(-90)\">payload of a packet (%s)</text>\n",
		place(n.x.from-48), place((n.y.from+n.y.to)/2), unit)
}

// name writes whose panel it is, and for the close ones what they show.
func (n *panel) name(i int, named bool) {
	name := [2]string{"truth: " + n.p.r.truth.Name, "model: " + n.p.r.model.Name}[i]
	if !named {
		name = [2]string{"truth", "model"}[i] + ", around the first difference"
	}
	n.p.text(n.x.from, n.y.to-8, "name", name)
}

// packets draws those of a trace within the panel, equal ones first so that the
// others are on top.
func (n *panel) packets(t *Trace, other map[int32]bool) {
	inside := 0
	for i := range t.Packets {
		if n.shows(&t.Packets[i]) {
			inside++
		}
	}
	for _, differ := range []bool{false, true} {
		n.class(t, other, differ, inside <= stemsUpTo)
	}
}

func (n *panel) shows(q *Packet) bool {
	return q.data() && float64(q.TNs) >= n.x.lo && float64(q.TNs) <= n.x.hi
}

// class draws the packets of one colour: a dot each, as short strokes of one
// path, and none where one is already.
func (n *panel) class(t *Trace, other map[int32]bool, differ, stems bool) {
	name := map[bool]string{false: "equal", true: "other"}[differ]
	var dots, lines strings.Builder
	drawn := map[string]bool{}
	for i := range t.Packets {
		q := &t.Packets[i]
		if !n.shows(q) || other[int32(i)] != differ {
			continue
		}
		at := place(n.x.at(float64(q.TNs))) + " " + place(n.y.at(float64(q.Len)))
		if drawn[at] {
			continue
		}
		drawn[at] = true
		fmt.Fprintf(&dots, "M%sh0", at)
		fmt.Fprintf(&lines, "M%sV%s", at, place(n.y.from))
	}
	if dots.Len() == 0 {
		return
	}
	if stems {
		fmt.Fprintf(n.p.w, "<path class=\"%s stem\" d=\"%s\"/>\n", name, lines.String())
	}
	width := 3.5
	if stems {
		width = 6
	}
	fmt.Fprintf(n.p.w, "<path class=\"%s\" stroke-width=\"%g\" stroke-linecap=\"round\" d=\"%s\"/>\n", name, width, dots.String())
}

// mark draws where the first difference is.
func (n *panel) mark(model bool) {
	d := n.p.r.FirstDiff
	if d == nil {
		return
	}
	t := float64(d.TNs)
	if model && d.ModelTNs != nil {
		t = float64(*d.ModelTNs)
	}
	if t < n.x.lo || t > n.x.hi {
		return
	}
	at := n.x.at(t)
	fmt.Fprintf(n.p.w, "<path class=\"mark\" d=\"M%s %sV%s\"/>\n", place(at), place(n.y.from), place(n.y.to))
	label := fmt.Sprintf("packet %d", d.Index)
	class := "marktext"
	if at > (n.x.from+n.x.to)/2 {
		class, at = class+" end", at-10
	}
	n.p.text(at+5, n.y.to+15, class, label)
}
