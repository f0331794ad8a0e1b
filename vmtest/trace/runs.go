package trace

import (
	"fmt"
	"strings"
)

// Run is a sequence of lengths and how often it follows itself.
type Run struct {
	Lens  []int
	Times int
}

// String writes the run, such as "(172032 8192) ×216" or "1448 ×3"; a sequence
// that stands once has no count.
func (r Run) String() string {
	s := strings.Trim(fmt.Sprint(r.Lens), "[]")
	switch {
	case r.Times == 1:
		return s
	case len(r.Lens) == 1:
		return fmt.Sprintf("%s ×%d", s, r.Times)
	}
	return fmt.Sprintf("(%s) ×%d", s, r.Times)
}

// longestPeriod is that of the patterns that Runs finds.
const longestPeriod = 8

// Runs writes a sequence of lengths as patterns of up to 8 lengths that repeat,
// from the front, always the one that covers most; what does not repeat is
// gathered in a run that stands once. Their concatenation is the sequence.
func Runs(lens []int) []Run {
	var runs []Run
	single := 0 // lengths before i that are in no run yet
	for i := 0; i < len(lens); {
		period, times := bestRun(lens[i:])
		if period*times < 3 || times < 2 {
			single++
			i++
			continue
		}
		if single > 0 {
			runs = append(runs, Run{lens[i-single : i], 1})
			single = 0
		}
		runs = append(runs, Run{lens[i : i+period], times})
		i += period * times
	}
	if single > 0 {
		runs = append(runs, Run{lens[len(lens)-single:], 1})
	}
	return runs
}

// bestRun is the pattern at the front that covers most, the shortest of equals.
func bestRun(lens []int) (period, times int) {
	period, times = 1, 1
	for p := 1; p <= min(longestPeriod, len(lens)/2); p++ {
		n := repeats(lens, p)
		if n >= 2 && p*n > period*times {
			period, times = p, n
		}
	}
	return period, times
}

// repeats counts how often the first p lengths stand in a row.
func repeats(lens []int, p int) int {
	same := p
	for same < len(lens) && lens[same] == lens[same-p] {
		same++
	}
	return same / p
}
