// Package conclude compares the runs of a result and says in words what differs:
// each statement is made from counters of two runs, which it names. It holds no
// expectation of its own: swap the counters of two runs and the words follow.
// It runs nothing, and reads and writes no file.
package conclude

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Pair is two runs that are worth comparing: they differ in one thing.
type Pair struct {
	Before, After int    // indexes into the runs
	What          string // queue_pairs, remedies, kernel, restored, or the key of an axis
}

// Pairs finds the runs that differ in one thing. For each thing, the first run
// of a group that is equal in all others is compared with each later one.
// Kernel and release go together. Remedies and kernels are compared at the
// largest number of queue pairs only, where their effect is looked for; a
// remedied run is also held against the plain one with the fewest pairs. The
// cases of a plan are questions of their own: runs of two are never compared.
func Pairs(runs []vmtest.Run) []Pair {
	var out []Pair
	most := mostPairs(runs)
	for _, what := range differences(runs) {
		for _, p := range along(runs, what) {
			if after := runs[p.After]; what == "queue_pairs" || after.QueuePairs == most[caseOf(after)] {
				out = append(out, p)
			}
		}
		if what == "remedies" {
			out = append(out, restored(runs, most)...)
		}
	}
	return out
}

// caseAxis is the axis that tells a plan's cases apart.
const caseAxis = "case"

func caseOf(r vmtest.Run) string { return r.Axes[caseAxis] }

// mostPairs is the largest number of queue pairs of each case.
func mostPairs(runs []vmtest.Run) map[string]int {
	n := map[string]int{}
	for _, r := range runs {
		n[caseOf(r)] = max(n[caseOf(r)], r.QueuePairs)
	}
	return n
}

// differences lists the things in which any runs differ, those of every plan
// first.
func differences(runs []vmtest.Run) []string {
	things := []string{"queue_pairs", "remedies", "kernel", "policy", "write"}
	seen := map[string]bool{}
	for _, r := range runs {
		for k := range r.Axes {
			seen[k] = true
		}
	}
	for _, k := range append(things, "release", caseAxis) {
		delete(seen, k)
	}
	return append(things, sortedKeys(seen)...)
}

// along pairs the runs that differ in what and in nothing else.
func along(runs []vmtest.Run, what string) []Pair {
	var out []Pair
	first := map[string]int{}
	for i, r := range runs {
		key := pointWithout(r, what)
		f, ok := first[key]
		switch {
		case !ok:
			first[key] = i
		case pointOf(runs[f], what) != pointOf(r, what):
			out = append(out, Pair{f, i, what})
		}
	}
	return out
}

// restored pairs each remedied run with the largest number of queue pairs and
// the plain run of the same kernel with the smallest.
func restored(runs []vmtest.Run, most map[string]int) []Pair {
	var out []Pair
	for i, r := range runs {
		if len(r.Remedies) == 0 || r.QueuePairs != most[caseOf(r)] {
			continue
		}
		for j, plain := range runs {
			if plain.QueuePairs < r.QueuePairs && len(plain.Remedies) == 0 && sameBut(plain, r, "queue_pairs", "remedies") {
				out = append(out, Pair{j, i, "restored"})
				break
			}
		}
	}
	return out
}

func sameBut(a, b vmtest.Run, what ...string) bool {
	return pointWithout(a, what...) == pointWithout(b, what...)
}

// point is what a run was, thing by thing.
func point(r vmtest.Run) map[string]string {
	p := map[string]string{}
	maps.Copy(p, r.Axes)
	p["queue_pairs"] = fmt.Sprint(r.QueuePairs)
	p["remedies"] = vmtest.RemedyLabel(r.Remedies)
	p["kernel"] = strings.TrimSpace(r.Kernel + " " + r.Release)
	p["policy"] = r.Policy
	p["write"] = fmt.Sprint(r.Write)
	delete(p, "release")
	return p
}

func pointOf(r vmtest.Run, what string) string { return point(r)[what] }

func pointWithout(r vmtest.Run, what ...string) string {
	p := point(r)
	for _, w := range what {
		delete(p, w)
	}
	var b strings.Builder
	for _, k := range sortedKeys(p) {
		fmt.Fprintf(&b, "%s=%q ", k, p[k])
	}
	return b.String()
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}
