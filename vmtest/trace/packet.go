package trace

import (
	"slices"

	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest"
)

// StopUnknown is the Stop of a packet whose trace does not tell it.
const StopUnknown = tcp.NumStops

// Packet is one line of a trace.
type Packet struct {
	vmtest.TracePacket
	Rule tcp.Rule // what gave the packet its length; RuleNone where the trace does not tell
	Stop tcp.Stop // what ended the pass of the write loop before; StopUnknown where the trace does not tell
	Line int32    // in the file, from 1; 0 for a packet that comes from no file
}

// data says whether the packet takes part in comparisons: it goes in the data
// direction and carries payload.
func (p *Packet) data() bool { return !p.Ack && p.Len > 0 }

// Column names. The optional ones may follow the others, in any order.
const columnLine = "t_ns\tdir\tflow\tseq\tack\tlen\tflags"

const (
	columnRule = "rule"
	columnStop = "stop"
)

// columns is what stands behind the seven columns that every trace has.
type columns struct {
	extra []string
}

func parseColumns(line []byte) (columns, error) {
	rest, ok := bytes.CutPrefix(line, []byte(columnLine))
	if !ok || len(rest) > 0 && rest[0] != '\t' {
		return columns{}, fmt.Errorf("%w: want the names of the columns, %q, after the header", ErrLine, columnLine)
	}
	var c columns
	for _, name := range bytes.Split(rest, []byte{'\t'})[1:] {
		s := string(name)
		if s != columnRule && s != columnStop || len(c.extra) > 0 && c.extra[0] == s {
			return columns{}, fmt.Errorf("%w: column %q; after flags may stand %s and %s, once each", ErrLine, clip(name), columnRule, columnStop)
		}
		c.extra = append(c.extra, s)
	}
	return c, nil
}

// parse reads one line of the body.
func (c *columns) parse(line []byte) (Packet, error) {
	var f fields
	f.rest = line
	p := Packet{Stop: StopUnknown}
	p.TNs = int64(f.number("t_ns", math.MaxInt64))
	p.Ack = f.direction()
	p.Flow = int(f.number("flow", MaxFlows-1))
	p.Seq = uint32(f.number("seq", math.MaxUint32))
	p.AckNo = uint32(f.number("ack", math.MaxUint32))
	p.Len = int(f.number("len", math.MaxInt32))
	p.Flags = f.flags()
	for _, name := range c.extra {
		if name == columnRule {
			p.Rule = f.rule()
			continue
		}
		p.Stop = f.stop()
	}
	if f.err == nil && f.rest != nil {
		f.fail("line", f.rest, "no more than "+strconv.Itoa(7+len(c.extra))+" columns")
	}
	return p, f.err
}

// fields takes a line apart; the first fault stays.
type fields struct {
	rest []byte // nil: the line has ended
	err  error
}

func (f *fields) next() []byte {
	field, rest, more := bytes.Cut(f.rest, []byte{'\t'})
	f.rest = nil
	if more {
		f.rest = rest
	}
	return field
}

func (f *fields) fail(column string, got []byte, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s %q: want %s", ErrLine, column, clip(got), want)
	}
}

// number takes a decimal number of at most limit.
func (f *fields) number(column string, limit uint64) uint64 {
	b := f.next()
	var v uint64
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || v > (limit-d)/10 {
			v = limit + 1
			break
		}
		v = v*10 + d
	}
	if len(b) == 0 || v > limit {
		f.fail(column, b, fmt.Sprintf("a number from 0 to %d", limit))
		return 0
	}
	return v
}

func (f *fields) direction() (ack bool) {
	b := f.next()
	switch string(b) {
	case "tx":
		return false
	case "ack":
		return true
	}
	f.fail("dir", b, "tx or ack")
	return false
}

// flagLetters are those of tcpdump.
const flagLetters = "FSRP.UEW"

func (f *fields) flags() uint8 {
	b := f.next()
	var v uint8
	for _, c := range b {
		bit := flagBit(c)
		if bit == 0 || v&bit != 0 {
			f.fail("flags", b, "letters of "+flagLetters+", each once")
			return 0
		}
		v |= bit
	}
	return v
}

func flagBit(letter byte) uint8 {
	switch letter {
	case 'F':
		return skb.FIN
	case 'S':
		return skb.SYN
	case 'R':
		return skb.RST
	case 'P':
		return skb.PSH
	case '.':
		return skb.ACK
	case 'U':
		return urg
	case 'E':
		return skb.ECE
	case 'W':
		return skb.CWR
	}
	return 0
}

// urg is the flag that no packet of ours has. RFC 9293 §3.1.
const urg uint8 = 0x20

func (f *fields) rule() tcp.Rule {
	b := f.next()
	for r := range tcp.NumRules {
		if r.String() == string(b) {
			return r
		}
	}
	f.fail(columnRule, b, "a rule, such as "+tcp.RuleCwnd.String())
	return tcp.RuleNone
}

func (f *fields) stop() tcp.Stop {
	b := f.next()
	for s := range tcp.NumStops {
		if s.String() == string(b) {
			return s
		}
	}
	if string(b) != "-" {
		f.fail(columnStop, b, "a reason, such as "+tcp.StopCwnd.String()+", or -")
	}
	return StopUnknown
}

// clip keeps a text short enough for an error.
func clip(b []byte) []byte {
	const most = 60
	if len(b) <= most {
		return b
	}
	return append(append([]byte(nil), b[:most]...), "..."...)
}

// SYNs returns the flows of the trace's SYNs, in the order in which each flow's
// first one left.
func (t *Trace) SYNs() []int {
	var out []int
	for i := range t.Packets {
		p := &t.Packets[i]
		if !p.Ack && p.Flags&skb.SYN != 0 && !slices.Contains(out, int(p.Flow)) {
			out = append(out, int(p.Flow))
		}
	}
	return out
}
