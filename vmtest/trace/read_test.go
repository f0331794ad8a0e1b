package trace_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/trace"
)

func TestReadOpenTraces(t *testing.T) {
	for _, path := range openTraces(t) {
		tr, err := trace.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := tr.Value("trace"); v != tr.Name {
			t.Errorf("%s: name %q, and its header says %q", path, tr.Name, v)
		}
		if tr.Scenario == nil || tr.MSS() == 0 || len(tr.Packets) < 50 {
			t.Errorf("%s: scenario %q, %d packets", path, tr.Scenario, len(tr.Packets))
		}
		if whole := len(tr.Packets) < 4900; whole == tr.Truncated() {
			t.Errorf("%s: %d packets, and truncated is %v", path, len(tr.Packets), tr.Truncated())
		}
	}
}

func TestReadPacket(t *testing.T) {
	tr := load(t, "o01_lock_big.61")
	got, want := tr.Packets[1], trace.Packet{Stop: trace.StopUnknown, Line: 31}
	want.TracePacket = vmtest.TracePacket{TNs: 1000448, Ack: true, AckNo: 1, Flags: skb.SYN | skb.ACK}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

const (
	head  = "# scenario\t{}\n"
	names = "t_ns\tdir\tflow\tseq\tack\tlen\tflags\n"
)

func TestReadRules(t *testing.T) {
	text := head + strings.TrimSuffix(names, "\n") + "\trule\tstop\n" +
		"1\ttx\t0\t1\t1\t10\tP.\tcwnd\ttsq\n2\ttx\t0\t11\t1\t10\t.\tnone\t-\n"
	tr, err := trace.Read("x", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if p := tr.Packets[0]; p.Rule != tcp.RuleCwnd || p.Stop != tcp.StopTSQ {
		t.Errorf("rule %v, stop %v", p.Rule, p.Stop)
	}
	if p := tr.Packets[1]; p.Rule != tcp.RuleNone || p.Stop != trace.StopUnknown {
		t.Errorf("rule %v, stop %v", p.Rule, p.Stop)
	}
}

func TestReadErrors(t *testing.T) {
	row := func(s string) string { return head + names + strings.ReplaceAll(s, " ", "\t") + "\n" }
	for _, c := range []struct {
		name, text string
		cause      error
		want       string
	}{
		{"empty", "", trace.ErrHeader, "x:1: bad header: a trace begins with lines # KEY<TAB>VALUE"},
		{"no header", names, trace.ErrHeader, "x:1:"},
		{"header without tab", "# scenario {}\n", trace.ErrHeader, `x:1: bad header: "# scenario {}": want # KEY<TAB>VALUE`},
		{"header without blank", "#a\tb\n", trace.ErrHeader, "x:1:"},
		{"scenario", "# scenario\t{\n", trace.ErrHeader, `x:1: bad header: line scenario: "{" is not JSON`},
		{"two scenarios", head + head, trace.ErrHeader, "x:2: bad header: a second line scenario"},
		{"only a header", head, trace.ErrCutOff, "x:1: cut off: the file ends with its header"},
		{"columns", head + "t_ns\tdir\n", trace.ErrLine, `x:2: bad line: want the names of the columns, "t_ns\tdir`},
		{"a column more", head + strings.TrimSuffix(names, "\n") + "\tcolour\n", trace.ErrLine, `column "colour"; after flags may stand rule and stop`},
		{"a column twice", head + strings.TrimSuffix(names, "\n") + "\trule\trule\n", trace.ErrLine, `column "rule"`},
		{"time", row("-1 tx 0 1 1 10 ."), trace.ErrLine, `x:3: bad line: t_ns "-1": want a number from 0 to 9223372036854775807`},
		{"time too large", row("9223372036854775808 tx 0 1 1 10 ."), trace.ErrLine, `t_ns "9223372036854775808"`},
		{"direction", row("1 rx 0 1 1 10 ."), trace.ErrLine, `x:3: bad line: dir "rx": want tx or ack`},
		{"flow", row("1 tx 9999999 1 1 10 ."), trace.ErrLine, `flow "9999999": want a number from 0 to 1048575`},
		{"seq", row("1 tx 0 4294967296 1 10 ."), trace.ErrLine, `seq "4294967296": want a number from 0 to 4294967295`},
		{"len", row("1 tx 0 1 1 ten ."), trace.ErrLine, `len "ten"`},
		{"flags", row("1 tx 0 1 1 10 PX"), trace.ErrLine, `flags "PX": want letters of FSRP.UEW`},
		{"flag twice", row("1 tx 0 1 1 10 PP"), trace.ErrLine, `flags "PP"`},
		{"a field less", row("1 tx 0 1 1"), trace.ErrLine, `len ""`},
		{"a field more", row("1 tx 0 1 1 10 . x"), trace.ErrLine, `line "x": want no more than 7 columns`},
		{"carriage return", row("1 tx 0 1 1 10 .\r"), trace.ErrLine, `flags ".\r"`},
		{"empty line", row(""), trace.ErrLine, `t_ns ""`},
		{"header line below", row("1 tx 0 1 1 10 .") + head, trace.ErrLine, `x:4: bad line: t_ns "# scenario"`},
		{"no line end", head + names + "1\ttx\t0\t1", trace.ErrCutOff, "x:3: cut off: the last line has no end"},
		{"many header lines", strings.Repeat("# a\tb\n", trace.MaxHeader+1), trace.ErrTooLarge, "x:4097: too large: a header has at most 4096 lines"},
		{"gzip magic only", "\x1f\x8b", trace.ErrCutOff, "x: gzip: cut off"},
		{"gzip with another method", "\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x00", gzip.ErrHeader, "x: gzip:"},
	} {
		_, err := trace.Read("x", strings.NewReader(c.text))
		if !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestReadTruncatedGzip cuts a trace at many places: always an error.
func TestReadTruncatedGzip(t *testing.T) {
	b, err := os.ReadFile("testdata/open/o03_iw_10ms.61.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		if _, err := trace.Read("x", bytes.NewReader(b[:n])); err == nil {
			t.Errorf("no error for %d of %d bytes", n, len(b))
		}
	}
}

// endless repeats a text and counts what was taken.
type endless struct {
	head  string
	text  string
	taken int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.head)
	e.head = e.head[n:]
	for n < len(b) {
		n += copy(b[n:], e.text)
	}
	e.taken += n
	return n, nil
}

// TestReadEndless: input without an end is given up.
func TestReadEndless(t *testing.T) {
	for _, r := range []*endless{{text: "#"}, {text: "1"}, {text: "# a\tb\n"}, {head: head + names, text: "1"}} {
		_, err := trace.Read("x", r)
		if !errors.Is(err, trace.ErrTooLarge) && !errors.Is(err, trace.ErrHeader) || r.taken > 3*trace.MaxLine {
			t.Errorf("%q: %v after %d bytes", r.text, err, r.taken)
		}
	}
}

// TestReadBomb: a small file that gzip makes large is given up too.
func TestReadBomb(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(head + names))
	z.Write(bytes.Repeat([]byte{'7'}, 8*trace.MaxLine))
	z.Close()
	if _, err := trace.Read("x", &b); !errors.Is(err, trace.ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
}

// TestReadHeader: what stands behind the header makes no difference, not even
// that it is garbage.
func TestReadHeader(t *testing.T) {
	tr := load(t, "o09_tsq_tbf200m.612")
	whole, err := trace.ReadHeaderFile("testdata/open/o09_tsq_tbf200m.612.tsv.gz")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&tr.Header, whole); d != "" {
		t.Errorf("the header alone is another: %s", d)
	}
	var text strings.Builder
	for _, l := range tr.Lines {
		text.WriteString("# " + l.Key + "\t" + l.Value + "\n")
	}
	for _, behind := range []string{"", "\x00\xff garbage", names + "1\t2\n", strings.Repeat("x", 3*trace.MaxLine)} {
		h, err := trace.ReadHeader("o09_tsq_tbf200m.612.tsv", strings.NewReader(text.String()+behind))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(whole, h); d != "" {
			t.Errorf("behind it %.10q: %s", behind, d)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

var errDisk = errors.New("disk on fire")

func TestReadFailing(t *testing.T) {
	_, err := trace.Read("x", io.MultiReader(strings.NewReader(head+names+"1\ttx"), failing{}))
	if !errors.Is(err, errDisk) || !strings.HasPrefix(err.Error(), "x:3: ") {
		t.Error(err)
	}
	if _, err := trace.ReadFile("testdata/none.tsv"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := trace.ReadHeaderFile("testdata/none.tsv"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestReadOwn reads what the project's writer wrote.
func TestReadOwn(t *testing.T) {
	var b bytes.Buffer
	s := vmtest.Default()
	s.MSS = 1000
	w, err := vmtest.NewTraceWriter(&b, s)
	if err != nil {
		t.Fatal(err)
	}
	want := []vmtest.TracePacket{
		{TNs: 0, Flow: 1, Flags: skb.SYN},
		{TNs: 7, Flow: 1, Ack: true, AckNo: 1, Flags: skb.SYN | skb.ACK},
		{TNs: 9, Flow: 1, Seq: 1, AckNo: 1, Len: 2000, Flags: skb.PSH | skb.ACK | skb.CWR},
		{TNs: 12, Flow: 1, Seq: 4294967295, AckNo: 1, Len: 1, Flags: skb.FIN | skb.ACK | skb.ECE | skb.RST},
	}
	for _, p := range want {
		w.Packet(p)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Read("dir/own.tsv", &b)
	if err != nil {
		t.Fatal(err)
	}
	var got []vmtest.TracePacket
	for _, p := range tr.Packets {
		got = append(got, p.TracePacket)
	}
	if d := cmp.Diff(want, got); d != "" || tr.Name != "own" || tr.MSS() != 1000 {
		t.Errorf("name %s, mss %d, packets (-want +got)\n%s", tr.Name, tr.MSS(), d)
	}
	back, x, err := trace.ScenarioOf(&tr.Header)
	if d := cmp.Diff(s, back); d != "" || x != nil || err != nil {
		t.Errorf("%v, %v: (-want +got)\n%s", err, x, d)
	}
}
