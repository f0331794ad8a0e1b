package vmtest

import "fmt"

// ScenarioOf returns the scenario of a run of the result, so that it can be run
// again, or with changes. An error says which setting cannot be restored.
func (r *Result) ScenarioOf(i int) (Scenario, error) {
	run := &r.Runs[i]
	s := r.Scenario.Clone()
	s.Kernel, s.Release = run.Kernel, run.Release
	s.Remedies = append([]string{}, run.Remedies...)
	for _, st := range run.Settings {
		if err := s.Set(st.Key, st.Value); err != nil {
			return s, fmt.Errorf("run %s: %w", run.Label, err)
		}
	}
	for key, v := range run.Axes {
		if key == "case" {
			continue
		}
		if err := s.Set(key, v); err != nil {
			return s, fmt.Errorf("run %s: %w", run.Label, err)
		}
	}
	return s, nil
}

// CountExcess sets SmallExcess, for packets of at most the given payload.
func (q *Queue) CountExcess(most int64) {
	if q.Dir != "tx" || most <= 0 {
		return
	}
	q.SmallExcess = max(0, q.DataPackets()-(q.Bytes+most-1)/most)
}

// DataPackets is the number of packets with payload.
func (q *Queue) DataPackets() (n int64) {
	for bucket, count := range q.GSOHist {
		if bucket != "0" {
			n += count
		}
	}
	return n
}
