package bench

import (
	"fmt"
	"io"
	"slices"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
)

// Spread is the least, the middle and the greatest of some figures.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

func spread(v []float64) Spread {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return Spread{Min: s[0], Median: (s[(n-1)/2] + s[n/2]) / 2, Max: s[n-1]}
}

// Result is what was measured of one case.
type Result struct {
	Case  string  `json:"case"`
	About string  `json:"about"`
	Unit  string  `json:"unit"` // of Ours and Peer: Mpps or Gbit/s, of frames without preamble
	Ours  Spread  `json:"ours"`
	Peer  *Spread `json:"peer"` // null if it is not here
	// PeerName names it.
	PeerName string `json:"peer_name"`
	// Ratio is the median of the ratios of each pair, ours to the peer's;
	// RatioSpread has their range. Both are null without a peer.
	Ratio       *float64 `json:"ratio"`
	RatioSpread *Spread  `json:"ratio_spread"`
	Pairs       int      `json:"pairs"`
	// RegimeNS is, for each pair, in how many nanoseconds a cache line went to the
	// other CPU and back: the mean of before and after.
	RegimeNS []float64 `json:"regime_ns"`

	rates [2][]float64
}

func (r *Result) add(rates []float64, before, after float64) {
	for i, v := range rates {
		r.rates[i] = append(r.rates[i], v)
	}
	r.Pairs++
	r.RegimeNS = append(r.RegimeNS, (before+after)/2)
}

func (r *Result) finish() {
	r.PeerName = Peer
	r.Ours = spread(r.rates[0])
	if len(r.rates[1]) == 0 {
		return
	}
	peer := spread(r.rates[1])
	ratios := make([]float64, r.Pairs)
	for i := range ratios {
		ratios[i] = r.rates[0][i] / r.rates[1][i]
	}
	all := spread(ratios)
	r.Peer, r.Ratio, r.RatioSpread = &peer, &all.Median, &all
}

// Write prints a table.
func Write(w io.Writer, results []Result) error {
	t := grid.Table{Columns: []grid.Column{
		{Head: []string{"case"}, Left: true}, {Head: []string{"unit"}, Left: true},
		{Head: []string{"ours"}}, {Head: []string{"min..max"}},
		{Head: []string{"peer"}}, {Head: []string{"min..max"}},
		{Head: []string{"ratio"}}, {Head: []string{"min..max"}}, {Head: []string{"pairs"}},
		{Head: []string{"CPU to CPU", "and back, ns"}},
	}}
	for _, r := range results {
		peer, peerSpan, ratio, ratioSpan := "-", "-", "-", "-"
		if r.Peer != nil {
			peer, peerSpan = figure(r.Peer.Median), span(*r.Peer)
			ratio, ratioSpan = figure(*r.Ratio), span(*r.RatioSpread)
		}
		far := spread(r.RegimeNS)
		t.Row(r.Case, r.Unit, figure(r.Ours.Median), span(r.Ours), peer, peerSpan, ratio, ratioSpan,
			fmt.Sprint(r.Pairs), fmt.Sprintf("%.0f (%.0f..%.0f)", far.Median, far.Min, far.Max))
	}
	return t.Write(w)
}

// figure has three digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func span(s Spread) string { return figure(s.Min) + ".." + figure(s.Max) }
