package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// repoFile reads a file by its path from the top of the repository.
func repoFile(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// jsonPaths lists the paths of every field that a type has in JSON. A type that
// writes its own JSON is one field, but for a run, whose own is about null.
func jsonPaths(prefix string, t reflect.Type) []string {
	if t.Implements(reflect.TypeFor[json.Marshaler]()) && t != reflect.TypeFor[vmtest.Run]() {
		return []string{prefix}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonPaths(prefix, t.Elem())
	case reflect.Slice:
		return jsonPaths(prefix+"[]", t.Elem())
	case reflect.Map:
		return jsonPaths(prefix+"{}", t.Elem())
	case reflect.Struct:
		var out []string
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "-" {
				out = append(out, jsonPaths(strings.TrimPrefix(prefix+"."+name, "."), field.Type)...)
			}
		}
		return out
	}
	return []string{prefix}
}

// documented holds the rows of a file's tables against fields: every field is
// there, and nothing else. Fields with fields of their own may have a row too.
func documented(t *testing.T, fields []string, file string) {
	t.Helper()
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(repoFile(t, "docs", file), -1)
	have := map[string]bool{}
	for _, r := range rows {
		if have[r[1]] {
			t.Errorf("%s documents %s twice", file, r[1])
		}
		have[r[1]] = true
	}
	for _, f := range fields {
		if !have[f] {
			t.Errorf("%s does not document %s", file, f)
		}
	}
	for d := range have {
		isField := func(f string) bool { return f == d || strings.HasPrefix(f, d+".") || strings.HasPrefix(f, d+"[].") }
		if !slices.ContainsFunc(fields, isField) {
			t.Errorf("%s documents %s, which does not exist", file, d)
		}
	}
}

func TestResultIsDocumented(t *testing.T) {
	documented(t, jsonPaths("", reflect.TypeFor[vmtest.Result]()), "result.md")
}

func TestServeLinesAreDocumented(t *testing.T) {
	fields := []string{"schema", "kind", "socket", "time", "seconds"}
	for _, f := range jsonPaths("", reflect.TypeFor[vhost.Stats]()) {
		if !strings.HasPrefix(f, "ctrl.") && !strings.HasPrefix(f, "pairs[].tx.") {
			fields = append(fields, f)
		}
	}
	documented(t, append(fields, "ctrl", "pairs[].tx"), "serve.md")
}

// TestKeysAreDocumented holds the table of docs/scenario.md against the keys.
func TestKeysAreDocumented(t *testing.T) {
	want, s := "| key | default | meaning |\n| --- | --- | --- |\n", vmtest.Default()
	for _, k := range vmtest.Keys() {
		v := k.Get(&s)
		if v != "" {
			v = "`" + v + "`"
		}
		want += "| `" + k.Name + "` | " + v + " | " + strings.ReplaceAll(k.Doc, "|", "\\|") + " |\n"
	}
	generated(t, want, "## Keys\n\n", "", "docs", "scenario.md")
}

