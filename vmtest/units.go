package vmtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseBytes reads a size such as 1024, 64k, 8M or 1G; the letters are powers
// of 1024.
func ParseBytes(s string) (Bytes, error) {
	v, unit, err := number(s)
	mul, ok := map[string]float64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[strings.ToLower(unit)]
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is not a size: write bytes, with k, M or G for powers of 1024, such as 1024 or 64k", s)
	}
	n, err := whole(v*mul, s)
	return Bytes(n), err
}

// ParseBitRate reads a rate such as 10G or 100M, in bit/s.
func ParseBitRate(s string) (BitRate, error) {
	v, unit, err := number(s)
	mul, ok := map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[strings.ToLower(unit)]
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is not a bit rate: write bit/s, with k, M or G for powers of 1000, such as 100M or 10G", s)
	}
	n, err := whole(v*mul, s)
	return BitRate(n), err
}

// ParseByteRate reads a rate such as 85.7MB/s or 12500000B/s.
func ParseByteRate(s string) (ByteRate, error) {
	v, unit, err := number(s)
	mul, ok := map[string]float64{"b/s": 1, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9}[strings.ToLower(unit)]
	if err == nil && v == 0 && unit == "" {
		return 0, nil
	}
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is not a byte rate: write it with B/s, kB/s, MB/s or GB/s (powers of 1000), such as 85.7MB/s", s)
	}
	n, err := whole(v*mul, s)
	return ByteRate(n), err
}

// ParseDuration reads a time such as 2us, 1ms or 10s; a bare 0 is allowed.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a time: write it with ns, us, ms or s, such as 2us or 10ms", s)
	}
	return d, nil
}

// number splits s into a number that is not negative and the unit behind it.
func number(s string) (float64, string, error) {
	i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		i = len(s)
	}
	v, err := strconv.ParseFloat(s[:i], 64)
	return v, s[i:], err
}

func whole(v float64, s string) (int64, error) {
	r := math.Round(v)
	if r > 1<<53 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return int64(r), nil
}

// String writes the size with the largest of k, M and G that divides it.
func (b Bytes) String() string {
	for _, u := range []struct {
		n    Bytes
		name string
	}{{1 << 30, "G"}, {1 << 20, "M"}, {1 << 10, "k"}} {
		if b != 0 && b%u.n == 0 {
			return strconv.FormatInt(int64(b/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// String writes the rate with the largest of k, M and G that divides it.
func (r BitRate) String() string {
	return decimal(int64(r), []string{"G", "M", "k"}, "")
}

// String writes the rate with the largest of GB/s, MB/s and kB/s that divides it.
func (r ByteRate) String() string {
	return decimal(int64(r), []string{"GB/s", "MB/s", "kB/s"}, "B/s")
}

func decimal(v int64, units []string, rest string) string {
	for i, u := range units {
		n := int64(math.Pow(1000, float64(len(units)-i)))
		if v != 0 && v%n == 0 {
			return strconv.FormatInt(v/n, 10) + u
		}
	}
	return strconv.FormatInt(v, 10) + rest
}
