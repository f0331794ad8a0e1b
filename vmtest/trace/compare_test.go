package trace_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

func TestCompareSame(t *testing.T) {
	for _, path := range openTraces(t) {
		tr, err := trace.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := trace.Compare(tr, tr)
		n := r.Packets
		if n == 0 || r.EqualLen != n || r.EqualTime != n || r.Within != n || r.Lag.Packets != n || r.Lag.Max != 0 {
			t.Errorf("%s: %+v", path, r)
		}
		if r.FirstDiff != nil || r.FirstLate != nil || r.FirstTime != nil || r.OtherLen+r.OnlyTruth+r.OnlyModel+r.AfterEnd != 0 {
			t.Errorf("%s: %+v", path, r.FirstDiff)
		}
	}
}

// counts are a report's numbers: of the truth's packets, then of the model's.
type counts struct{ packets, equalLen, equalTime, within, otherLen, onlyTruth, onlyModel, afterEnd int }

func countsOf(r *trace.Report) counts {
	return counts{r.Packets, r.EqualLen, r.EqualTime, r.Within, r.OtherLen, r.OnlyTruth, r.OnlyModel, r.AfterEnd}
}

const truthBody = `
	0     tx  0 0    0    0    S
	100   ack 0 0    1    0    S.
	200   tx  0 1    1    0    .
	300   tx  0 1    1    1000 P.
	5000  tx  0 1001 1    2000 P.
	9000  ack 0 1    3001 0    .
	10000 tx  0 3001 1    1000 P.`

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name        string
		truth, body string
		want        counts
		kind        trace.Kind // "" for no difference
		index       int
		why         string
	}{
		{"acks and empty packets do not count", truthBody, `
			300   tx 0 1    1 1000 P.
			5000  tx 0 1001 1 2000 P.
			10000 tx 0 3001 1 1000 .`, counts{3, 3, 3, 3, 0, 0, 0, 0}, "", 0, ""},
		{"times", truthBody, `
			299   tx 0 1    1 1000 P.
			7100  tx 0 1001 1 2000 P.
			12101 tx 0 3001 1 1000 .`, counts{3, 3, 0, 2, 0, 0, 0, 0}, trace.KindTime, 2, "2.101 us later; the truth sent at an ACK (of 3001), the model sent without an ACK"},
		{"small times only", truthBody, `
			300   tx 0 1    1 1000 P.
			4744  tx 0 1001 1 2000 P.
			10000 tx 0 3001 1 1000 .`, counts{3, 3, 2, 3, 0, 0, 0, 0}, trace.KindTime, 1, "0.256 us earlier: the same decision"},
		{"a shorter packet", truthBody, `
			300   tx 0 1    1 1000 P.
			5000  tx 0 1001 1 1000 P.
			5000  tx 0 2001 1 1000 P.
			10000 tx 0 3001 1 1000 .`, counts{3, 2, 2, 2, 1, 0, 1, 0}, trace.KindLength, 1, "1000 bytes (1 of 1000) shorter"},
		{"a longer packet", truthBody, `
			300   tx 0 1    1 3000 P.
			10000 tx 0 3001 1 1000 .`, counts{3, 1, 1, 1, 1, 1, 0, 0}, trace.KindLength, 0, "2000 bytes (2 of 1000) longer; the truth ends with a whole segment"},
		{"within a packet", truthBody, `
			300   tx 0 1    1 1000 P.
			400   tx 0 1001 1 1500 P.
			5000  tx 0 2501 1 1500 P.`, counts{3, 1, 1, 1, 1, 1, 1, 0}, trace.KindLength, 1, "500 bytes shorter"},
		{"a packet is missing", truthBody, `
			300   tx 0 1    1 1000 P.
			5000  tx 0 1001 1 2000 P.`, counts{3, 2, 2, 2, 0, 1, 0, 0}, trace.KindMissing, 2, "never sent these bytes; its last line before is at 5.000 us"},
		{"another flow", truthBody, `
			300   tx 0 1    1 1000 P.
			5000  tx 1 1001 1 2000 P.
			10000 tx 0 3001 1 1000 .`, counts{3, 2, 2, 2, 0, 1, 1, 0}, trace.KindMissing, 1, "never sent"},
		{"nothing", truthBody, "", counts{3, 0, 0, 0, 0, 3, 0, 0}, trace.KindMissing, 0, "sent nothing"},
		{"more at the end", truthBody, truthBody + `
			11000 tx 0 4001 1 1000 .`, counts{3, 3, 3, 3, 0, 0, 1, 0}, trace.KindExtra, 3, "the truth has not"},
		{"a needless retransmission", truthBody, `
			300   tx 0 1    1 1000 P.
			400   tx 0 1    1 1000 P.
			5000  tx 0 1001 1 2000 P.
			10000 tx 0 3001 1 2000 .`, counts{3, 2, 2, 2, 1, 0, 1, 0}, trace.KindExtra, 1, "the truth has not"},
		{"the second transmission is the shorter one", truthBody + `
			20000 tx 0 1001 1 1000 .`, truthBody + `
			20000 tx 0 1001 1 2000 .`, counts{4, 3, 3, 3, 1, 0, 0, 0}, trace.KindLength, 3, "longer"},
		{"no second transmission", truthBody + `
			20000 tx 0 1001 1 2000 .`, truthBody, counts{4, 3, 3, 3, 0, 1, 0, 0}, trace.KindMissing, 3, "a second time"},
		{"an order of its own", `
			10 tx 0 1 1 1000 .
			20 tx 1 1 1 1000 .`, `
			20 tx 1 1 1 1000 .
			10 tx 0 1 1 1000 .`, counts{2, 2, 2, 2, 0, 0, 0, 0}, "", 0, ""},
		{"no packets at all", "", "", counts{}, "", 0, ""},
	} {
		r := trace.Compare(parse(t, "truth", c.truth), parse(t, "model", c.body))
		if d := cmp.Diff(c.want, countsOf(r), cmp.AllowUnexported(counts{})); d != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, d)
		}
		checkFirst(t, c.name, r.FirstDiff, c.kind, c.index, c.why)
	}
}

