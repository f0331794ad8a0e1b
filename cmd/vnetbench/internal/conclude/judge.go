package conclude

import "github.com/vnetbench/vnetbench/vmtest"

// Factors are what an assumed cost is multiplied with to try the conclusions.
var Factors = []float64{0.5, 2}

// Variation is one run made again with one cost multiplied.
type Variation struct {
	Run    int // index into the result's runs
	Cost   string
	Factor float64
}

// Variations lists what has to be run again to try the conclusions: each run
// that one of them is about, with each of its assumed costs halved and doubled.
func Variations(cs []vmtest.Conclusion, costs []vmtest.Cost) []Variation {
	wanted := map[int]bool{}
	for _, c := range cs {
		wanted[c.Before], wanted[c.After] = true, true
	}
	var out []Variation
	for _, cost := range costs {
		if cost.Kind != vmtest.CostAssumed || cost.Value == 0 {
			continue
		}
		for _, run := range cost.Runs {
			if !wanted[run] {
				continue
			}
			for _, f := range Factors {
				out = append(out, Variation{run, cost.Name, f})
			}
		}
	}
	return out
}

// Judge fills Tested, Flips and Holds of the conclusions from runs made again.
// A cost that only one of two runs has is varied in that one alone. A variation
// that is missing (the command was interrupted) is taken as not tested.
func Judge(runs []vmtest.Run, cs []vmtest.Conclusion, varied map[Variation]*vmtest.Run) {
	names := costNames(varied)
	for i := range cs {
		c := &cs[i]
		c.Tested, c.Flips = []string{}, []vmtest.Flip{}
		for _, name := range names {
			judgeCost(runs, c, name, varied)
		}
		c.Holds = len(c.Flips) == 0
	}
}

func judgeCost(runs []vmtest.Run, c *vmtest.Conclusion, name string, varied map[Variation]*vmtest.Run) {
	tested := false
	for _, f := range Factors {
		a, okA := varied[Variation{c.Before, name, f}]
		b, okB := varied[Variation{c.After, name, f}]
		if !okA && !okB {
			continue
		}
		if !okA {
			a = &runs[c.Before]
		}
		if !okB {
			b = &runs[c.After]
		}
		tested = true
		if turned(c.ID, &runs[c.Before].Totals, &runs[c.After].Totals, &a.Totals, &b.Totals) {
			c.Flips = append(c.Flips, vmtest.Flip{Cost: name, Factor: f})
		}
	}
	if tested {
		c.Tested = append(c.Tested, name)
	}
}

// turned reports whether the statement about a and b is wrong about a2 and b2.
func turned(id string, a, b, a2, b2 *vmtest.Totals) bool {
	for _, c := range claims {
		if c.id != id {
			continue
		}
		before, _ := c.figure(a)
		after, _ := c.figure(b)
		before2, ok := c.figure(a2)
		after2, ok2 := c.figure(b2)
		if !ok || !ok2 {
			return false
		}
		switch directionOf(before, after, sameMargin) {
		case up:
			return after2 <= before2
		case down:
			return after2 >= before2
		}
		return directionOf(before2, after2, flipMargin) != same
	}
	return false
}

// costNames lists the costs that were varied, each once, in alphabetical order.
func costNames(varied map[Variation]*vmtest.Run) []string {
	seen := map[string]bool{}
	for v := range varied {
		seen[v.Cost] = true
	}
	return sortedKeys(seen)
}
