package vmtest

import (
	"fmt"
	"sort"
	"strconv"

	"github.com/BurntSushi/toml"
)

// Decode reads a scenario file: TOML whose keys are those of Keys, dots as
// tables, over base. Unknown keys are refused and the nearest name is offered;
// file is used in errors only.
func Decode(base Scenario, file string, text []byte) (Scenario, error) {
	var tree map[string]any
	if _, err := toml.Decode(string(text), &tree); err != nil {
		return base, fmt.Errorf("%s: %w", file, err)
	}
	return fromTree(base, file, tree)
}

// fromTree sets what the tree has over base.
func fromTree(base Scenario, file string, tree map[string]any) (Scenario, error) {
	flat := map[string]string{}
	if err := flatten(flat, "", tree); err != nil {
		return base, fmt.Errorf("%s: %w", file, err)
	}
	out := base.Clone()
	names := make([]string, 0, len(flat))
	for k := range flat {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		if k == "name" {
			out.Name = flat[k]
			continue
		}
		if err := out.Set(k, flat[k]); err != nil {
			return base, fmt.Errorf("%s: %w", file, err)
		}
	}
	return out, nil
}

// flatten turns nested tables into dotted keys. A table array named flow gives
// flow.0, flow.1 and so on; the model of a host table is the key host.
func flatten(out map[string]string, prefix string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if err := flatten(out, join(prefix, k), e); err != nil {
				return err
			}
		}
	case []map[string]any:
		for i, e := range v {
			if err := flatten(out, join(prefix, strconv.Itoa(i)), e); err != nil {
				return err
			}
		}
	case string:
		out[prefix] = v
	case bool:
		out[prefix] = map[bool]string{true: "on", false: "off"}[v]
	case int64:
		out[prefix] = strconv.FormatInt(v, 10)
	case float64:
		out[prefix] = strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Errorf("%s: a %T is no value of a scenario; write text, a number, or true or false", prefix, v)
	}
	return nil
}

func join(prefix, key string) string {
	switch {
	case prefix == "":
		return key
	case prefix == "host" && key == "model":
		return prefix
	}
	return prefix + "." + key
}
