package trace

import (
	"github.com/vnetbench/vnetbench/guest/tcp"
)

// Kind is in what two traces differ at one packet.
type Kind string

// The kinds of differences.
const (
	KindLength  Kind = "length"  // the model sent another length
	KindMissing Kind = "missing" // the model never sent a packet that begins there
	KindExtra   Kind = "extra"   // the truth has no such packet
	KindTime    Kind = "time"    // equal, but at another time
)

// Diff is one packet at which two traces differ. A pointer that is nil means
// that the trace concerned has no such packet.
type Diff struct {
	Kind     Kind    `json:"kind"`
	Index    int     `json:"index"` // among the data packets of the truth, of KindExtra among the model's, from 0
	TNs      int64   `json:"t_ns"`  // the truth's, of KindExtra the model's
	Line     int     `json:"line"`  // of the file that TNs comes from, from 1; 0 if it comes from no file
	Flow     int     `json:"flow"`
	Seq      uint32  `json:"seq"`
	TruthLen *int    `json:"truth_len"`
	ModelLen *int    `json:"model_len"`
	ModelTNs *int64  `json:"model_t_ns"`
	Rule     string  `json:"rule"` // the model's for this packet, "" if it logs none
	Stop     string  `json:"stop"` // what ended the model's pass before this packet, "" if it logs that not
	Why      string  `json:"why"`  // which decision of the model would have to differ
	Context  Context `json:"context"`

	truthAt, modelAt int // the places in the packets of the traces; modelAt is the nearest where the model has none
}

// Context is the lines of both files around a difference. The line concerned
// begins with >, the others with a blank.
type Context struct {
	Truth []string `json:"truth"`
	Model []string `json:"model"`
}

// diff describes data packet i of the truth.
func (r *Report) diff(kind Kind, i int) *Diff {
	t, m := r.pairOf(i)
	d := &Diff{Kind: kind, Index: i, TNs: t.TNs, Line: int(t.Line), Flow: t.Flow, Seq: t.Seq, TruthLen: &t.Len}
	d.truthAt = int(r.sent[i])
	d.modelAt = r.near(r.model, t)
	if m != nil {
		d.modelAt = int(r.match[i])
		d.setModel(m)
	}
	d.Context = r.context(d)
	d.Why = r.why(d)
	return d
}

// extra describes the model's data packet i, which the truth lacks.
func (r *Report) extra(i int) *Diff {
	m := &r.model.Packets[r.other[i]]
	d := &Diff{Kind: KindExtra, Index: i, TNs: m.TNs, Line: int(m.Line), Flow: m.Flow, Seq: m.Seq}
	d.truthAt, d.modelAt = r.near(r.truth, m), int(r.other[i])
	d.setModel(m)
	d.Context = r.context(d)
	d.Why = r.why(d)
	return d
}

func (d *Diff) setModel(m *Packet) {
	d.ModelLen, d.ModelTNs = &m.Len, &m.TNs
	if m.Rule != tcp.RuleNone {
		d.Rule = m.Rule.String()
	}
	if m.Stop != StopUnknown {
		d.Stop = m.Stop.String()
	}
}

// near is the place in t of the data packet that holds p's first byte, or the
// last one before p's time; 0 if there is neither.
func (r *Report) near(t *Trace, p *Packet) int {
	best := 0
	for i := range t.Packets {
		q := &t.Packets[i]
		if q.data() && q.holds(p) {
			return i
		}
		if q.TNs <= p.TNs {
			best = i
		}
	}
	return best
}

// holds says whether q carries p's first byte.
func (q *Packet) holds(p *Packet) bool {
	return q.Flow == p.Flow && p.Seq-q.Seq < uint32(q.Len)
}

// contextLines is how many lines stand before and behind the one concerned.
const contextLines = 4

func (r *Report) context(d *Diff) Context {
	return Context{
		Truth: around(r.truth, d.truthAt, d.Kind != KindExtra),
		Model: around(r.model, d.modelAt, d.ModelLen != nil),
	}
}

// around returns the lines near a place, with the one there marked if it is the
// one concerned.
func around(t *Trace, at int, concerned bool) []string {
	lines := []string{}
	for i := max(0, at-contextLines); i < min(len(t.Packets), at+contextLines+1); i++ {
		mark := " "
		if i == at && concerned {
			mark = ">"
		}
		lines = append(lines, mark+" "+t.Packets[i].String())
	}
	return lines
}
