package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
	"github.com/vnetbench/vnetbench/vmtest"
)

const text = `
name = "test"
queue_pairs = [1, 2]
duration = "5ms"
write = ["256", "1k", "4k"]
[link]
delay = ["5us", "10us"]
`

func parse(t *testing.T, text string) *sweep.Spec {
	t.Helper()
	s, err := sweep.Parse("test.toml", "sim", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCellsInTheOrderOfTheFile(t *testing.T) {
	s := parse(t, text)
	if s.Name != "test" || s.Len() != 12 {
		t.Fatalf("sweep %q of %d cells", s.Name, s.Len())
	}
	c, err := s.Cell(7)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Label(c), "queue_pairs=2 write=256 link.delay=10us"; got != want {
		t.Errorf("cell 7 is %s, want %s", got, want)
	}
	if c.Scenario.QueuePairs != 2 || c.Scenario.Write != 256 || c.Scenario.Duration.Milliseconds() != 5 || c.Scenario.Link.Delay.Microseconds() != 10 {
		t.Errorf("cell 7 has %+v", c.Scenario)
	}
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`write = "1k"`, "nothing to sweep"},
		{`wriet = ["1k", "2k"]`, `"write"`},
		{`write = []`, "empty array"},
		{`write = ["1k", "lots"]`, `value "lots": write:`},
		{`write = ["1k", "1k"]`, "twice"},
		{`write = [["1k"]]`, "no value"},
		{`scenario = "mq-small-packet"`, "mq-small-packets"},
		{`write = ["1k"`, "test.toml"},
	} {
		_, err := sweep.Parse("test.toml", "sim", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func TestEveryCellIsInOneShard(t *testing.T) {
	for of := 1; of < 9; of++ {
		for cell := range 20 {
			n := 0
			for no := 1; no <= of; no++ {
				if (sweep.Shard{No: no, Of: of}).Has(cell) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("cell %d is in %d of %d shards", cell, n, of)
			}
		}
	}
}

func TestShardOfJobArrays(t *testing.T) {
	for _, c := range []struct {
		env    string
		shards int
		want   sweep.Shard
		err    string
	}{
		{"", 0, sweep.Shard{}, ""},
		{"", 4, sweep.Shard{}, "none of"},
		{"SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=8", 0, sweep.Shard{No: 3, Of: 8}, ""},
		{"SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_STEP=2 SLURM_ARRAY_TASK_COUNT=4", 0, sweep.Shard{No: 3, Of: 4}, ""},
		{"SLURM_ARRAY_TASK_ID=9 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=2", 0, sweep.Shard{}, "only arrays"},
		{"SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=1", 0, sweep.Shard{}, "SLURM_ARRAY_TASK_COUNT"},
		{"SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=2", 3, sweep.Shard{}, "--shards is 3"},
		{"JOB_COMPLETION_INDEX=0", 4, sweep.Shard{No: 1, Of: 4}, ""},
		{"JOB_COMPLETION_INDEX=4", 4, sweep.Shard{}, "0 to 3"},
		{"JOB_COMPLETION_INDEX=0", 0, sweep.Shard{}, ""},
		{"PARALLEL_SEQ=4", 4, sweep.Shard{No: 4, Of: 4}, ""},
		{"PARALLEL_SEQ=x", 4, sweep.Shard{}, "not a number"},
	} {
		env := map[string]string{}
		for f := range strings.FieldsSeq(c.env) {
			k, v, _ := strings.Cut(f, "=")
			env[k] = v
		}
		got, _, err := sweep.ShardOf(func(k string) string { return env[k] }, c.shards)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: shard %v, error %v; want %v", c.env, got, err, c.want)
		case c.err != "" && (!errors.Is(err, sweep.ErrShard) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: error %v, want one with %q", c.env, err, c.err)
		}
	}
	for _, bad := range []string{"", "1", "0/2", "3/2", "a/b", "1/0", "1/2/3"} {
		if _, err := sweep.ParseShard(bad); !errors.Is(err, sweep.ErrShard) {
			t.Errorf("ParseShard(%q): error %v", bad, err)
		}
	}
}

// fake is a guest whose runs end at once, until it shall fail.
type fake struct {
	vmtest.Guest
	made *int
	stop func(n int) error
}

func (f *fake) Check(vmtest.Scenario) error { return nil }

func (f *fake) Run(ctx context.Context, s vmtest.Scenario, o vmtest.Options) (*vmtest.Run, error) {
	*f.made++
	if f.stop != nil {
		if err := f.stop(*f.made); err != nil {
			return nil, err
		}
	}
	return &vmtest.Run{Totals: vmtest.Totals{PacketsPerMB: float64(s.QueuePairs) * float64(s.Write)}}, ctx.Err()
}

func config(t *testing.T, file string, made *int) *sweep.Config {
	return &sweep.Config{Spec: parse(t, text), File: file, Parallel: 1,
		NewGuest: func() vmtest.Guest { return &fake{made: made} }}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGoesOnAfterAnInterruption: the file of a sweep that was stopped, and whose
// last line was cut short, is the same in the end as that of one in one piece, and
// no cell is run twice.
func TestGoesOnAfterAnInterruption(t *testing.T) {
	dir, made := t.TempDir(), 0
	whole := config(t, filepath.Join(dir, "whole"), &made)
	if _, err := whole.Run(context.Background()); err != nil || made != 12 {
		t.Fatalf("%d runs, error %v", made, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cut := config(t, filepath.Join(dir, "cut"), &made)
	made = 0
	cut.NewGuest = func() vmtest.Guest {
		return &fake{made: &made, stop: func(n int) error {
			if n == 6 {
				stop()
			}
			return nil
		}}
	}
	done, err := cut.Run(ctx)
	if !errors.Is(err, context.Canceled) || len(done) != 5 {
		t.Fatalf("%d cells, error %v; want 5 and an interruption", len(done), err)
	}
	partial := read(t, cut.File)
	if err := os.WriteFile(cut.File, []byte(partial[:len(partial)-20]), 0o644); err != nil {
		t.Fatal(err)
	}
	made = 0
	if _, err := config(t, cut.File, &made).Run(context.Background()); err != nil || made != 8 {
		t.Errorf("%d runs, error %v; want 8: 4 of 12 were whole", made, err)
	}
	if d := cmp.Diff(read(t, whole.File), read(t, cut.File)); d != "" {
		t.Error(d)
	}
}

func TestFailedCellIsNamedAndTheOthersKept(t *testing.T) {
	made := 0
	c := config(t, filepath.Join(t.TempDir(), "cells"), &made)
	c.NewGuest = func() vmtest.Guest {
		return &fake{made: &made, stop: func(n int) error {
			if n == 3 {
				return errors.New("the guest fell over")
			}
			return nil
		}}
	}
	done, err := c.Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "queue_pairs=1 write=1k link.delay=5us") || len(done) != 2 {
		t.Errorf("%d cells, error %v", len(done), err)
	}
}

func TestMergedShardsAreTheWhole(t *testing.T) {
	dir, made := t.TempDir(), 0
	whole := config(t, filepath.Join(dir, "whole"), &made)
	if _, err := whole.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var files []string
	for no := 1; no <= 5; no++ {
		c := config(t, filepath.Join(dir, string(rune('a'+no))), &made)
		c.Shard = sweep.Shard{No: no, Of: 5}
		if _, err := c.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		files = append([]string{c.File}, files...)
	}
	h, done, err := sweep.Merge(files, false)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := sweep.WriteLines(&b, h, done); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(read(t, whole.File), b.String()); d != "" {
		t.Error(d)
	}
	if _, _, err := sweep.Merge(files[:4], false); !errors.Is(err, sweep.ErrMissing) || !strings.Contains(err.Error(), "cell 0") {
		t.Errorf("without the first shard: error %v", err)
	}
	if _, _, err := sweep.Merge(append(files, files[0]), false); !errors.Is(err, sweep.ErrFile) {
		t.Errorf("with a shard twice: error %v", err)
	}
}

func TestCellsOfAnotherSweepAreRefused(t *testing.T) {
	dir, made := t.TempDir(), 0
	a := config(t, filepath.Join(dir, "a"), &made)
	b := config(t, filepath.Join(dir, "b"), &made)
	b.Spec = parse(t, strings.Replace(text, "5ms", "6ms", 1))
	for _, c := range []*sweep.Config{a, b} {
		if _, err := c.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := sweep.Merge([]string{a.File, b.File}, false); !errors.Is(err, sweep.ErrOther) {
		t.Errorf("merge: error %v", err)
	}
	b.File = a.File
	if _, err := b.Run(context.Background()); !errors.Is(err, sweep.ErrOther) {
		t.Errorf("going on: error %v", err)
	}
	a.Shard = sweep.Shard{No: 2, Of: 3}
	if _, err := a.Run(context.Background()); !errors.Is(err, sweep.ErrOther) {
		t.Errorf("another shard: error %v", err)
	}
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	axes := []vmtest.Axis{{Key: "write", Values: []string{"1k"}}}
	run := vmtest.Run{MeasuredAt: vmtest.MeasuredAtGuest, Axes: map[string]string{"write": "1k"}, Totals: vmtest.Totals{GoodputBps: 2e9, GSOMeanBytes: 1448}}
	if err := sweep.CSV(&b, axes, []sweep.Done{{Cell: 3, Run: run}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if !strings.HasPrefix(lines[0], "cell,write,goodput_bps,gso_mean_bytes,") || !strings.HasPrefix(lines[1], "3,1k,2e+09,1448,0,0,,,,0,,,") {
		t.Errorf("got\n%s", b.String())
	}
}
