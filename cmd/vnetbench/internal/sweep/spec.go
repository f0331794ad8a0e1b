// Package sweep makes the runs of a matrix of scenarios, side by side, keeps what
// is done in a file so that a sweep that was cut short goes on, splits a sweep into
// shards and joins them again. It prints nothing and catches no signal: its caller
// does.
package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// Schema names the layout of the file of cells.
const Schema = "vnetbench-sweep/1"

// MaxCells bounds a sweep: more is a mistake in the file.
const MaxCells = 1 << 20

// Spec is a matrix of scenarios: a base and the axes that span the cells, the
// first outermost. It is not changed once made.
type Spec struct {
	Name  string
	Guest string // sim, uml or qemu
	Base  vmtest.Scenario
	Axes  []vmtest.Axis
}

// Cell is one point of the matrix.
type Cell struct {
	Index    int      // position in the sweep, from 0
	Values   []string // on the axes, in their order
	Scenario vmtest.Scenario
}

// Parse reads the file of a sweep for a kind of guest; vmtest.DecodeAxes has its
// form. name is the file's, for errors.
func Parse(name, guest string, text []byte) (*Spec, error) {
	base, axes, err := vmtest.DecodeAxes(name, text)
	if err != nil {
		return nil, err
	}
	if len(axes) == 0 {
		return nil, fmt.Errorf("%s: no key has an array of values, so there is nothing to sweep; write one such as write = [\"256\", \"1k\"], or use run", name)
	}
	s := &Spec{Name: base.Name, Guest: guest, Base: base, Axes: axes}
	if n := s.Len(); n > MaxCells {
		return nil, fmt.Errorf("%s: %d cells; at most %d can be swept", name, n, MaxCells)
	}
	return s, nil
}

// Len is the number of cells, MaxCells+1 if there are more than MaxCells.
func (s *Spec) Len() int {
	n := 1
	for _, a := range s.Axes {
		if n *= len(a.Values); n > MaxCells {
			return MaxCells + 1
		}
	}
	return n
}

// Cell returns cell i of 0..Len()-1.
func (s *Spec) Cell(i int) (Cell, error) {
	c := Cell{Index: i, Values: make([]string, len(s.Axes)), Scenario: s.Base.Clone()}
	for k := len(s.Axes) - 1; k >= 0; k-- {
		v := s.Axes[k].Values
		c.Values[k] = v[i%len(v)]
		i /= len(v)
	}
	for k, a := range s.Axes {
		if err := c.Scenario.Set(a.Key, c.Values[k]); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Label names a cell by its values.
func (s *Spec) Label(c Cell) string {
	parts := make([]string, len(c.Values))
	for i, v := range c.Values {
		parts[i] = s.Axes[i].Key + "=" + v
	}
	return strings.Join(parts, " ")
}

// Fingerprint is equal for two sweeps if their cells are.
func (s *Spec) Fingerprint() string {
	text, err := json.Marshal(struct {
		Schema, Guest string
		Base          vmtest.Scenario
		Axes          []vmtest.Axis
	}{Schema, s.Guest, s.Base, s.Axes})
	if err != nil {
		panic(fmt.Sprintf("sweep: a scenario cannot be written as JSON: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
