package sweep

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Errors of files of cells.
var (
	ErrFile    = errors.New("no file of cells")
	ErrOther   = errors.New("cells of another sweep")
	ErrMissing = errors.New("cells are missing")
)

// Header is the first line of a file of cells: what was swept.
type Header struct {
	Schema      string        `json:"schema"`
	Name        string        `json:"name"`
	Guest       string        `json:"guest"`
	Fingerprint string        `json:"fingerprint"` // of the base and the axes
	Axes        []vmtest.Axis `json:"axes"`
	Cells       int           `json:"cells"` // of the whole sweep
}

// Done is a cell that was run: a line of the file.
type Done struct {
	Cell int        `json:"cell"`
	Run  vmtest.Run `json:"run"`
}

// Header describes the sweep.
func (s *Spec) Header() Header {
	return Header{Schema, s.Name, s.Guest, s.Fingerprint(), s.Axes, s.Len()}
}

// Read reads a file of cells, in the order of the cells. A last line that was cut
// short is left out, since a process that dies leaves one.
func Read(name string) (Header, []Done, error) {
	var h Header
	text, err := os.ReadFile(name)
	if err != nil {
		return h, nil, err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if err := json.Unmarshal(lines[0], &h); err != nil || h.Schema != Schema {
		return h, nil, fmt.Errorf("%w: %s: the first line is no header of %s", ErrFile, name, Schema)
	}
	seen := map[int]bool{}
	var out []Done
	for i, line := range lines[1:] {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var d Done
		if err := json.Unmarshal(line, &d); err != nil {
			return h, nil, fmt.Errorf("%w: %s line %d: %w", ErrFile, name, i+2, err)
		}
		if d.Cell < 0 || d.Cell >= h.Cells || seen[d.Cell] {
			return h, nil, fmt.Errorf("%w: %s line %d: cell %d is there twice, or beyond the %d of the sweep", ErrFile, name, i+2, d.Cell, h.Cells)
		}
		seen[d.Cell] = true
		out = append(out, d)
	}
	byCell(out)
	return h, out, nil
}

func byCell(d []Done) { slices.SortFunc(d, func(a, b Done) int { return cmp.Compare(a.Cell, b.Cell) }) }

// WriteLines writes a file of cells: the header, and a line for each cell in order.
func WriteLines(w io.Writer, h Header, done []Done) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	if err := e.Encode(h); err != nil {
		return err
	}
	for i := range done {
		if err := e.Encode(&done[i]); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Replace writes a file anew; it appears when it is complete.
func Replace(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Merge joins shards: the cells of one sweep, each once, in order. With
// incomplete, cells may be missing.
func Merge(names []string, incomplete bool) (Header, []Done, error) {
	var all []Done
	var first Header
	from := map[int]string{}
	for i, name := range names {
		h, done, err := Read(name)
		if err != nil {
			return h, nil, err
		}
		if i == 0 {
			first = h
		}
		if h.Fingerprint != first.Fingerprint {
			return h, nil, fmt.Errorf("%w: %s is of %s (%s), %s of %s (%s)", ErrOther, name, h.Name, h.Fingerprint, names[0], first.Name, first.Fingerprint)
		}
		for _, d := range done {
			if other, ok := from[d.Cell]; ok {
				return h, nil, fmt.Errorf("%w: cell %d is in %s and in %s; give each shard once", ErrFile, d.Cell, other, name)
			}
			from[d.Cell] = name
		}
		all = append(all, done...)
	}
	byCell(all)
	if len(all) < first.Cells && !incomplete {
		return first, all, fmt.Errorf("%w: %d of %d are there, the first missing is cell %d; add its shard, or --incomplete", ErrMissing, len(all), first.Cells, firstMissing(all))
	}
	return first, all, nil
}

func firstMissing(done []Done) int {
	for i, d := range done {
		if d.Cell != i {
			return i
		}
	}
	return len(done)
}
