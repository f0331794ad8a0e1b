package watch

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

// headEvery is after how many lines the head comes again.
const headEvery = 24

// column is one figure of a queue pair. Rates are per second, ratios are not.
type column struct {
	head  string
	unit  string
	width int
	value func(p *vhost.PairStats) float64
	ratio bool
}

var columns = []column{
	{"tx packets", "/s", 10, func(p *vhost.PairStats) float64 { return float64(p.TX.Packets) }, false},
	{"tx Gbit", "/s", 7, func(p *vhost.PairStats) float64 { return float64(p.TX.Bytes) * 8e-9 }, false},
	{"GSO mean", "bytes", 8, gsoMean, true},
	{">=8 MSS", "% bytes", 7, bigPercent, true},
	{"excess", "/s", 8, func(p *vhost.PairStats) float64 { return float64(p.SmallExcess) }, false},
	{"kicks", "/s", 8, func(p *vhost.PairStats) float64 { return float64(p.TX.Kicks) }, false},
	{"empty", "/s", 7, func(p *vhost.PairStats) float64 { return float64(p.TX.KicksEmpty) }, false},
	{"tx calls", "/s", 8, func(p *vhost.PairStats) float64 { return float64(p.TX.Calls) }, false},
	{"saved", "/s", 7, func(p *vhost.PairStats) float64 { return float64(p.TX.CallsSuppressed.Total()) }, false},
	{"rx packets", "/s", 10, func(p *vhost.PairStats) float64 { return float64(p.RX.Packets) }, false},
	{"acks", "/s", 8, func(p *vhost.PairStats) float64 { return float64(p.RX.PureACKs) }, false},
	{"rx calls", "/s", 8, func(p *vhost.PairStats) float64 { return float64(p.RX.Calls) }, false},
	{"drops", "/s", 7, func(p *vhost.PairStats) float64 { return float64(p.TX.Drops.Total() + p.RX.Drops.Total()) }, false},
}

func gsoMean(p *vhost.PairStats) float64 {
	if p.TX.DataPackets == 0 {
		return 0
	}
	return float64(p.TX.PayloadBytes) / float64(p.TX.DataPackets)
}

func bigPercent(p *vhost.PairStats) float64 {
	if p.TX.PayloadBytes == 0 {
		return 0
	}
	return 100 * float64(p.TX.BigBytes) / float64(p.TX.PayloadBytes)
}

// table writes aligned text: a line for each queue pair that did something, and
// one for all of them if there are several.
type table struct {
	w       io.Writer
	title   string // of one among several
	printed int    // lines since the head
}

func (t *table) named(name string) { t.title = name }

func (t *table) interval(at time.Time, d time.Duration, s *vhost.Stats) error {
	var b strings.Builder
	stamp := at.Format("15:04:05.0")
	busy := rows(s)
	if t.title != "" && len(busy) > 0 {
		t.printed = 0 // the lines before may be another one's
		b.WriteString(t.title + ":\n")
	}
	for _, r := range busy {
		if t.printed%headEvery == 0 {
			b.WriteString(head(true))
		}
		t.printed++
		b.WriteString(row(stamp, r, d.Seconds()))
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// totals writes counts instead of rates, the reasons of drops and of calls that
// were not made, and the sessions.
func (t *table) totals(at time.Time, d time.Duration, s *vhost.Stats) error {
	t.printed = 0 // the head comes again after this
	var b strings.Builder
	title := ""
	if t.title != "" {
		title = ", " + t.title
	}
	fmt.Fprintf(&b, "Totals of %v%s:\n%s", d.Round(time.Millisecond), title, head(false))
	for _, r := range rows(s) {
		b.WriteString(row("", r, 0))
	}
	for i := range s.Pairs {
		reasons(&b, fmt.Sprintf("queue %d rx", i), &s.Pairs[i].RX)
		reasons(&b, fmt.Sprintf("queue %d tx", i), &s.Pairs[i].TX)
	}
	reasons(&b, "control queue", &s.Ctrl)
	fmt.Fprintf(&b, "control queue: %d commands, %d kicks, %d calls\n", s.Ctrl.Packets, s.Ctrl.Kicks, s.Ctrl.Calls)
	for _, r := range s.Sessions {
		b.WriteString(session(&r))
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// named is a queue pair's counters, or the sum over all.
type named struct {
	name  string
	stats vhost.PairStats
}

func rows(s *vhost.Stats) []named {
	s.CountExcess()
	var out []named
	all := named{name: "all"}
	for i := range s.Pairs {
		p := &s.Pairs[i]
		if idle(&p.TX) && idle(&p.RX) {
			continue
		}
		out = append(out, named{fmt.Sprint(i), *p})
		all.stats.RX.Merge(&p.RX)
		all.stats.TX.Merge(&p.TX)
		all.stats.SmallExcess += p.SmallExcess
	}
	if len(out) > 1 {
		out = append(out, all)
	}
	return out
}

func idle(s *netdev.Stats) bool {
	return s.Packets == 0 && s.Kicks == 0 && s.Calls == 0 && s.Drops.Total() == 0
}

func head(rates bool) string {
	var names, units strings.Builder
	fmt.Fprintf(&names, "%10s %5s", "", "queue")
	fmt.Fprintf(&units, "%10s %5s", "", "pair")
	for _, c := range columns {
		unit := c.unit
		if !rates && !c.ratio {
			unit = ""
		}
		fmt.Fprintf(&names, "  %*s", c.width, c.head)
		fmt.Fprintf(&units, "  %*s", c.width, unit)
	}
	return names.String() + "\n" + strings.TrimRight(units.String(), " ") + "\n"
}

// row writes a pair's figures, per second, or as they are if seconds is 0.
func row(stamp string, r named, seconds float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10s %5s", stamp, r.name)
	for _, c := range columns {
		v := c.value(&r.stats)
		if seconds > 0 && !c.ratio {
			v /= seconds
		}
		fmt.Fprintf(&b, "  %*s", c.width, grid.Number(v))
	}
	return b.String() + "\n"
}

// reasons writes why packets were dropped and calls not made, where any were.
func reasons(b *strings.Builder, name string, s *netdev.Stats) {
	if s.Drops.Total() > 0 {
		fmt.Fprintf(b, "%s: drops %s\n", name, asJSON(s.Drops))
	}
	if s.CallsSuppressed.Total() > 0 {
		fmt.Fprintf(b, "%s: calls not made %s\n", name, asJSON(s.CallsSuppressed))
	}
}

func asJSON(m interface{ MarshalJSON() ([]byte, error) }) string {
	b, err := m.MarshalJSON()
	if err != nil {
		panic("watch: counters that have no JSON: " + err.Error())
	}
	return string(b)
}

func session(r *vhost.SessionReport) string {
	end := "it lasts"
	if !r.End.IsZero() {
		end = r.End.Sub(r.Start).Round(time.Millisecond).String() + ", " + r.Reason
	}
	return fmt.Sprintf("session %d: %d messages, %d refused; %s\n", r.Generation, r.Stats.Messages, r.Stats.Refused, end)
}
