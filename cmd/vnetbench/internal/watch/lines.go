package watch

import (
	"encoding/json"
	"io"
	"time"

	"github.com/vnetbench/vnetbench/vhost"
)

// lines writes one JSON object a line.
type lines struct {
	w    io.Writer
	name string
}

// line is one object.
type line struct {
	Schema  string    `json:"schema"`
	Kind    string    `json:"kind"`             // interval or totals
	Socket  string    `json:"socket,omitempty"` // if there are several
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // the time that the counters cover
	vhost.Stats
}

func (l *lines) named(name string) { l.name = name }

func (l *lines) write(kind string, t time.Time, d time.Duration, s *vhost.Stats) error {
	s.CountExcess()
	return json.NewEncoder(l.w).Encode(line{Schema, kind, l.name, t, d.Seconds(), *s})
}

func (l *lines) interval(t time.Time, d time.Duration, s *vhost.Stats) error {
	return l.write("interval", t, d, s)
}

func (l *lines) totals(t time.Time, d time.Duration, s *vhost.Stats) error {
	return l.write("totals", t, d, s)
}
