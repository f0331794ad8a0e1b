package netdev_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

func TestHist(t *testing.T) {
	var h netdev.Hist
	for _, v := range []uint64{0, 0, 1, 2, 3, 4, 1447, 1448, 2048, 1 << 63} {
		h.Add(v)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"0":2,"1":1,"2":2,"4":1,"1024":2,"2048":1,"549755813888":1}`
	if string(b) != want {
		t.Errorf("histogram %s, want %s", b, want)
	}
	if h.N != 10 {
		t.Errorf("%d values, want 10", h.N)
	}
	for i := 1; i < netdev.HistBuckets; i++ {
		var one netdev.Hist
		one.Add(netdev.LowerBound(i))
		one.Add(netdev.LowerBound(i+1) - 1)
		if one.Buckets[i] != 2 {
			t.Errorf("bucket %d does not hold [%d, %d)", i, netdev.LowerBound(i), netdev.LowerBound(i+1))
		}
	}
	var none netdev.Hist
	if none.Mean() != 0 {
		t.Errorf("mean of nothing is %v", none.Mean())
	}
	none.Add(3)
	none.Add(4)
	if none.Mean() != 3.5 {
		t.Errorf("mean %v, want 3.5", none.Mean())
	}
}

// TestStatsCombine fills every field, so that Merge and Sub cannot forget one
// that is added later.
func TestStatsCombine(t *testing.T) {
	var a netdev.Stats
	n := uint64(0)
	fillUints(reflect.ValueOf(&a).Elem(), &n)
	sum := a
	sum.Merge(&a)
	back := sum
	back.Sub(&a)
	if d := cmp.Diff(a, back); d != "" {
		t.Errorf("a+a-a (-want +got):\n%s", d)
	}
	var twice netdev.Stats
	n = 0
	fillUints(reflect.ValueOf(&twice).Elem(), &n)
	doubleUints(reflect.ValueOf(&twice).Elem())
	if d := cmp.Diff(twice, sum); d != "" {
		t.Errorf("a+a (-want +got):\n%s", d)
	}
	sum.Sub(&a)
	sum.Sub(&a)
	if d := cmp.Diff(netdev.Stats{}, sum); d != "" {
		t.Errorf("a+a-a-a (-want +got):\n%s", d)
	}
}

// fillUints sets every integer of v to a value of its own.
func fillUints(v reflect.Value, n *uint64) {
	walkUints(v, func(f reflect.Value) { *n++; f.SetUint(*n) })
}

func doubleUints(v reflect.Value) {
	walkUints(v, func(f reflect.Value) { f.SetUint(2 * f.Uint()) })
}

func walkUints(v reflect.Value, do func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			walkUints(field, do)
		}
	case reflect.Array:
		for i := range v.Len() {
			walkUints(v.Index(i), do)
		}
	default:
		do(v)
	}
}

func TestStatsJSON(t *testing.T) {
	w := newWorld(t, setup{})
	w.send(0, virtio.NetHdr{}, build(fromGuest(0, 1448)))
	w.send(0, virtio.NetHdr{Flags: virtio.HdrNeedsCSum, CSumStart: 60000}, build(fromGuest(0, 10)))
	w.pollTX(0, netdev.Budget{})
	b, err := json.Marshal(w.dev.Pair(0).TX.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	if len(m) != reflect.TypeFor[netdev.Stats]().NumField() {
		t.Errorf("%d keys, want one per field", len(m))
	}
	for key, want := range map[string]any{
		"packets": 1.0, "kicks": 1.0, "calls": 1.0, "payload_bytes": 1448.0,
		"drops":    map[string]any{"bad_csum": 1.0},
		"gso_size": map[string]any{"1024": 1.0},
	} {
		if d := cmp.Diff(want, m[key]); d != "" {
			t.Errorf("%s (-want +got):\n%s", key, d)
		}
	}
}

// TestNames: every reason has a name of its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range len(netdev.Drops{}) {
		name := netdev.DropReason(r).String()
		if name == "" || seen[name] {
			t.Errorf("reason %d has the name %q", r, name)
		}
		seen[name] = true
	}
	for r := range len(netdev.Suppressed{}) {
		name := netdev.CallReason(r).String()
		if name == "" || seen["call "+name] {
			t.Errorf("call reason %d has the name %q", r, name)
		}
		seen["call "+name] = true
	}
	for _, d := range []netdev.Dir{netdev.DirRX, netdev.DirTX, netdev.DirCtrl} {
		if d.String() == "" || seen["dir "+d.String()] {
			t.Errorf("direction %d has the name %q", d, d)
		}
		seen["dir "+d.String()] = true
	}
}

// TestFailedCall: a call that failed is counted apart, and the packets wait
// for the one that is delivered.
func TestFailedCall(t *testing.T) {
	w := newWorld(t, setup{off: virtio.FeatureEventIdx})
	p := w.dev.Pair(0)
	for i := range 3 {
		w.send(0, virtio.NetHdr{}, build(fromGuest(0, 10)))
		if _, call, _ := p.TX.Poll(w.now, netdev.Budget{}); !call.Needed {
			t.Fatal("no call needed")
		}
		w.now += 100
		var err error
		if i < 2 {
			err = errors.New("no call descriptor")
		}
		p.CallResult(w.now, netdev.DirTX, err)
	}
	s := p.TX.Snapshot()
	if s.Calls != 1 || s.CallsFailed != 2 || s.PacketsPerCall.Sum != 3 || s.UsedToCall.Sum != 300 {
		t.Errorf("%d calls, %d failed, %d packets a call, %d ns", s.Calls, s.CallsFailed, s.PacketsPerCall.Sum, s.UsedToCall.Sum)
	}
}

// TestKickWithoutRing: kicks of a queue that is not attached are counted.
func TestKickWithoutRing(t *testing.T) {
	w := newWorld(t, setup{noTX: true})
	w.dev.Pair(0).Kick(w.now, netdev.DirTX, 3)
	w.dev.Pair(0).Kick(w.now, netdev.DirTX, 0)
	if s := w.dev.Pair(0).TX.Snapshot(); s.Kicks != 3 || s.Wakes != 1 || s.KicksCoalesced != 2 {
		t.Errorf("kicks %d wakes %d coalesced %d, want 3, 1, 2", s.Kicks, s.Wakes, s.KicksCoalesced)
	}
}
