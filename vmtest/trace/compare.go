package trace

import (
	"slices"
	"time"
)

// Tolerance is how far the times of equal packets may be apart and still be the
// outcome of the same decisions: in virtual time a clock read more or less
// moves what follows by 256 ns.
const Tolerance = 2100 * time.Nanosecond

// Report is the outcome of a comparison. Its counts are of packets of the truth
// with payload in the data direction.
type Report struct {
	Trace   string // the truth's name
	Model   string // the model's
	Variant string // which of several runs of the model this is, "" if there was one; free text of the caller

	Packets   int // of the truth
	EqualLen  int // the model sent the same flow, sequence number and length
	EqualTime int // of these: at the same nanosecond
	Within    int // of these: at most Tolerance apart

	FirstDiff *Diff // the first difference, nil if there is none; see Compare
	FirstLate *Diff // the first of the EqualLen that is more than Tolerance apart; nil if none is
	FirstTime *Diff // the first of the EqualLen at another time; nil if none is

	OtherLen  int // the model sent it with another length
	OnlyTruth int // the model never sent it
	OnlyModel int // the model's packets that the truth does not have
	AfterEnd  int // the model's packets after the last one of a truth that holds only the beginning of its run; not in OnlyModel

	Lag   Lag        // of the EqualLen
	Sizes []SizePair // every length that either has, rising

	truth, model *Trace
	match        []int32 // by data packet of the truth: index in model.Packets, or -1
	sent, other  []int32 // indices of the data packets of truth and model
}

// Compare compares what two senders did, by these rules: packets are the lines
// in the data direction with payload. A packet of the truth has equal length if
// the model sent the same flow, sequence number and length, the n-th
// transmission of a sequence number against the n-th. Times are compared only
// among these. Nothing is shifted and nothing is brought into step again after
// a difference.
//
// The first difference is the first packet that differs in length or that only
// one of the two has; if there is none, the first that is more than Tolerance
// apart, and then the first at another time. It takes time and memory in
// proportion to the packets. Both traces stay in use by the report and must not
// change.
func Compare(truth, model *Trace) *Report {
	r := &Report{Trace: truth.Name, Model: model.Name, truth: truth, model: model}
	r.sent, r.other = dataPackets(truth), dataPackets(model)
	taken := r.pair()
	r.Packets = len(r.sent)
	r.count()
	extra := r.countModel(taken)
	r.FirstDiff = r.first(extra)
	r.Lag = r.lag()
	r.Sizes = r.sizes()
	return r
}

// dataPackets returns the indices of the packets that are compared.
func dataPackets(t *Trace) []int32 {
	var list []int32
	for i := range t.Packets {
		if t.Packets[i].data() {
			list = append(list, int32(i))
		}
	}
	return list
}

// start is where a packet begins in its flow.
type start struct {
	flow int
	seq  uint32
}

func (p *Packet) start() start { return start{p.Flow, p.Seq} }

// pair finds for each packet of the truth the model's, and says which of the
// model's were found.
func (r *Report) pair() (taken []bool) {
	first := make(map[start]int32, len(r.other))
	next := make([]int32, len(r.other)) // the next transmission of the same
	for i, at := range slices.Backward(r.other) {
		key := r.model.Packets[at].start()
		next[i] = -1
		if n, ok := first[key]; ok {
			next[i] = n
		}
		first[key] = int32(i)
	}
	taken = make([]bool, len(r.other))
	r.match = make([]int32, len(r.sent))
	for i, at := range r.sent {
		key := r.truth.Packets[at].start()
		n, ok := first[key]
		if !ok || n < 0 {
			r.match[i] = -1
			continue
		}
		first[key] = next[n]
		r.match[i], taken[n] = r.other[n], true
	}
	return taken
}

// pairOf returns data packet i of the truth and the model's, nil if it has none.
func (r *Report) pairOf(i int) (truth, model *Packet) {
	truth = &r.truth.Packets[r.sent[i]]
	if r.match[i] >= 0 {
		model = &r.model.Packets[r.match[i]]
	}
	return truth, model
}

// equal says whether data packet i of the truth has the model's length, and how
// much later the model sent it.
func (r *Report) equal(i int) (lag time.Duration, equal bool) {
	t, m := r.pairOf(i)
	if m == nil || m.Len != t.Len {
		return 0, false
	}
	return time.Duration(m.TNs - t.TNs), true
}

// count fills what is counted over the truth.
func (r *Report) count() {
	for i := range r.sent {
		lag, equal := r.equal(i)
		switch {
		case !equal && r.match[i] < 0:
			r.OnlyTruth++
			continue
		case !equal:
			r.OtherLen++
			continue
		}
		r.EqualLen++
		if lag.Abs() <= Tolerance {
			r.Within++
		} else if r.FirstLate == nil {
			r.FirstLate = r.diff(KindTime, i)
		}
		if lag == 0 {
			r.EqualTime++
		} else if r.FirstTime == nil {
			r.FirstTime = r.diff(KindTime, i)
		}
	}
}

// countModel counts the model's packets that the truth lacks and returns the
// first of them, as an index in other, or -1.
func (r *Report) countModel(taken []bool) (extra int) {
	extra = -1
	end := r.end()
	for i, found := range taken {
		switch {
		case found:
		case r.model.Packets[r.other[i]].TNs > end:
			r.AfterEnd++
		default:
			r.OnlyModel++
			if extra < 0 {
				extra = i
			}
		}
	}
	return extra
}

// end is the time after which the truth says nothing.
func (r *Report) end() int64 {
	n := len(r.truth.Packets)
	if n == 0 || !r.truth.Truncated() {
		return 1<<63 - 1
	}
	return r.truth.Packets[n-1].TNs - int64(Tolerance)
}

// first chooses the first difference; extra is the model's first packet that
// the truth lacks, or -1.
func (r *Report) first(extra int) *Diff {
	length := r.firstLength()
	switch {
	case extra >= 0 && (length < 0 || r.before(extra, length)):
		return r.extra(extra)
	case length >= 0 && r.match[length] < 0:
		return r.diff(KindMissing, length)
	case length >= 0:
		return r.diff(KindLength, length)
	case r.FirstLate != nil:
		return r.FirstLate
	}
	return r.FirstTime
}

// firstLength is the first data packet of the truth that the model has not with
// this length, or -1.
func (r *Report) firstLength() int {
	for i := range r.sent {
		if _, equal := r.equal(i); !equal {
			return i
		}
	}
	return -1
}

// before says whether the model sent its data packet extra, which the truth
// lacks, before data packet i of the truth turned out to differ: ahead of what
// equals the one before i, and not later than i left.
func (r *Report) before(extra, i int) bool {
	if i == 0 {
		return false
	}
	at := r.other[extra]
	limit := r.truth.Packets[r.sent[i]].TNs + int64(Tolerance)
	return at < r.match[i-1] && r.model.Packets[at].TNs <= limit
}
