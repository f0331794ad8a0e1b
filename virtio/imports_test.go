package virtio_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/vnetbench/vnetbench/"

// pkg is what `go list` says of a package; Imports excludes those of tests.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

// path is the package's place in the module.
func (p *pkg) path() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...")
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, errs.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// under reports whether path is one of the trees or inside it.
func under(path string, trees ...string) bool {
	for _, tree := range trees {
		if path == tree || strings.HasPrefix(path, tree+"/") {
			return true
		}
	}
	return false
}

// isStd reports whether an import path is of the standard library.
func isStd(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// rule says what the packages in some trees may not import, and why.
type rule struct {
	trees  []string
	except []string
	bad    func(imp string) bool // imp is relative to the module for our own packages
	why    string
}

func ours(trees ...string) func(string) bool {
	return func(imp string) bool { return under(imp, trees...) }
}

// core are the trees that own no clock, descriptor, goroutine or lock.
var core = []string{"virtio", "guest", "hostnet/link"}

var rules = []rule{
	{core, nil, func(imp string) bool {
		return under(imp, "os", "net", "syscall", "sync", "log", "context") && imp != "sync/atomic"
	},
		"the core is sans-I/O: no files, sockets, locks or logs"},
	{core, nil, func(imp string) bool { return imp != "C" && !isStd(imp) && !under(imp, core...) },
		"the core knows the standard library and itself only"},
	{core, []string{"virtio/shm"}, func(imp string) bool { return imp == "unsafe" || imp == "C" },
		"virtio/shm has the only unsafe code of the core"},
	{[]string{"virtio"}, nil, ours("guest", "hostnet", "vhost", "vmtest", "cmd"),
		"the device does not know who drives it"},
	{[]string{"guest/tcp"}, nil, ours("virtio/ring", "virtio/netdev", "virtio/shm", "guest/driver", "guest/qdisc"),
		"TCP does not know rings"},
	{[]string{"guest/driver"}, nil, ours("guest/tcp", "virtio/netdev"),
		"the driver does not know the state of TCP, nor the device"},
	{[]string{"vhost", "hostnet"}, nil, ours("guest", "vmtest", "cmd"),
		"the host's side does not know guests"},
	{[]string{"vmtest"}, nil, ours("cmd"), "what others import does not depend on the command"},
	{[]string{"vhost"}, nil, func(imp string) bool { return !isStd(imp) && !under(imp, "virtio", "vhost", "golang.org/x/sys") },
		"the back-end knows the device and system calls only"},
}

// TestImports holds the packages against the rules that keep the seams clean.
func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, r := range rules {
			if !under(p.path(), r.trees...) || under(p.path(), r.except...) {
				continue
			}
			for _, imp := range p.Imports {
				if r.bad(strings.TrimPrefix(imp, module)) {
					t.Errorf("%s imports %s: %s", p.path(), imp, r.why)
				}
			}
		}
	}
}

// banned are the ways to read or wait for the clock.
var banned = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
	"AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true,
}

// TestCoreOwnsNoTime looks for clock reads and goroutines in the core.
func TestCoreOwnsNoTime(t *testing.T) {
	for _, p := range packages(t) {
		if !under(p.path(), core...) {
			continue
		}
		for _, name := range p.GoFiles {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if what := clockOrGoroutine(n); what != "" {
					t.Errorf("%s/%s:%d: %s: only a composer owns time", p.path(), name, fset.Position(n.Pos()).Line, what)
				}
				return true
			})
		}
	}
}

// clockOrGoroutine names what the node does that the core must not, or is "".
func clockOrGoroutine(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && banned[n.Sel.Name] {
			return "time." + n.Sel.Name
		}
	}
	return ""
}
