package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake is a Debian machine that notes what is done to it.
type fake struct {
	user    bool // not root
	noAPT   bool
	qemu    bool
	newQEMU bool
	sources string // lines of apt-get indextargets
	noPMD   bool
	have    map[string]bool // kernels
	depends map[string]string
	dir     string
	log     []string
}

func (f *fake) run(_ context.Context, w io.Writer, dir, name string, args ...string) error {
	last := args[len(args)-1]
	f.log = append(f.log, name+" "+strings.ReplaceAll(strings.Join(args, " "), dir+"/", ""))
	switch {
	case name == "apt-cache":
		dep, ok := f.depends[last]
		if !ok {
			return errors.New("exit status 100")
		}
		fmt.Fprintf(w, "%s\n  Depends: %s\n", last, dep)
	case name == "apt-get" && args[0] == "indextargets":
		fmt.Fprint(w, f.sources)
	case name == "apt-get" && strings.HasSuffix(last, "-backports"):
		for _, p := range args[slices.Index(args, "download")+1:] {
			p, _, _ = strings.Cut(p, "/")
			if err := os.WriteFile(filepath.Join(dir, p+"_1%3a10.0.2+ds-2_amd64.deb"), nil, 0o644); err != nil {
				return err
			}
		}
	case name == "apt-get" && last == emulatorPackage:
		f.qemu = true
	case name == "apt-get" && args[len(args)-2] == "download":
		return os.WriteFile(filepath.Join(dir, last+"_1_amd64.deb"), nil, 0o644)
	case name == "dpkg-deb":
		return os.MkdirAll(filepath.Join(last, "boot"), 0o755)
	}
	return nil
}

func (f *fake) has(name string) bool     { return !f.noAPT && (name != "dpdk-testpmd" || !f.noPMD) }
func (f *fake) emulator() bool           { return f.qemu }
func (f *fake) kernel(name string) bool  { return f.have[name] }
func (f *fake) root() bool               { return !f.user }
func (f *fake) kernels() (string, error) { return f.dir, nil }
func (f *fake) newer() bool              { return f.newQEMU }
func (f *fake) emulators() (string, error) {
	return filepath.Join(f.dir, "qemu"), nil
}

// bookworm is what Debian 12 answers.
func bookworm(t *testing.T) *fake {
	return &fake{dir: t.TempDir(), newQEMU: true, have: map[string]bool{}, depends: map[string]string{
		"linux-image-cloud-amd64":      "linux-image-6.1.0-57-cloud-amd64",
		"linux-image-6.12-cloud-amd64": "linux-image-6.12.117+deb12-cloud-amd64",
	}}
}

const (
	doUpdate = "apt-get -o DPkg::Lock::Timeout=300 -q update"
	doQEMU   = "apt-get -o DPkg::Lock::Timeout=300 -q install -y --no-install-recommends qemu-system-x86"
	download = "apt-get -o APT::Sandbox::User=root -q download "
)

