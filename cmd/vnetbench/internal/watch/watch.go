// Package watch prints what a vhost-user server counts: what happened in each
// interval, and totals. It asks no server and reads no clock: it is given
// snapshots and their times.
package watch

import (
	"io"
	"slices"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
)

// Schema names the layout of the JSON lines.
const Schema = "vnetbench-serve/1"

// Watcher turns snapshots into lines. It is not safe for concurrent use.
type Watcher struct {
	print printer
	last  vhost.Stats
	since time.Time // of last
	began time.Time
}

// printer writes one format.
type printer interface {
	// named gives what is written a name.
	named(name string)
	// interval writes what happened in d until t, if anything did.
	interval(t time.Time, d time.Duration, diff *vhost.Stats) error
	// totals writes what happened in d, the whole time until t.
	totals(t time.Time, d time.Duration, all *vhost.Stats) error
}

// New returns a watcher that writes to w as text or json from the time now on,
// when nothing has been counted yet.
func New(w io.Writer, format string, now time.Time) *Watcher {
	p := printer(&table{w: w})
	if format == "json" {
		p = &lines{w: w}
	}
	return &Watcher{print: p, since: now, began: now}
}

// Name puts a name, that of its socket, to everything that the watcher writes:
// for one of several.
func (w *Watcher) Name(name string) { w.print.named(name) }

// Interval writes what happened since the last interval.
func (w *Watcher) Interval(now time.Time, s vhost.Stats) error {
	diff := difference(&s, &w.last)
	d := now.Sub(w.since)
	w.last, w.since = s, now
	if d <= 0 {
		return nil
	}
	return w.print.interval(now, d, diff)
}

// Totals writes what happened since the beginning.
func (w *Watcher) Totals(now time.Time, s vhost.Stats) error {
	return w.print.totals(now, now.Sub(w.began), &s)
}

// difference is what was counted between two snapshots of one server.
func difference(s, earlier *vhost.Stats) *vhost.Stats {
	d := *s
	d.Pairs = slices.Clone(s.Pairs)
	for i := range earlier.Pairs {
		d.Pairs[i].RX.Sub(&earlier.Pairs[i].RX)
		d.Pairs[i].TX.Sub(&earlier.Pairs[i].TX)
	}
	d.Ctrl.Sub(&earlier.Ctrl)
	return &d
}
