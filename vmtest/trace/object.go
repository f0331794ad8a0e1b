package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// setter takes the value of one key.
type setter func(json.RawMessage) error

// object takes a JSON object apart: each key's value goes to its setter. The
// keys of prefix+key stand in errors. It returns the keys that were there.
func object(raw []byte, prefix string, fields map[string]setter) (map[string]bool, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%w: %s%q is no JSON object", ErrScenario, at(prefix), clip(raw))
	}
	seen := map[string]bool{}
	for d.More() {
		if err := member(d, prefix, fields, seen); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: %sthe object has no end", ErrScenario, at(prefix))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: %stext stands behind the object", ErrScenario, at(prefix))
	}
	return seen, nil
}

func member(d *json.Decoder, prefix string, fields map[string]setter, seen map[string]bool) error {
	t, err := d.Token()
	key, ok := t.(string)
	if err != nil || !ok {
		return fmt.Errorf("%w: %swant a key in double quotes", ErrScenario, at(prefix))
	}
	set, known := fields[key]
	switch {
	case !known:
		return fmt.Errorf("%w: %w %q; the nearest is %q", ErrScenario, vmtest.ErrUnknownKey, clipString(prefix+key), prefix+vmtest.Nearest(clipString(key), sortedKeys(fields)))
	case seen[key]:
		return fmt.Errorf("%w: key %q stands twice", ErrScenario, prefix+key)
	}
	seen[key] = true
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return fmt.Errorf("%w: key %q: the value is not JSON", ErrScenario, prefix+key)
	}
	if err := set(raw); err != nil {
		return fmt.Errorf("key %q: %w", prefix+key, err)
	}
	return nil
}

// at names the object whose keys have the prefix.
func at(prefix string) string {
	if prefix == "" {
		return ""
	}
	return strings.TrimSuffix(prefix, ".") + ": "
}

func clipString(s string) string { return string(clip([]byte(s))) }

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// need refuses an object without one of the keys.
func need(seen map[string]bool, prefix, why string, keys ...string) error {
	for _, k := range keys {
		if !seen[k] {
			return fmt.Errorf("%w: key %q is missing%s", ErrScenario, prefix+k, why)
		}
	}
	return nil
}

// forbid refuses an object with one of the keys.
func forbid(seen map[string]bool, why string, keys ...string) error {
	for _, k := range keys {
		if seen[k] {
			return fmt.Errorf("%w: key %q%s", ErrScenario, k, why)
		}
	}
	return nil
}

// whole is a setter of an integer within bounds. A number such as 1e9 is one.
func whole[T ~int | ~int64](to *T, lo, hi int64) setter {
	return func(raw json.RawMessage) error {
		v, ok := integer(raw)
		if !ok || v < lo || v > hi {
			return fmt.Errorf("%w: %q: want a whole number from %d to %d", ErrScenario, clip(raw), lo, hi)
		}
		*to = T(v)
		return nil
	}
}

func integer(raw json.RawMessage) (int64, bool) {
	if v, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return v, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// flag is a setter of true or false, which 1 and 0 mean too.
func flag(to *bool) setter {
	return func(raw json.RawMessage) error {
		switch string(raw) {
		case "true", "1":
			*to = true
		case "false", "0":
			*to = false
		default:
			return fmt.Errorf("%w: %q: want true, false, 1 or 0", ErrScenario, clip(raw))
		}
		return nil
	}
}

// word is a setter of one of some texts; any text if there are none.
func word(to *string, valid ...string) setter {
	return func(raw json.RawMessage) error {
		var s string
		err := json.Unmarshal(raw, &s)
		if err != nil || s == "" || len(valid) > 0 && !slices.Contains(valid, s) {
			want := "a text"
			if len(valid) > 0 {
				want = "one of " + strings.Join(valid, ", ")
			}
			return fmt.Errorf("%w: %q: want %s", ErrScenario, clip(raw), want)
		}
		*to = s
		return nil
	}
}

// triple is a setter of three sizes that do not fall: least, start, most.
func triple(to *[3]vmtest.Bytes) setter {
	return func(raw json.RawMessage) error {
		var v []int64
		err := json.Unmarshal(raw, &v)
		if err != nil || len(v) != 3 || !slices.IsSorted(v) || v[0] < 1 || v[2] > math.MaxInt32 {
			return fmt.Errorf("%w: %q: want [least, start, most] in bytes, from 1 to %d", ErrScenario, clip(raw), math.MaxInt32)
		}
		*to = [3]vmtest.Bytes{vmtest.Bytes(v[0]), vmtest.Bytes(v[1]), vmtest.Bytes(v[2])}
		return nil
	}
}
