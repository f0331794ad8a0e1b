package proto_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

func TestRoundTrip(t *testing.T) {
	for _, m := range []proto.Message{
		{Kind: proto.Hello, Kernel: "6.1", CPUs: 2},
		{Kind: proto.Quiet, At: proto.AtStart, Snapshot: &proto.Snapshot{At: time.Second, NIC: map[string]uint64{"a": 1 << 63}, Written: []int64{1}}},
		{Kind: proto.Result, Report: &proto.Report{Flows: []proto.FlowReport{{Written: 5}}}},
		{Kind: proto.Error, Text: "a\nb \"c\""},
	} {
		var b bytes.Buffer
		if err := proto.Write(&b, m); err != nil {
			t.Fatal(err)
		}
		line := b.Bytes()
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%s is not one line: %q", m.Kind, line)
		}
		got, err := proto.Parse(line[:len(line)-1])
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got); d != "" {
			t.Error(d)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "{}", `{"kind":"hello"}`, `{"kind":5}`, `[1]`, "\x00\xff", `{"kind":"quiet","snapshot":{"nic":{"a":-1}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := proto.Parse(b)
		if err == nil && m.Kind == "" {
			t.Errorf("%q is a message without a kind", b)
		}
	})
}
