package trace

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vnetbench/vnetbench/guest/tcp"
)

// String is the packet's line with the time in microseconds, without the
// acknowledgement number of data and the sequence number of ACKs.
func (p *Packet) String() string {
	var b strings.Builder
	if p.Ack {
		fmt.Fprintf(&b, "%14s ack %d  ack %10d %7s", Micros(p.TNs), p.Flow, p.AckNo, "")
	} else {
		fmt.Fprintf(&b, "%14s tx  %d  seq %10d %7d", Micros(p.TNs), p.Flow, p.Seq, p.Len)
	}
	fmt.Fprintf(&b, " %s", flagText(p.Flags))
	if p.Rule != tcp.RuleNone {
		fmt.Fprintf(&b, " %s", p.Rule)
	}
	if p.Stop != StopUnknown {
		fmt.Fprintf(&b, " after %s", p.Stop)
	}
	return b.String()
}

func flagText(flags uint8) string {
	var b []byte
	for i := range len(flagLetters) {
		if c := flagLetters[i]; c != '.' && flags&flagBit(c) != 0 {
			b = append(b, c)
		}
	}
	if flags&flagBit('.') != 0 {
		b = append(b, '.')
	}
	return string(b)
}

// Micros writes nanoseconds as microseconds with three decimals and the unit,
// such as 1000.256 us.
func Micros(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%03d us", sign, ns/1000, ns%1000)
}

// percent writes a share with two decimals; only all of the whole is 100.00.
func percent(part, whole int) string {
	if whole == 0 {
		return "-"
	}
	hundredths := part * 10000 / whole
	return fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
}

// grouped writes a number with blanks between groups of three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 && s[i-1] != '-' {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}
