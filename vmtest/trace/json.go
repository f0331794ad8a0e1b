package trace

import (
	"encoding/json"
	"io"
)

// reportJSON is a report's short form, one element of the list of WriteCheckJSON.
type reportJSON struct {
	Trace     string `json:"trace"`
	Variant   string `json:"variant,omitempty"`
	Packets   int    `json:"packets"`
	EqualLen  int    `json:"equal_len"`
	EqualTime int    `json:"equal_time"`
	Within    int    `json:"within_2us"`
	FirstDiff *Diff  `json:"first_diff"`
}

func (r *Report) short() reportJSON {
	return reportJSON{r.Trace, r.Variant, r.Packets, r.EqualLen, r.EqualTime, r.Within, r.FirstDiff}
}

// fullJSON is what WriteJSON writes beside the short form.
type fullJSON struct {
	reportJSON
	Model     string     `json:"model"`
	OtherLen  int        `json:"other_len"`
	OnlyTruth int        `json:"only_truth"`
	OnlyModel int        `json:"only_model"`
	AfterEnd  int        `json:"model_after_end"`
	FirstLate *Diff      `json:"first_late"`
	FirstTime *Diff      `json:"first_time"`
	Lag       lagJSON    `json:"lag_ns"`
	Sizes     []SizePair `json:"sizes"`
}

type lagJSON struct {
	P50     int64 `json:"p50"`
	P99     int64 `json:"p99"`
	Max     int64 `json:"max"`
	MaxAt   int   `json:"max_at"`
	Earlier int   `json:"earlier"`
	Later   int   `json:"later"`
}

// WriteJSON writes the whole report as one JSON object: the keys of
// WriteCheckJSON and model, other_len, only_truth, only_model, model_after_end
// (counts in packets), first_late, first_time (as first_diff), lag_ns and sizes.
func (r *Report) WriteJSON(w io.Writer) error {
	f := fullJSON{reportJSON: r.short(), Model: r.Model, OtherLen: r.OtherLen, OnlyTruth: r.OnlyTruth, OnlyModel: r.OnlyModel,
		AfterEnd: r.AfterEnd, FirstLate: r.FirstLate, FirstTime: r.FirstTime, Sizes: r.Sizes}
	f.Lag = lagJSON{int64(r.Lag.P50), int64(r.Lag.P99), int64(r.Lag.Max), r.Lag.MaxAt, r.Lag.Earlier, r.Lag.Later}
	if f.Sizes == nil {
		f.Sizes = []SizePair{}
	}
	return encode(w, f)
}

// WriteCheckJSON writes several comparisons as a list of objects with the keys
// trace, packets, equal_len, equal_time, within_2us (counts in packets) and
// first_diff, null if there is none; and variant where the report has one.
func WriteCheckJSON(w io.Writer, reports []*Report) error {
	list := make([]reportJSON, len(reports))
	for i, r := range reports {
		list[i] = r.short()
	}
	return encode(w, list)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