// TestSampleIsWhatRunPrints holds the sample of README.md against the command.
func TestSampleIsWhatRunPrints(t *testing.T) {
	var b bytes.Buffer
	c := runCmd{Scenario: "mq-small-packets", Guest: "sim", Vary: true}
	cfg, newGuest, err := c.configure()
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.measure(context.Background(), cfg, newGuest, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.print(&b, res, cfg); err != nil {
		t.Fatal(err)
	}
	generated(t, b.String(), "<!-- sample begin -->\n```text\n", "```\n<!-- sample end -->", "README.md")
}

// TestTablesAreWhatRunPrints holds the tables of README.md against the command
// above each.
func TestTablesAreWhatRunPrints(t *testing.T) {
	for name, set := range map[string][]string{
		"real-kernels": nil, "remedies": nil, "policies": nil, "fix": nil, "fix-workloads": nil,
		"fix-kvm": {"guest_cpu=kvm", "vcpus=2", "think=0", "host=calibrated", "kernel=6.12", "release=orphan,napi"},
	} {
		var b bytes.Buffer
		c := runCmd{Scenario: strings.TrimSuffix(name, "-kvm"), Guest: "sim", Table: true, Set: set}
		cfg, newGuest, err := c.configure()
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.measure(context.Background(), cfg, newGuest, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.print(&b, res, cfg); err != nil {
			t.Fatal(err)
		}
		generated(t, b.String(), "<!-- "+name+" begin -->\n```text\n", "```\n<!-- "+name+" end -->", "README.md")
	}
}

// TestTracesAreWhatCheckPrints holds the table of README.md against the command:
// a model that gets closer to the kernels, or further off, changes it.
func TestTracesAreWhatCheckPrints(t *testing.T) {
	var b bytes.Buffer
	c := traceCheckCmd{Path: filepath.Join("..", "..", "vmtest", "trace", "testdata", "open"), Format: "text"}
	if err := c.check(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	generated(t, b.String(), "<!-- traces begin -->\n```text\n", "```\n<!-- traces end -->", "README.md")
}

// TestLinksAreWhatComparePrints holds the tables of README.md of congestion controls
// on real kernels and on their models against the command.
func TestLinksAreWhatComparePrints(t *testing.T) {
	for _, name := range umlguest.Named {
		switch _, err := umlguest.FindKernel(context.Background(), name); {
		case err == nil:
		case os.Getenv("CI") == "true" || !errors.Is(err, umlguest.ErrKernel):
			t.Fatal(err)
		default:
			t.Skipf("SKIPPED, no real kernel was compared: %v", err)
		}
	}
	for block, set := range map[string][]string{"links": nil, "links-kernel": {"receiver.kind=kernel"}} {
		out, err := os.Create(filepath.Join(t.TempDir(), block))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		c := compareCmd{Scenario: "cc-links", Guests: []string{"sim", "uml"}, Kernel: "6.1,6.12", Set: set, Format: "text", Brief: true}
		if err := c.Run(&streams{out: out, err: out}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		generated(t, string(text), "<!-- "+block+" begin -->\n```text\n", "```\n<!-- "+block+" end -->", "README.md")
	}
}

var update = flag.Bool("update", false, "write the generated parts of the documentation anew")

// generated holds the part of a file between two marks against want; no end
// mark means the end of the file.
func generated(t *testing.T, want, begin, end string, path ...string) {
	t.Helper()
	text := repoFile(t, path...)
	head, rest, ok := strings.Cut(text, begin)
	if !ok {
		t.Fatalf("%v has no %q", path, begin)
	}
	got, tail := rest, ""
	if end != "" {
		i := strings.Index(rest, end)
		if i < 0 {
			t.Fatalf("%v has no %q", path, end)
		}
		got, tail = rest[:i], rest[i:]
	}
	if got == want {
		return
	}
	if !*update {
		t.Errorf("%v is not what the program prints (-update writes it anew):\n%s", path, cmp.Diff(got, want))
		return
	}
	name := filepath.Join(append([]string{"..", ".."}, path...)...)
	if err := os.WriteFile(name, []byte(head+begin+want+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// blocks returns the fenced blocks of a language in a Markdown text.
func blocks(text, lang string) []string {
	var out []string
	for _, m := range regexp.MustCompile("(?s)```"+lang+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestExamplesAreScenarios decodes every TOML example of the documentation.
func TestExamplesAreScenarios(t *testing.T) {
	examples := append(blocks(repoFile(t, "README.md"), "toml"), blocks(repoFile(t, "docs", "scenario.md"), "toml")...)
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	for i, e := range examples {
		s, err := vmtest.Decode(vmtest.Default(), "example", []byte(e))
		if err == nil {
			err = s.Validate()
		}
		if err != nil {
			t.Errorf("example %d: %v\n%s", i, err, e)
		}
	}
}
