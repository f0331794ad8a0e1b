package vmtest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
)

// A run without a device has null for what a device counts, and no key less.
func TestNoDevice(t *testing.T) {
	r := vmtest.Run{Totals: vmtest.Totals{Packets: 7}, Queues: []vmtest.Queue{{Dir: "tx", Packets: 7}}, Series: []vmtest.Sample{{Packets: 7}}}
	keys := func(at string) (all, null []string) {
		r.MeasuredAt = at
		text, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		for _, part := range []any{tree["totals"], tree["queues"].([]any)[0], tree["series"].([]any)[0]} {
			for name, v := range part.(map[string]any) {
				if all = append(all, name); v == nil && !strings.HasSuffix(name, "hist") {
					null = append(null, name)
				}
			}
		}
		return all, null
	}
	device, known := keys(vmtest.MeasuredAtDevice)
	guest, unknown := keys(vmtest.MeasuredAtGuest)
	if len(guest) != len(device) {
		t.Errorf("%d keys without a device, %d with one", len(guest), len(device))
	}
	if n := len(unknown) - len(known); n != 19 {
		t.Errorf("%d figures more are null without a device, want 19: %v", n, unknown)
	}
	text, _ := json.Marshal(r)
	var back vmtest.Run
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v; want %+v", back, err, r)
	}
}
