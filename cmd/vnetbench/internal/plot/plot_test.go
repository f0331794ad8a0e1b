package plot_test

import (
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/plot"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
	"github.com/vnetbench/vnetbench/vmtest"
)

// cells makes a sweep whose mean GSO size tells the cell.
func cells(axes ...vmtest.Axis) (sweep.Header, []sweep.Done) {
	n := 1
	for _, a := range axes {
		n *= len(a.Values)
	}
	var done []sweep.Done
	for i := range n {
		r := vmtest.Run{Axes: map[string]string{}, Totals: vmtest.Totals{GSOMeanBytes: float64(1111 + i), KicksPerMB: 1}}
		k := i
		for a := len(axes) - 1; a >= 0; a-- {
			v := axes[a].Values
			r.Axes[axes[a].Key] = v[k%len(v)]
			k /= len(v)
		}
		done = append(done, sweep.Done{Cell: i, Run: r})
	}
	return sweep.Header{Name: "test", Axes: axes, Cells: n}, done
}

func TestEveryCellIsInThePicture(t *testing.T) {
	h, done := cells(vmtest.Axis{Key: "queue_pairs", Values: []string{"1", "2"}}, vmtest.Axis{Key: "kernel", Values: []string{"6.1", "6.12"}},
		vmtest.Axis{Key: "write", Values: []string{"256", "1k", "64k"}})
	files, err := plot.Sweep(t.TempDir(), h, done, plot.Formats)
	if err != nil || len(files) != 8 {
		t.Fatalf("files %v, error %v; want heat maps and curves of two figures, in two formats", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, ".png") {
			decode(t, f)
		}
		if !strings.HasSuffix(f, "heat.gso_mean_bytes.svg") {
			continue
		}
		for _, want := range []string{">1111<", ">1122<", "kernel=6.12", ">64k<", "queue_pairs"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s", f, want)
			}
		}
	}
}

func decode(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := png.Decode(f); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

func TestOneAxisAndMissingCells(t *testing.T) {
	h, done := cells(vmtest.Axis{Key: "flows", Values: []string{"1", "2", "3", "4"}})
	if _, err := plot.Sweep(t.TempDir(), h, done[:2], plot.Formats); err != nil {
		t.Error(err)
	}
	if _, err := plot.Sweep(t.TempDir(), h, nil, plot.Formats); err == nil {
		t.Error("a sweep without cells was drawn")
	}
}

func TestResult(t *testing.T) {
	q := vmtest.Queue{Dir: "tx", GSOHist: map[string]int64{"1024": 30, "32768": 10}}
	r := &vmtest.Result{Runs: []vmtest.Run{{Label: "first", Queues: []vmtest.Queue{q}, Series: []vmtest.Sample{{TNs: 1e6}, {TNs: 2e6, Bytes: 5e6}}}, {Label: "second"}}}
	files, err := plot.Result(t.TempDir(), "r", r, []string{".svg"})
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, error %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">first<", ">second<", ">32768<", "Gbit/s"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if _, err := plot.Result(t.TempDir(), "r", &vmtest.Result{}, plot.Formats); err == nil {
		t.Error("a result without runs was drawn")
	}
}
