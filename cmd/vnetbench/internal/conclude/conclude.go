package conclude

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Draw compares the runs pair by pair. None of the conclusions has been tried
// with other costs yet: Judge does that.
func Draw(runs []vmtest.Run) []vmtest.Conclusion {
	out := []vmtest.Conclusion{}
	for _, p := range Pairs(runs) {
		for _, c := range claims {
			if p.What == "restored" && c.id != "size" && c.id != "kicks" {
				continue
			}
			if k, ok := draw(runs, p, c); ok {
				out = append(out, k)
			}
		}
	}
	return out
}

func draw(runs []vmtest.Run, p Pair, c claim) (vmtest.Conclusion, bool) {
	a, b := &runs[p.Before].Totals, &runs[p.After].Totals
	before, okBefore := c.figure(a)
	after, okAfter := c.figure(b)
	unknown := !okBefore || !okAfter || a.Bytes == 0 || b.Bytes == 0
	if unknown || before == 0 && after == 0 {
		return vmtest.Conclusion{}, false
	}
	return vmtest.Conclusion{
		ID: c.id, Subject: subject(runs, p), Counters: c.counters,
		Text:   c.say(a, b, directionOf(before, after, sameMargin)),
		Before: p.Before, After: p.After, Holds: true,
		Tested: []string{}, Flips: []vmtest.Flip{},
	}, true
}

func remedied(r vmtest.Run) string {
	if len(r.Remedies) == 0 {
		return ""
	}
	return " with " + strings.Join(r.Remedies, " and ")
}

func pairs(n int) string {
	if n == 1 {
		return "1 queue pair"
	}
	return fmt.Sprintf("%d queue pairs", n)
}

// subject is the heading of a pair: its case, if the plan has cases, and what
// differs.
func subject(runs []vmtest.Run, p Pair) string {
	a, b := runs[p.Before], runs[p.After]
	if c := caseOf(b); c != "" {
		return c + ", " + difference(a, b, p.What)
	}
	return difference(a, b, p.What)
}

func difference(a, b vmtest.Run, what string) string {
	kernel := strings.TrimSpace(b.Kernel + " " + b.Release)
	switch what {
	case "queue_pairs":
		return fmt.Sprintf("%s%s: %s against %d", kernel, remedied(b), pairs(b.QueuePairs), a.QueuePairs)
	case "remedies":
		return fmt.Sprintf("%s, %s: %s against %s", kernel, pairs(b.QueuePairs), plus(b.Remedies), plus(a.Remedies))
	case "kernel":
		return fmt.Sprintf("%s: %s against %s", pairs(b.QueuePairs), kernel, strings.TrimSpace(a.Kernel+" "+a.Release))
	case "restored":
		return fmt.Sprintf("%s: %s with %s against the plain %s", kernel, pairs(b.QueuePairs), plus(b.Remedies), pairs(a.QueuePairs))
	}
	return fmt.Sprintf("%s%s, %s: %s %s against %s", kernel, remedied(b), pairs(b.QueuePairs),
		what, pointOf(b, what), pointOf(a, what))
}

func plus(remedies []string) string {
	if len(remedies) == 0 {
		return "no remedy"
	}
	return strings.Join(remedies, " and ")
}