func TestInstallAll(t *testing.T) {
	f := bookworm(t)
	if err := install(context.Background(), io.Discard, f); err != nil {
		t.Fatal(err)
	}
	want := []string{
		doUpdate, doQEMU,
		"apt-cache depends linux-image-cloud-amd64",
		download + "linux-image-6.1.0-57-cloud-amd64",
		"dpkg-deb -x linux-image-6.1.0-57-cloud-amd64_1_amd64.deb root",
		"apt-cache depends linux-image-6.12-cloud-amd64",
		download + "linux-image-6.12.117+deb12-cloud-amd64",
		"dpkg-deb -x linux-image-6.12.117+deb12-cloud-amd64_1_amd64.deb root",
	}
	if d := cmp.Diff(want, f.log); d != "" {
		t.Error(d)
	}
	got, err := filepath.Glob(filepath.Join(f.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{filepath.Join(f.dir, "6.1.0-57-cloud-amd64"), filepath.Join(f.dir, "6.12.117+deb12-cloud-amd64")}
	if d := cmp.Diff(dirs, got); d != "" {
		t.Error(d)
	}
	if rest, _ := filepath.Glob(filepath.Join(f.dir, ".fetch*")); len(rest) > 0 {
		t.Errorf("left over: %v", rest)
	}
}

// TestInstallNothing shows that what is there is left alone.
func TestInstallNothing(t *testing.T) {
	f := bookworm(t)
	f.qemu, f.have = true, map[string]bool{"6.1": true, "6.12": true}
	var out bytes.Buffer
	if err := install(context.Background(), &out, f); err != nil || len(f.log) > 0 {
		t.Errorf("error %v, commands %q", err, f.log)
	}
	if out.String() != "nothing is missing\n" {
		t.Errorf("said %q", out.String())
	}
}

// TestInstallNewer unpacks the backports' QEMU, with lists of its own; where there is
// none it says so and that is all.
func TestInstallNewer(t *testing.T) {
	f := bookworm(t)
	f.qemu, f.newQEMU, f.have = true, false, map[string]bool{"6.1": true, "6.12": true}
	f.sources = "http://mirror.invalid/security/ bookworm-security\nhttp://mirror.invalid/debian/ bookworm\n"
	if err := install(context.Background(), io.Discard, f); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "qemu", "10.0.2+ds-2", "boot")); err != nil {
		t.Error(err)
	}
	if rest, _ := filepath.Glob(filepath.Join(f.dir, "qemu", ".fetch*")); len(rest) > 0 {
		t.Errorf("left over: %v", rest)
	}
	private := 0
	for _, line := range f.log {
		if strings.Contains(line, " update") || strings.Contains(line, " download ") {
			if strings.Contains(line, "Dir::State::lists=lists") {
				private++
			}
		}
	}
	if private != 2 {
		t.Errorf("%d commands with lists of their own, want 2: %q", private, f.log)
	}

	f.sources = "http://mirror.invalid/debian/ trixie\n"
	var out bytes.Buffer
	if err := install(context.Background(), &out, f); err != nil || !strings.Contains(out.String(), "cannot be had") {
		t.Errorf("%v, said %q", err, out.String())
	}
}

// TestInstallTestpmd: root gets it, others do without.
func TestInstallTestpmd(t *testing.T) {
	for user, want := range map[bool][]string{
		false: {doUpdate, "apt-get -o DPkg::Lock::Timeout=300 -q install -y --no-install-recommends dpdk-dev"},
		true:  nil,
	} {
		f := bookworm(t)
		f.qemu, f.noPMD, f.user, f.have = true, true, user, map[string]bool{"6.1": true, "6.12": true}
		if err := install(context.Background(), io.Discard, f); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, f.log); d != "" {
			t.Errorf("not root: %v\n%s", user, d)
		}
	}
}

// TestInstallErrors: each names its cause and what would help.
func TestInstallErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fake)
		want   error
		text   string
	}{
		{"no apt", func(f *fake) { f.noAPT = true }, ErrNoAPT, "your package manager"},
		{"user without QEMU", func(f *fake) { f.user = true }, ErrNotRoot, "sudo apt-get install"},
		{"no such kernel", func(f *fake) {
			delete(f.depends, "linux-image-6.12-cloud-amd64")
		}, ErrNoPackage, "kernel 6.12"},
		{"newer Debian", func(f *fake) {
			f.depends = map[string]string{"linux-image-cloud-amd64": "linux-image-6.12.48+deb13-cloud-amd64"}
		}, ErrNoPackage, "kernel 6.1;"},
	} {
		f := bookworm(t)
		c.change(f)
		err := install(context.Background(), io.Discard, f)
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.want, c.text)
		}
	}
}

// TestInstallKernelAsUser: kernels need no root.
func TestInstallKernelAsUser(t *testing.T) {
	f := bookworm(t)
	f.user, f.qemu, f.have["6.1"] = true, true, true
	if err := install(context.Background(), io.Discard, f); err != nil {
		t.Fatal(err)
	}
	for _, line := range f.log {
		if line == doUpdate || line == doQEMU {
			t.Errorf("a user ran %q", line)
		}
	}
}
