package minmax_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/guest/tcp/minmax"
)

// TestMin compares the three-sample filter with a window kept in full. It
// is approximate on purpose: it may forget a minimum early, by a quarter of the
// window, but never keeps one that is too old or below the true minimum.
func TestMin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const win = 1000
		type obs struct{ t, v uint32 }
		var all []obs
		var f minmax.Min
		now := uint32(0)
		for range rapid.IntRange(1, 200).Draw(rt, "n") {
			now += rapid.Uint32Range(0, 300).Draw(rt, "dt")
			v := rapid.Uint32Range(1, 50).Draw(rt, "v")
			all = append(all, obs{now, v})
			f.Update(win, now, v)
			least, recent := ^uint32(0), ^uint32(0)
			for _, o := range all {
				if now-o.t <= win {
					least = min(least, o.v)
				}
				if now-o.t <= win/4 {
					recent = min(recent, o.v)
				}
			}
			if f.Value() < least || f.Value() > recent {
				rt.Fatalf("at %d: filter %d, window %d, last quarter %d", now, f.Value(), least, recent)
			}
		}
	})
}
