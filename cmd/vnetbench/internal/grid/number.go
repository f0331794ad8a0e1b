package grid

import (
	"math"
	"strconv"
)

// Number writes v with three significant digits below 1000 and none behind the
// point above, and without an exponent.
func Number(v float64) string {
	a := math.Abs(v)
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return "-"
	case v == 0:
		return "0"
	case a < 0.001:
		return strconv.FormatFloat(v, 'f', 6, 64)
	case a < 1:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Optional writes what Number writes, or - for a value that is not known.
func Optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return Number(*v)
}

// Micros is Optional of a time in nanoseconds, in microseconds.
func Micros(ns *float64) string {
	if ns == nil {
		return Optional(nil)
	}
	return Number(*ns / 1e3)
}