func checkFirst(t *testing.T, name string, d *trace.Diff, kind trace.Kind, index int, why string) {
	t.Helper()
	switch {
	case d == nil && kind == "":
	case d == nil || d.Kind != kind || d.Index != index:
		t.Errorf("%s: first difference %+v, want %s at %d", name, d, kind, index)
	case !strings.Contains(d.Why, why):
		t.Errorf("%s: %q, want %q in it", name, d.Why, why)
	}
}

// TestCompareTruncated: where the truth holds only the beginning of its run,
// what the model sends later is no difference.
func TestCompareTruncated(t *testing.T) {
	truth := load(t, "o06_cubic_100m_10ms.612")
	half := alter(truth, func(p []trace.Packet) []trace.Packet { return p[:len(p)/2] })
	if r := trace.Compare(half, truth); r.FirstDiff == nil || r.FirstDiff.Kind != trace.KindExtra || r.AfterEnd != 0 {
		t.Errorf("whole: %+v", r.FirstDiff)
	}
	half.Lines = append(slices.Clone(half.Lines), trace.HeaderLine{Key: "lines", Value: "file truncated"})
	half.Lines = slices.DeleteFunc(half.Lines, func(l trace.HeaderLine) bool { return l.Key == "lines" && l.Value != "file truncated" })
	r := trace.Compare(half, truth)
	if r.FirstDiff != nil || r.OnlyModel != 0 || r.AfterEnd == 0 || r.EqualTime != r.Packets {
		t.Errorf("truncated: %+v %+v", countsOf(r), r.FirstDiff)
	}
	for _, s := range r.Sizes {
		if s.Model > s.Truth {
			t.Errorf("length %d: %d of the model, %d of the truth", s.Len, s.Model, s.Truth)
		}
	}
}

func TestLag(t *testing.T) {
	truth := load(t, "o12_virtio_w1024_n1_q1.61")
	model := alter(truth, func(p []trace.Packet) []trace.Packet {
		p = slices.DeleteFunc(p, func(q trace.Packet) bool { return q.Ack || q.Len == 0 })
		for i := range p {
			p[i].TNs += 256
		}
		p[len(p)-1].TNs += 1e6
		p[200].TNs -= 512
		return p
	})
	r := trace.Compare(truth, model)
	want := trace.Lag{Packets: r.Packets, P50: 256, P99: 256, Max: 1e6 + 256, MaxAt: r.Packets - 1, Earlier: 1, Later: r.Packets - 1}
	if d := cmp.Diff(want, r.Lag); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if r.Within != r.Packets-1 || r.EqualTime != 0 {
		t.Errorf("within %d, equal time %d of %d", r.Within, r.EqualTime, r.Packets)
	}
}

