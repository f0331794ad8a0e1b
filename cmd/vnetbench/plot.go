package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/plot"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/sweep"
	"github.com/vnetbench/vnetbench/vmtest"
)

// plotCmd draws what other commands measured.
type plotCmd struct {
	Result string `arg:"" help:"A result (run --format json), or the cells of a sweep (.jsonl)."`
	Out    string `placeholder:"FILE" help:"For a result: the picture, .svg or .png (default: the result's name, both). For a sweep: the folder."`
}

// Run is the command.
func (c *plotCmd) Run(s *streams) error {
	draw := c.result
	if strings.HasSuffix(c.Result, ".jsonl") {
		draw = c.sweep
	}
	files, err := draw()
	for _, f := range files {
		fmt.Fprintln(s.out, f)
	}
	return err
}

func (c *plotCmd) result() ([]string, error) {
	r, err := readResult(c.Result)
	if err != nil {
		return nil, usage(err)
	}
	base, formats := strings.TrimSuffix(c.Result, ".json"), plot.Formats
	if c.Out != "" {
		ext := filepath.Ext(c.Out)
		if !slices.Contains(plot.Formats, ext) {
			return nil, usage(fmt.Errorf("--out %s: pictures end in .svg or .png", c.Out))
		}
		base, formats = strings.TrimSuffix(c.Out, ext), []string{ext}
	}
	return plot.Result(filepath.Dir(base), filepath.Base(base), r, formats)
}

func (c *plotCmd) sweep() ([]string, error) {
	h, done, err := sweep.Read(c.Result)
	if err != nil {
		return nil, usage(err)
	}
	dir := c.Out
	if dir == "" {
		dir = filepath.Dir(c.Result)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, usage(err)
	}
	return plot.Sweep(dir, h, done, plot.Formats)
}

// readResult reads what run --format json wrote.
func readResult(file string) (*vmtest.Result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r vmtest.Result
	if err := json.Unmarshal(text, &r); err != nil || r.Schema != vmtest.Schema {
		return nil, fmt.Errorf("%s: it is no result of vnetbench run --format json (schema %q, want %q)", file, r.Schema, vmtest.Schema)
	}
	if len(r.Runs) == 0 {
		return nil, errors.New(file + ": the result has no runs")
	}
	return &r, nil
}
