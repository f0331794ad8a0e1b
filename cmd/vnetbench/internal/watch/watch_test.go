package watch_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/watch"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

var began = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// snapshot is a server of three pairs, of which two did n times something.
func snapshot(n uint64) vhost.Stats {
	s := vhost.Stats{Generation: 1, Connected: true, Pairs: make([]vhost.PairStats, 3)}
	for i := range s.Pairs[:2] {
		p := &s.Pairs[i]
		p.TX.Packets, p.TX.DataPackets, p.TX.Bytes = 1000*n, 1000*n, 2_500_000*n
		p.TX.PayloadBytes, p.TX.BigBytes = 2_000_000*n, 1_500_000*n
		p.TX.Kicks, p.TX.KicksEmpty, p.TX.Calls = 300*n, 2*n, 50*n
		p.RX.Packets, p.RX.PureACKs, p.RX.Calls = 400*n, 390*n, 120*n
	}
	s.Pairs[1].TX.CallsSuppressed[netdev.CallEventIdx] = 950 * n
	s.Pairs[1].RX.Drops[netdev.DropNoBuffers] = 7 * n
	s.Ctrl.Packets, s.Ctrl.Kicks = 4, 4
	s.Sessions = []vhost.SessionReport{{Generation: 1, Acked: virtio.FeatureHostTSO4, Start: began, End: began.Add(3 * time.Second),
		Reason: "front-end closed the connection", Stats: vhost.SessionStats{Messages: 40, Refused: 1}}}
	return s
}

func TestTableOfAnIntervalHasRates(t *testing.T) {
	var b bytes.Buffer
	w := watch.New(&b, "text", began)
	for i := range 3 {
		at := began.Add(time.Duration(i+1) * 2 * time.Second)
		if err := w.Interval(at, snapshot([]uint64{1, 5, 5}[i])); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"queue  tx packets  tx Gbit  GSO mean  >=8 MSS    excess     kicks    empty  tx calls    saved  rx packets      acks  rx calls    drops",
		"pair          /s       /s     bytes  % bytes        /s        /s       /s        /s       /s          /s        /s        /s       /s",
		"07:08:11.0     0         500    0.010      2000     75.0       484       150     1.00      25.0        0         200       195      60.0        0",
		"07:08:11.0     1         500    0.010      2000     75.0       484       150     1.00      25.0      475         200       195      60.0     3.50",
		"07:08:11.0   all        1000    0.020      2000     75.0       969       300     2.00      50.0      475         400       390       120     3.50",
		"07:08:13.0     0        2000    0.040      2000     75.0      1938       600     4.00       100        0         800       780       240        0",
		"07:08:13.0     1        2000    0.040      2000     75.0      1938       600     4.00       100     1900         800       780       240     14.0",
		"07:08:13.0   all        4000    0.080      2000     75.0      3877      1200     8.00       200     1900        1600      1560       480     14.0",
	}
	var got []string
	for l := range strings.SplitSeq(strings.TrimSpace(b.String()), "\n") {
		got = append(got, strings.TrimSpace(l))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the third interval was idle and must have no line: %s", d)
	}
}

func TestTotalsHaveCountsAndReasons(t *testing.T) {
	var b bytes.Buffer
	if err := watch.New(&b, "text", began).Totals(began.Add(time.Minute), snapshot(3)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Totals of 1m0s:\n",
		" all        6000    0.120      2000     75.0      5816      1800     12.0       300     2850        2400      2340       720     21.0\n",
		`queue 1 rx: drops {"no_buffers":21}`,
		`queue 1 tx: calls not made {"event_idx":2850}`,
		"control queue: 4 commands, 4 kicks, 0 calls\n",
		"session 1: 40 messages, 1 refused; 3s, front-end closed the connection\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestLinesAreJSON(t *testing.T) {
	var b bytes.Buffer
	w := watch.New(&b, "json", began)
	if err := w.Interval(began.Add(time.Second), snapshot(1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Interval(began.Add(2*time.Second), snapshot(3)); err != nil {
		t.Fatal(err)
	}
	if err := w.Totals(began.Add(2*time.Second), snapshot(3)); err != nil {
		t.Fatal(err)
	}
	type pair struct {
		TX struct{ Packets, Kicks uint64 } `json:"tx"`
	}
	type line struct {
		Schema, Kind string
		Seconds      float64
		Pairs        []pair
	}
	var got []line
	for d := json.NewDecoder(&b); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatal(err)
		}
		l.Pairs = l.Pairs[:1]
		got = append(got, l)
	}
	one := func(kind string, seconds float64, n uint64) line {
		l := line{Schema: watch.Schema, Kind: kind, Seconds: seconds, Pairs: make([]pair, 1)}
		l.Pairs[0].TX.Packets, l.Pairs[0].TX.Kicks = 1000*n, 300*n
		return l
	}
	want := []line{one("interval", 1, 1), one("interval", 1, 2), one("totals", 2, 3)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