// anyTrace draws a trace with retransmissions.
func anyTrace(t *rapid.T) *trace.Trace {
	tr := &trace.Trace{}
	next := make([]uint32, 3)
	now := int64(0)
	for range rapid.IntRange(1, 60).Draw(t, "packets") {
		now += int64(rapid.IntRange(1, 5000).Draw(t, "gap"))
		p := trace.Packet{Stop: trace.StopUnknown, TracePacket: vmtest.TracePacket{TNs: now, Flow: rapid.IntRange(0, 2).Draw(t, "flow")}}
		p.Seq, p.Len = next[p.Flow], rapid.IntRange(1, 3).Draw(t, "segments")*1000
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			p.Ack, p.Len = true, 0
		case 1:
			p.Seq -= min(p.Seq, uint32(p.Len))
		default:
			next[p.Flow] += uint32(p.Len)
		}
		tr.Packets = append(tr.Packets, p)
	}
	return tr
}

// TestCompareFinds: a trace equals itself, and the one packet that is shifted or
// cut is found.
func TestCompareFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		truth := anyTrace(t)
		if r := trace.Compare(truth, truth); r.EqualTime != r.Packets || r.FirstDiff != nil || r.OnlyModel != 0 {
			t.Fatalf("differs from itself: %+v", r.FirstDiff)
		}
		var data []int
		for i, p := range truth.Packets {
			if !p.Ack {
				data = append(data, i)
			}
		}
		if len(data) == 0 {
			return
		}
		index := rapid.IntRange(0, len(data)-1).Draw(t, "index")
		shift := rapid.Int64Range(1, 10000).Draw(t, "shift")
		cut := rapid.Bool().Draw(t, "cut")
		model := alter(truth, func(p []trace.Packet) []trace.Packet {
			if cut {
				p[data[index]].Len--
			} else {
				p[data[index]].TNs += shift
			}
			return p
		})
		checkFound(t, trace.Compare(truth, model), index, cut, time.Duration(shift))
	})
}

func checkFound(t *rapid.T, r *trace.Report, index int, cut bool, shift time.Duration) {
	want := counts{r.Packets, r.Packets, r.Packets - 1, r.Packets, 0, 0, 0, 0}
	kind := trace.KindTime
	if shift > trace.Tolerance {
		want.within--
	}
	if cut {
		want = counts{r.Packets, r.Packets - 1, r.Packets - 1, r.Packets - 1, 1, 0, 0, 0}
		kind = trace.KindLength
	}
	if d := cmp.Diff(want, countsOf(r), cmp.AllowUnexported(counts{})); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	if d := r.FirstDiff; d == nil || d.Kind != kind || d.Index != index {
		t.Fatalf("%+v, want %s at %d", d, kind, index)
	}
}

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		lens []int
		want string
	}{
		{nil, ""},
		{[]int{5}, "5"},
		{[]int{5, 5}, "5 5"},
		{[]int{5, 5, 5}, "5 ×3"},
		{[]int{1, 2, 3, 8, 9, 8, 9, 8, 9, 7}, "1 2 3, (8 9) ×3, 7"},
		{[]int{1, 1, 2, 1, 1, 2}, "(1 1 2) ×2"},
	} {
		var words []string
		for _, r := range trace.Runs(c.lens) {
			words = append(words, r.String())
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("%v: %q, want %q", c.lens, got, c.want)
		}
	}
}

// TestRunsAreTheSequence: what is gathered can be laid out again.
func TestRunsAreTheSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lens := rapid.SliceOfN(rapid.IntRange(1, 3), 0, 60).Draw(t, "lens")
		back := []int{}
		for _, r := range trace.Runs(lens) {
			for range r.Times {
				back = append(back, r.Lens...)
			}
		}
		if !slices.Equal(back, lens) {
			t.Fatalf("%v from %v", back, lens)
		}
	})
}
