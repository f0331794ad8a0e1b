package vmtest

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/BurntSushi/toml"
)

// DecodeAxes reads the file of a sweep: a scenario file in which any key may have
// an array of values. Each array is an axis, in the file's order; all else is the
// base. The key scenario names the plan whose base scenario stands below, before
// what the file sets; name names the sweep. file is used in errors only.
func DecodeAxes(file string, text []byte) (Scenario, []Axis, error) {
	var tree map[string]any
	md, err := toml.Decode(string(text), &tree)
	if err != nil {
		return Scenario{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	base, err := baseOf(tree)
	if err != nil {
		return base, nil, fmt.Errorf("%s: %w", file, err)
	}
	arrays := map[string][]string{}
	if err := takeArrays(arrays, "", tree); err != nil {
		return base, nil, fmt.Errorf("%s: %w", file, err)
	}
	base, err = fromTree(base, file, tree)
	if err != nil {
		return base, nil, err
	}
	axes := inOrder(md.Keys(), arrays)
	for _, a := range axes {
		if err := a.check(base); err != nil {
			return base, nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return base, axes, nil
}

// baseOf takes the key scenario out of the tree and returns what it names.
func baseOf(tree map[string]any) (Scenario, error) {
	v, ok := tree["scenario"]
	if !ok {
		return Default(), nil
	}
	name, ok := v.(string)
	if !ok {
		return Scenario{}, fmt.Errorf("scenario: a %T is no name; write one such as \"mq-small-packets\"", v)
	}
	delete(tree, "scenario")
	p, err := PlanByName(name)
	return p.Base, err
}

// takeArrays moves the arrays of values out of the tree.
func takeArrays(out map[string][]string, prefix string, tree map[string]any) error {
	for k, v := range tree {
		key := join(prefix, k)
		switch v := v.(type) {
		case map[string]any:
			if err := takeArrays(out, key, v); err != nil {
				return err
			}
		case []any:
			values, err := texts(key, v)
			if err != nil {
				return err
			}
			out[key] = values
			delete(tree, k)
		}
	}
	return nil
}

// texts writes the values of an array as the keys of a scenario read them.
func texts(key string, values []any) ([]string, error) {
	if len(values) == 0 {
		return nil, fmt.Errorf("%s: an empty array; give at least one value", key)
	}
	out := make([]string, len(values))
	for i, v := range values {
		flat := map[string]string{}
		if err := flatten(flat, key, v); err != nil {
			return nil, err
		}
		t, ok := flat[key]
		if !ok {
			return nil, fmt.Errorf("%s: value %d of the array is a %T; write text, numbers, or true and false", key, i+1, v)
		}
		out[i] = t
	}
	return out, nil
}

// inOrder returns the axes as the file has them.
func inOrder(keys []toml.Key, arrays map[string][]string) []Axis {
	var out []Axis
	for _, k := range keys {
		name := ""
		for _, part := range k {
			name = join(name, part)
		}
		if values, ok := arrays[name]; ok {
			out = append(out, Axis{name, values})
			delete(arrays, name)
		}
	}
	return out
}

// check tries every value on the base.
func (a Axis) check(base Scenario) error {
	for i, v := range a.Values {
		probe := base.Clone()
		if err := probe.Set(a.Key, v); err != nil {
			return fmt.Errorf("value %s: %w", strconv.Quote(v), err)
		}
		if slices.Contains(a.Values[:i], v) {
			return fmt.Errorf("%s: %s is there twice; each value makes one cell", a.Key, strconv.Quote(v))
		}
	}
	return nil
}
