package virtio_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/vnetbench/vnetbench"

// pkg is what go list says of a package of this module.
type pkg struct {
	ImportPath, Dir string
	GoFiles         []string
	CgoFiles        []string
	Imports         []string // direct, without those of tests
	Deps            []string // all
}

// rule forbids imports. A pattern is a path, or with "/..." a path and all below
// it; those that begin with a dot are of this module.
type rule struct {
	in      string // packages that it holds for, separated by spaces
	except  string // and does not hold for
	deny    string // imports that it forbids; "third-party" is any other module
	allow   string // and those that it permits among them
	deep    bool   // imports of imports count too
	because string
}

var rules = []rule{
	{in: "./virtio/...", deny: "./...", allow: "./virtio/...",
		because: "the device is used by all guests and back-ends, and knows none of them"},
	{in: "./virtio ./virtio/vtime ./virtio/shm ./virtio/frame", deny: "./...",
		because: "the leaves of the module import nothing of it"},
	{in: "./virtio/ring", deny: "./...", allow: "./virtio ./virtio/shm",
		because: "a ring knows neither the device nor frames"},
	{in: "./virtio/... ./guest/... ./hostnet/link", deny: "third-party",
		because: "the core is plain Go, so that nothing in it can do I/O behind its back"},
	{in: "./virtio/... ./guest/... ./hostnet/link",
		deny:    "os os/... net net/... syscall io/fs log log/... sync runtime math/rand math/rand/... crypto/rand context",
		because: "the core is sans-I/O: it owns no file, socket, lock, goroutine or source of chance"},
	{in: "./virtio/... ./guest/... ./hostnet/link", deny: "./...", allow: "./virtio/... ./guest/... ./hostnet/link",
		because: "the core knows the standard library and itself only"},
	{in: "./hostnet/vswitch ./hostnet/internal/...", deny: "os os/... net net/... syscall sync log log/...",
		because: "guests in virtual time use the switch as it is"},
	{in: "./hostnet/vswitch ./hostnet/internal/...", deny: "./...", allow: "./virtio/... ./hostnet/internal/...",
		because: "the switch knows frames and no back-end"},
	{in: "./guest/... ./hostnet/link", deny: "./vhost/... ./hostnet/tap ./hostnet/user ./vmtest/... ./cmd/...", deep: true,
		because: "a simulated guest must not depend on real back-ends or on those who compose it"},
	{in: "./vhost/... ./hostnet/...", deny: "./guest/... ./vmtest/... ./cmd/...", deep: true,
		because: "the host's side does not know guests"},
	{in: "./vhost/... ./hostnet/...", except: "./hostnet/link", deny: "./hostnet/link", deep: true,
		because: "a real back-end must not depend on the simulated wire"},
	{in: "./vhost/...", deny: "./...", allow: "./vhost/... ./virtio/...",
		because: "the back-end knows the device and system calls only"},
	{in: "./vmtest/...", deny: "./cmd/...", deep: true,
		because: "what others import does not depend on the command"},
	{in: "./guest/tcp/...", deny: "./guest/qdisc", deep: true,
		because: "TCP hands packets to its environment, which has the queueing discipline"},
	{in: "./guest/tcp/... ./guest/qdisc", deny: "./virtio/ring ./virtio/shm ./virtio/netdev ./guest/driver ./guest/sim", deep: true,
		because: "TCP and queueing disciplines do not know rings, drivers or who calls them"},
	{in: "./guest/driver", deny: "./guest/tcp/... ./guest/sim ./virtio/netdev", deep: true,
		because: "the driver does not know TCP's state, nor the device behind the ring"},
	{in: "./guest/...", deny: "./virtio/netdev", deep: true,
		because: "a guest meets the device through ring bytes only"},
	{in: "./...", except: "./hostnet/tap ./hostnet/user ./hostnet/pcap ./vmtest/... ./cmd/... ./vhost ./vhost/osio", deny: "third-party",
		because: "other modules are for adapters, harness and command line"},
	{in: "./vhost ./vhost/osio", deny: "third-party", allow: "golang.org/x/sys/...",
		because: "the back-end needs system calls and no other module"},
	{in: "./...", except: "./virtio/shm ./vhost/osio ./hostnet/tap ./vmtest/...", deny: "unsafe",
		because: "unsafe code is in guest memory access and in system calls, where it can be reviewed"},
	{in: "./...", deny: "C", because: "the program is built by the Go toolchain alone"},
}

// matches reports whether path fits one of the patterns.
func matches(path, patterns string) bool {
	for p := range strings.FieldsSeq(patterns) {
		if rest, own := strings.CutPrefix(p, "./"); own {
			p = module + "/" + rest
		}
		below, tree := strings.CutSuffix(p, "/...")
		switch {
		case p == "third-party" && isThirdParty(path):
			return true
		case path == p, tree && (path == below || strings.HasPrefix(path, below+"/")):
			return true
		}
	}
	return false
}

