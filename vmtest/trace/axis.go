package trace

import (
	"math"
	"strconv"
	"strings"
)

// axis maps values to places on the picture.
type axis struct {
	lo, hi   float64 // values
	from, to float64 // places of lo and hi
}

func (a axis) at(v float64) float64 {
	if a.hi == a.lo {
		return a.from
	}
	return a.from + (v-a.lo)/(a.hi-a.lo)*(a.to-a.from)
}

// ticks are round values, at least n of them and at most three times as many.
func (a axis) ticks(n int) []float64 {
	step := roundStep((a.hi - a.lo) / float64(n))
	var list []float64
	for i := math.Ceil(a.lo / step); i*step <= a.hi && len(list) <= 3*n; i++ {
		list = append(list, i*step)
	}
	return list
}

// roundStep is 1, 2 or 5 times a power of ten, at most the step.
func roundStep(step float64) float64 {
	if step <= 0 || math.IsInf(step, 0) || math.IsNaN(step) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{5, 2} {
		if m*p <= step {
			return m * p
		}
	}
	return p
}

// timeUnit is the unit that suits a span of nanoseconds, and its length.
func timeUnit(span float64) (name string, ns float64) {
	switch {
	case span >= 2e9:
		return "s", 1e9
	case span >= 2e6:
		return "ms", 1e6
	}
	return "us", 1e3
}

// tickText writes a tick with as many decimals as the step needs.
func tickText(v, step float64) string {
	decimals := 0
	for step < 0.999 && decimals < 6 {
		step *= 10
		decimals++
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-") // no -0
	}
	return text
}
