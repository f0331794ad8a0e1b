package vmtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
)

// TracePacket is one line of a trace. Seq and Ack are relative to the initial
// sequence numbers.
type TracePacket struct {
	TNs   int64
	Ack   bool // from the receiver
	Flow  int
	Seq   uint32
	AckNo uint32
	Len   int // TCP payload of the (GSO) packet
	Flags uint8
}

// TraceWriter writes packets as tab-separated lines behind a header of lines
// that begin with #. It buffers: Close flushes, and returns the first error.
type TraceWriter struct {
	w     *bufio.Writer
	buf   []byte
	rules bool
}

// NewTraceWriter writes the header: the scenario as JSON, so that a trace says
// how it was made. With the scenario's trace.rules, a column more says which
// rule of the sender gave a packet its length.
func NewTraceWriter(w io.Writer, s Scenario) (*TraceWriter, error) {
	j, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	b := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(b, "# format\tt_ns dir(tx=data direction, ack=from receiver) flow seq ack len flags; len is the TCP payload of the (GSO) packet\n")
	fmt.Fprintf(b, "# vnetbench\t%s\n", j)
	columns := "t_ns\tdir\tflow\tseq\tack\tlen\tflags"
	if s.Trace.Rules {
		columns += "\trule"
	}
	_, err = fmt.Fprintln(b, columns)
	return &TraceWriter{w: b, rules: s.Trace.Rules}, err
}

// Packet writes one line of a packet whose rule is not known.
func (t *TraceWriter) Packet(p TracePacket) { t.Ruled(p, tcp.RuleNone) }

// Ruled writes one line, with the rule that gave the packet its length if the
// trace has a column for it.
func (t *TraceWriter) Ruled(p TracePacket, rule tcp.Rule) {
	b := strconv.AppendInt(t.buf[:0], p.TNs, 10)
	if p.Ack {
		b = append(b, "\tack\t"...)
	} else {
		b = append(b, "\ttx\t"...)
	}
	b = strconv.AppendInt(b, int64(p.Flow), 10)
	b = strconv.AppendUint(append(b, '\t'), uint64(p.Seq), 10)
	b = strconv.AppendUint(append(b, '\t'), uint64(p.AckNo), 10)
	b = strconv.AppendInt(append(b, '\t'), int64(p.Len), 10)
	b = appendFlags(append(b, '\t'), p.Flags)
	if t.rules {
		b = append(append(b, '\t'), rule.String()...)
	}
	t.buf = append(b, '\n')
	t.w.Write(t.buf) // the error stays with the buffer until Close
}

// appendFlags writes TCP flags as tcpdump does, ACK as a dot.
func appendFlags(b []byte, flags uint8) []byte {
	for _, f := range []struct {
		bit  uint8
		name byte
	}{{skb.FIN, 'F'}, {skb.SYN, 'S'}, {skb.RST, 'R'}, {skb.PSH, 'P'}, {skb.CWR, 'W'}, {skb.ECE, 'E'}, {skb.ACK, '.'}} {
		if flags&f.bit != 0 {
			b = append(b, f.name)
		}
	}
	return b
}

// Close flushes what is buffered.
func (t *TraceWriter) Close() error { return t.w.Flush() }
