package trace

import (
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
)

// ruleText says what a rule decides, for a sentence.
var ruleText = map[string]string{
	tcp.RuleTail.String():     "all that was queued",
	tcp.RuleFull.String():     "the size goal",
	tcp.RuleRest.String():     "what an earlier cut left over",
	tcp.RuleEOR.String():      "the end of a record",
	tcp.RuleMiddle.String():   "a queue entry that was closed short",
	tcp.RuleCwnd.String():     "the congestion window",
	tcp.RuleRwnd.String():     "the receiver's window",
	tcp.RuleAutosize.String(): "the segments that the pacing rate allows",
	tcp.RuleGSOSegs.String():  "gso_max_segs",
	tcp.RuleNagle.String():    "Nagle's rule for the rest",
	tcp.RuleRetrans.String():  "a retransmission",
	tcp.RuleProbe.String():    "a probe",
}

// RuleText says in words what bounds a packet by the rule of that name; empty for
// a name that is no rule.
func RuleText(rule string) string { return ruleText[rule] }

// why says which decision of the model would have to differ.
func (r *Report) why(d *Diff) string {
	switch d.Kind {
	case KindLength:
		return r.whyLength(d)
	case KindMissing:
		return r.whyMissing(d)
	case KindExtra:
		return "the model sent a packet that the truth has not" + because(d.Rule)
	}
	return r.whyTime(d)
}

func because(rule string) string {
	if rule == "" {
		return ""
	}
	if text := ruleText[rule]; text != "" {
		return fmt.Sprintf(" (rule %s: %s)", rule, text)
	}
	return fmt.Sprintf(" (rule %s)", rule)
}

func (r *Report) whyLength(d *Diff) string {
	size := *d.TruthLen - *d.ModelLen
	if size > 0 {
		s := fmt.Sprintf("the model's packet is %s shorter", r.amount(size))
		if d.Rule == "" {
			return s + "; it logs no rule: whatever bounded it has to allow more"
		}
		return s + "; what bounded it has to allow more" + because(d.Rule)
	}
	s := fmt.Sprintf("the model's packet is %s longer", r.amount(-size))
	return s + because(d.Rule) + "; " + r.whatCut(&r.truth.Packets[d.truthAt])
}

// amount writes a count of bytes, with segments where it is whole ones.
func (r *Report) amount(n int) string {
	mss := r.mss()
	if mss > 0 && n%mss == 0 {
		return fmt.Sprintf("%d bytes (%d of %d)", n, n/mss, mss)
	}
	return fmt.Sprintf("%d bytes", n)
}

func (r *Report) mss() int {
	if m := r.truth.MSS(); m > 0 {
		return m
	}
	return r.model.MSS()
}

// whatCut guesses from its length what bounded a packet of the truth.
func (r *Report) whatCut(p *Packet) string {
	mss := r.mss()
	switch {
	case mss > 0 && p.Len%mss != 0 && p.Flags&skb.PSH != 0:
		return "the truth ends within a segment, with PSH: there the data ended (tail), or a queue entry did"
	case mss > 0 && p.Len%mss != 0:
		return "the truth ends within a segment: a queue entry was closed there"
	}
	return "the truth ends with a whole segment: cwnd, rwnd, autosize or the size goal has to cut there"
}

func (r *Report) whyMissing(d *Diff) string {
	if len(r.model.Packets) == 0 {
		return "the model sent nothing"
	}
	t, m := &r.truth.Packets[d.truthAt], &r.model.Packets[d.modelAt]
	switch {
	case m.data() && m.holds(t) && m.Seq == t.Seq:
		return "the model did not send this a second time: a loss was not found, or there was none"
	case m.data() && m.holds(t):
		return fmt.Sprintf("the model sent these bytes within a packet from seq %d with %d bytes", m.Seq, m.Len) + because(ruleName(m.Rule))
	}
	return fmt.Sprintf("the model never sent these bytes; its last line before is at %s", Micros(m.TNs))
}

func ruleName(r tcp.Rule) string {
	if r == tcp.RuleNone {
		return ""
	}
	return r.String()
}

func (r *Report) whyTime(d *Diff) string {
	lag := time.Duration(*d.ModelTNs - d.TNs)
	word := "later"
	if lag < 0 {
		word = "earlier"
	}
	s := fmt.Sprintf("the model sent it %s %s", Micros(int64(lag.Abs())), word)
	if lag.Abs() <= Tolerance {
		return s + ": the same decision, with clock reads more or less"
	}
	if d.Stop != "" {
		s += fmt.Sprintf(", after a pass that ended with %s", d.Stop)
	}
	return s + "; the truth " + r.truth.trigger(d.truthAt) + ", the model " + r.model.trigger(d.modelAt)
}

// trigger says what seems to have let a packet go.
func (t *Trace) trigger(at int) string {
	p := &t.Packets[at]
	for i := at - 1; i >= 0 && p.TNs-t.Packets[i].TNs <= int64(Tolerance); i-- {
		if q := &t.Packets[i]; q.Ack && q.Flow == p.Flow {
			return fmt.Sprintf("sent at an ACK (of %d)", q.AckNo)
		}
	}
	return "sent without an ACK (a timer, a completion or a write)"
}