// isThirdParty reports whether the import path is of another module: those of
// the standard library have no dot in their first element.
func isThirdParty(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") && path != module && !strings.HasPrefix(path, module+"/")
}

// check returns the imports of p that r forbids.
func (r *rule) check(p *pkg) (bad []string) {
	if !matches(p.ImportPath, r.in) || matches(p.ImportPath, r.except) {
		return nil
	}
	imports := p.Imports
	if r.deep {
		imports = p.Deps
	}
	for _, path := range imports {
		if matches(path, r.deny) && !matches(path, r.allow) {
			bad = append(bad, path)
		}
	}
	return bad
}

// packages lists the packages of the module.
func packages(t *testing.T) []*pkg {
	t.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,Deps", "./...")
	cmd.Dir = strings.TrimSpace(string(root))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", cmd.Dir, err)
	}
	var list []*pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, &p)
	}
}

// TestImportRules holds every package to the rules of the design.
func TestImportRules(t *testing.T) {
	list := packages(t)
	for i := range rules {
		r := &rules[i]
		used := false
		for _, p := range list {
			used = used || matches(p.ImportPath, r.in)
			for _, path := range r.check(p) {
				t.Errorf("%s imports %s: %s", p.ImportPath, path, r.because)
			}
		}
		if !used {
			t.Errorf("no package is held to the rule for %s", r.in)
		}
	}
}

// TestRulesBite shows that each rule finds what it is for.
func TestRulesBite(t *testing.T) {
	for _, tc := range []struct {
		path, imports string
		want          int // rules broken
	}{
		{"virtio/netdev", "guest/tcp", 1},
		{"virtio/netdev", "hostnet/tap", 2},
		{"virtio/netdev", "virtio/ring", 0},
		{"virtio/frame", "virtio/vtime", 1},
		{"virtio/ring", "virtio/frame", 1},
		{"guest/tcp", "virtio/ring", 1},
		{"guest/driver", "guest/tcp/cc", 1},
		{"guest/driver", "virtio/netdev", 2},
		{"guest/tcp/cc", "guest/qdisc", 1},
		{"guest/sim", "hostnet/sink", 1},
		{"vhost", "guest/skb", 2},
		{"vhost", "hostnet/link", 2},
		{"vhost/osio", "hostnet/sink", 1},
		{"hostnet/sink", "vmtest", 1},
		{"hostnet/link", "vhost/wire", 2},
		{"vmtest/doctor", "cmd/vnetbench", 1},
		{"vmtest/simguest", "guest/tcp", 0},
	} {
		p := &pkg{ImportPath: module + "/" + tc.path, Imports: []string{module + "/" + tc.imports}}
		if n := broken(p); n != tc.want {
			t.Errorf("%s importing %s breaks %d rules, want %d", tc.path, tc.imports, n, tc.want)
		}
	}
	for path, std := range map[string]string{
		"virtio/ring": "unsafe", "guest/sim": "os", "virtio/netdev": "sync", "guest/tcp": "math/rand/v2",
		"vhost": "github.com/alecthomas/kong", "vhost/wire": "golang.org/x/sys/unix",
		"hostnet/sink": "github.com/gopacket/gopacket", "cmd/vnetbench": "unsafe", "vmtest/simguest": "C",
	} {
		p := &pkg{ImportPath: module + "/" + path, Imports: []string{std}}
		if broken(p) != 1 {
			t.Errorf("%s may import %s", path, std)
		}
	}
}

// broken counts the rules that p breaks.
func broken(p *pkg) (n int) {
	p.Deps = p.Imports
	for i := range rules {
		if len(rules[i].check(p)) > 0 {
			n++
		}
	}
	return n
}

// clockCalls are the functions of package time that read a clock or set a timer.
var clockCalls = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
}

// TestCoreHasNoClockOrGoroutine looks at the source of the core, since imports do
// not show it: package time is allowed for its Duration.
func TestCoreHasNoClockOrGoroutine(t *testing.T) {
	for _, p := range packages(t) {
		if !matches(p.ImportPath, "./virtio/... ./guest/... ./hostnet/link") {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if what := impure(n); what != "" {
					t.Errorf("%s: %s: the core is called with the time and calls nobody back", fset.Position(n.Pos()), what)
				}
				return true
			})
		}
	}
}

// impure names what the core may not have, or is empty.
func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
		return "channel"
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clockCalls, n.Sel.Name) {
			return "time." + n.Sel.Name
		}
	}
	return ""
}

func TestImpure(t *testing.T) {
	for src, want := range map[string]string{
		"go f()": "go statement", "c <- 1": "channel", "select {}": "channel", "_ = time.Now()": "time.Now",
		"var c chan int": "channel", "_ = time.Second": "", "f()": "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; func f() { "+src+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		ast.Inspect(file, func(n ast.Node) bool {
			if w := impure(n); w != "" {
				got = w
			}
			return true
		})
		if got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
}
