package calibrate_test

import (
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/calibrate"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

// TestEveryMeasurementEnds makes each once with all its rounds: the figure is
// between the smallest and the largest, and not nothing.
func TestEveryMeasurementEnds(t *testing.T) {
	for _, m := range calibrate.Measurements() {
		v, err := m.Run()
		if err != nil {
			t.Fatal(err)
		}
		if v.Median <= 0 || v.Min > v.Median || v.Max < v.Median {
			t.Errorf("%s.%s: median %v of %v to %v", v.Side, v.Name, v.Median, v.Min, v.Max)
		}
	}
}

// TestEntriesExist holds the names against those of the tables.
func TestEntriesExist(t *testing.T) {
	var values []calibrate.Value
	for _, m := range calibrate.Measurements() {
		if _, ok := vcpu.OpByName(m.Name); m.Side == "guest" && !ok {
			t.Errorf("no guest has the cost %s", m.Name)
		}
		values = append(values, calibrate.Value{Measurement: m, Median: 10, Min: 9, Max: 11})
	}
	f := calibrate.File(values, "a machine", "2026-01-02", "a command")
	wake := f.Host["wake"]
	if wake.NS != 10 || wake.Kind != vmtest.CostMeasured || !strings.Contains(wake.Note, "a machine, 2026-01-02, a command") {
		t.Errorf("wake is %+v", wake)
	}
	for name := range calibrate.NotMeasured() {
		side, entry, _ := strings.Cut(name, ".")
		if _, ok := vcpu.OpByName(entry); side == "guest" && !ok {
			t.Errorf("%s is no cost", name)
		}
	}
}
