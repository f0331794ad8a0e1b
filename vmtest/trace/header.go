package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Header is what stands before the packets of a trace.
type Header struct {
	Name     string          // the file's, without folder and endings
	Lines    []HeaderLine    // in their order
	Scenario json.RawMessage // of the line scenario, for FromLine; nil if there is none
	Own      json.RawMessage // of the line vnetbench: a vmtest.Scenario; nil if there is none
}

// HeaderLine is one line of the header.
type HeaderLine struct {
	Key, Value string
}

// Value returns the value of the first header line with the key.
func (h *Header) Value(key string) (string, bool) {
	for _, l := range h.Lines {
		if l.Key == key {
			return l.Value, true
		}
	}
	return "", false
}

// Truncated says whether the file holds only the first packets of its run: the
// header's line about the lines says so.
func (h *Header) Truncated() bool {
	v, _ := h.Value("lines")
	return strings.Contains(v, "truncated")
}

// MSS is the payload of a full segment in bytes as the scenario names it, or 0.
func (h *Header) MSS() int {
	raw := h.Scenario
	if raw == nil {
		raw = h.Own
	}
	var s struct {
		MSS int `json:"mss"`
	}
	if raw == nil || json.Unmarshal(raw, &s) != nil || s.MSS < 0 {
		return 0
	}
	return s.MSS
}

// add takes one line of the header.
func (h *Header) add(line []byte) error {
	rest, ok := bytes.CutPrefix(line, []byte("# "))
	key, value, tab := bytes.Cut(rest, []byte{'\t'})
	if !ok || !tab || len(key) == 0 {
		return fmt.Errorf("%w: %q: want # KEY<TAB>VALUE", ErrHeader, clip(line))
	}
	h.Lines = append(h.Lines, HeaderLine{string(key), string(value)})
	switch string(key) {
	case "scenario":
		return addJSON(&h.Scenario, string(key), value)
	case "vnetbench":
		return addJSON(&h.Own, string(key), value)
	}
	return nil
}

func addJSON(to *json.RawMessage, key string, value []byte) error {
	switch {
	case *to != nil:
		return fmt.Errorf("%w: a second line %s; a trace has one", ErrHeader, key)
	case !json.Valid(value):
		return fmt.Errorf("%w: line %s: %q is not JSON; want an object", ErrHeader, key, clip(value))
	}
	*to = bytes.Clone(value)
	return nil
}
