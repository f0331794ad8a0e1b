package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ShowOptions say how much Show writes. The zero value has the defaults.
type ShowOptions struct {
	Flows []int // only these; nil: all of them, of which the first 4 with their sequence
	Top   int   // lengths and gaps to name; 0: 10
	Words int   // lengths and counts of the sequence to write for each flow; 0: 200
}

const (
	defaultTop   = 10
	defaultWords = 200
	defaultFlows = 4
	lineWidth    = 100
)

func (o ShowOptions) withDefaults() ShowOptions {
	if o.Top <= 0 {
		o.Top = defaultTop
	}
	if o.Words <= 0 {
		o.Words = defaultWords
	}
	return o
}

// Show writes what a sender did: how much of what lengths, the gaps between the
// packets, and the lengths as they leave with patterns gathered. Packets are
// those with payload in the data direction.
func Show(w io.Writer, t *Trace, o ShowOptions) error {
	o = o.withDefaults()
	b := bufio.NewWriter(w)
	s := gather(t, o)
	s.summary(b, t)
	if len(s.lens) > 0 {
		s.sizes(b, t.MSS(), o.Top)
		s.gapTable(b, o.Top)
		s.sequences(b, o)
	}
	return b.Flush()
}

// shown is what Show counts.
type shown struct {
	flows []int         // in the order of their first packet
	lens  []int         // of all of them, as they leave
	own   map[int][]int // lengths of each flow
	gaps  []int64       // between packets of all flows, ns
	acks  int
	bytes int64
	first int64 // time of the first packet, ns
	last  int64
}

func gather(t *Trace, o ShowOptions) *shown {
	s := &shown{own: map[int][]int{}}
	for i := range t.Packets {
		p := &t.Packets[i]
		if o.Flows != nil && !slices.Contains(o.Flows, p.Flow) {
			continue
		}
		if p.Ack {
			s.acks++
		}
		if p.data() {
			s.add(p)
		}
	}
	return s
}

func (s *shown) add(p *Packet) {
	if len(s.lens) == 0 {
		s.first = p.TNs
	} else {
		s.gaps = append(s.gaps, p.TNs-s.last)
	}
	s.last = p.TNs
	s.lens = append(s.lens, p.Len)
	s.bytes += int64(p.Len)
	if _, known := s.own[p.Flow]; !known {
		s.flows = append(s.flows, p.Flow)
	}
	s.own[p.Flow] = append(s.own[p.Flow], p.Len)
}

func (s *shown) summary(w io.Writer, t *Trace) {
	n := len(s.lens)
	fmt.Fprintf(w, "trace %s: %d packets with payload of %d flows, %s bytes; %d ACKs\n", t.Name, n, len(s.flows), grouped(s.bytes), s.acks)
	if n == 0 {
		return
	}
	span := time.Duration(s.last - s.first)
	fmt.Fprintf(w, "from %s to %s (%s), mean length %d bytes", Micros(s.first), Micros(s.last), span, s.bytes/int64(n))
	if span > 0 {
		fmt.Fprintf(w, ", %.1f MB/s", float64(s.bytes)/span.Seconds()/1e6)
	}
	fmt.Fprintln(w)
	if t.Truncated() {
		fmt.Fprintln(w, "only the beginning of the run is in the file")
	}
}

// counted is a value and how often it occurs.
type counted[T cmp.Ordered] struct {
	value T
	n     int
}

// count counts values, the most frequent first, the smaller of equals.
func count[T cmp.Ordered](values []T) []counted[T] {
	sorted := slices.Sorted(slices.Values(values))
	var list []counted[T]
	for _, v := range sorted {
		if n := len(list); n > 0 && list[n-1].value == v {
			list[n-1].n++
			continue
		}
		list = append(list, counted[T]{v, 1})
	}
	slices.SortStableFunc(list, func(a, b counted[T]) int { return b.n - a.n })
	return list
}

func (s *shown) sizes(w io.Writer, mss, top int) {
	list := count(s.lens)
	fmt.Fprintf(w, "\nlengths, the most frequent first (%d different):\n", len(list))
	var rows [][]string
	for _, c := range list[:min(len(list), top)] {
		rows = append(rows, []string{grouped(int64(c.value)), fmt.Sprint(c.n), percent(c.n, len(s.lens)), inSegments(c.value, mss)})
	}
	writeTable(w, "", []column{{"bytes", false}, {"packets", false}, {"%", false}, {"segments", false}}, rows)
}

func (s *shown) gapTable(w io.Writer, top int) {
	if len(s.gaps) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(s.gaps))
	fmt.Fprintf(w, "\ngaps between packets: half at most %s, 99 %% at most %s, largest %s; the most frequent first:\n",
		Micros(quantile(sorted, 50)), Micros(quantile(sorted, 99)), Micros(sorted[len(sorted)-1]))
	list := count(s.gaps)
	var rows [][]string
	for _, c := range list[:min(len(list), top)] {
		rows = append(rows, []string{Micros(c.value), fmt.Sprint(c.n), percent(c.n, len(s.gaps))})
	}
	writeTable(w, "", []column{{"gap", false}, {"times", false}, {"%", false}}, rows)
}

// sequences writes the lengths of each flow as they leave.
func (s *shown) sequences(w io.Writer, o ShowOptions) {
	flows := s.flows
	if o.Flows == nil {
		flows = flows[:min(len(flows), defaultFlows)]
	}
	for _, f := range flows {
		fmt.Fprintf(w, "\nflow %d, lengths as they leave:\n", f)
		writeRuns(w, Runs(s.own[f]), o.Words)
	}
	if n := len(s.flows) - len(flows); n > 0 {
		fmt.Fprintf(w, "\nand %d other flows\n", n)
	}
}

// writeRuns writes runs in lines, separated by commas, until most lengths and
// counts are written.
func writeRuns(w io.Writer, runs []Run, most int) {
	line, words, packets := " ", 0, 0
	total := 0
	for i, r := range runs {
		total += len(r.Lens) * r.Times
		for j, word := range strings.Fields(runText(r, i+1 == len(runs))) {
			if words == most {
				break
			}
			if words > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > lineWidth {
				fmt.Fprintln(w, line)
				line = " "
			}
			line += " " + word
			words++
			packets += r.covered(j)
		}
	}
	fmt.Fprintln(w, line)
	if packets < total {
		fmt.Fprintf(w, "  and so on: the first %d of %d packets are shown\n", packets, total)
	}
}

// covered is how many packets word i of the run's text adds to those before it.
func (r Run) covered(i int) int {
	if i < len(r.Lens) {
		return 1
	}
	return len(r.Lens) * (r.Times - 1)
}

func runText(r Run, last bool) string {
	if last {
		return r.String()
	}
	return r.String() + ","
}
