package qemuguest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/mkuimage/cpio"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest/proto"
)

func TestParseVersion(t *testing.T) {
	for _, c := range []struct {
		in, version  string
		major, minor int
	}{
		{"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright\n", "7.2.22", 7, 2},
		{"QEMU emulator version 10.0.2\n", "10.0.2", 10, 0},
		{"QEMU emulator version 8.1\n", "8.1", 8, 1},
		{"bash: command not found", "", 0, 0},
		{"", "", 0, 0},
	} {
		if v, m, n := parseVersion(c.in); v != c.version || m != c.major || n != c.minor {
			t.Errorf("%q: %q, %d, %d; want %q, %d, %d", c.in, v, m, n, c.version, c.major, c.minor)
		}
	}
}

// TestVectors: MSI-X only where QEMU survives it.
func TestVectors(t *testing.T) {
	for _, c := range []struct {
		major int
		kvm   bool
		want  int
	}{{7, false, 0}, {7, true, 6}, {8, false, 6}, {10, true, 6}} {
		m := machineConfig{emulator: Emulator{Major: c.major}, kvm: c.kvm, nic: nicConfig{pairs: 2}}
		if got := m.vectors(); got != c.want {
			t.Errorf("QEMU %d, KVM %v: %d vectors, want %d", c.major, c.kvm, got, c.want)
		}
	}
}

func TestVersionLess(t *testing.T) {
	order := []string{"6.1.0-9-cloud", "6.1.0-57-cloud", "6.1.1-1-cloud", "6.12.9+deb12", "6.12.117+deb12"}
	for i, a := range order {
		for j, b := range order {
			if got := versionLess(a, b); got != (i < j) {
				t.Errorf("%s before %s: %v", a, b, got)
			}
		}
	}
}

// TestFindKernel chooses the newest kernel of a name that has its modules.
func TestFindKernel(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	for _, release := range []string{"6.1.0-9-cloud-amd64", "6.1.0-57-cloud-amd64", "6.1.0-60-cloud-amd64", "6.12.1-cloud-amd64"} {
		root := filepath.Join(cache, "vnetbench", "kernels", release)
		write(t, filepath.Join(root, "boot", "vmlinuz-"+release))
		if release != "6.1.0-60-cloud-amd64" {
			write(t, filepath.Join(root, "lib", "modules", release, "modules.builtin"))
		}
	}
	k, ok := findIn(filepath.Join(cache, "vnetbench", "kernels", "6.1.0-57-cloud-amd64"), "6.1")
	if !ok || filepath.Base(k.Modules) != "6.1.0-57-cloud-amd64" {
		t.Errorf("found %v, %+v", ok, k)
	}
	if _, ok := findIn(filepath.Join(cache, "vnetbench", "kernels", "6.1.0-60-cloud-amd64"), "6.1"); ok {
		t.Error("found a kernel without its modules")
	}
	if _, ok := findIn(filepath.Join(cache, "vnetbench", "kernels", "6.12.1-cloud-amd64"), "6.1"); ok {
		t.Error("took 6.12 for 6.1")
	}
	image := filepath.Join(cache, "vnetbench", "kernels", "6.12.1-cloud-amd64", "boot", "vmlinuz-6.12.1-cloud-amd64")
	if k, err := FindKernel(image); err != nil || k.Image != image || k.Modules != "" {
		t.Errorf("by path: %+v, %v", k, err)
	}
	for _, name := range []string{"5.10", image + ":/no/such/modules", "/no/such/vmlinuz", cache + "/"} {
		if _, err := FindKernel(name); !errors.Is(err, ErrKernel) && name != cache+"/" {
			t.Errorf("%s: %v, want %v", name, err, ErrKernel)
		}
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestModules resolves what a guest needs from the modules of each kernel that
// is here: what a module depends on comes before it.
func TestModules(t *testing.T) {
	found := false
	for _, name := range Named {
		k, err := FindKernel(name)
		if err != nil {
			continue
		}
		found = true
		tree, err := openModules(k.Modules)
		if err != nil {
			t.Fatal(err)
		}
		mods, err := tree.resolve("virtio_pci", "virtio_net", "tcp_bbr", "tcp_cubic")
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int{}
		for i, m := range mods {
			at[m.name] = i + 1
		}
		for _, m := range mods {
			needs, err := dependencies(m.data)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range needs {
				if !tree.builtin[n] && (at[n] == 0 || at[n] > at[m.name]) {
					t.Errorf("%s: %s comes at %d, before %s at %d", name, m.name, at[m.name], n, at[n])
				}
			}
		}
		if at["virtio_net"] == 0 || at["tcp_bbr"] == 0 || at["tcp_cubic"] != 0 {
			t.Errorf("%s: loads %v; want virtio_net and tcp_bbr, and not tcp_cubic, which is built in", name, at)
		}
		if _, err := tree.resolve("tcp_vegan"); !errors.Is(err, errNoModule) {
			t.Errorf("%s: a module that is not there: %v", name, err)
		}
	}
	if !found && os.Getenv("CI") == "true" {
		t.Fatal("no kernel here")
	}
	if !found {
		t.Skip("SKIPPED, NOT TESTED: no kernel here")
	}
}

func TestDependenciesOfNonsense(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("\x7fELF"), bytes.Repeat([]byte{0xff}, 4096)} {
		if _, err := dependencies(b); err == nil {
			t.Errorf("%d bytes of nonsense are a module", len(b))
		}
	}
}

// TestArchive reads back what the guest will find.
func TestArchive(t *testing.T) {
	im := image{
		init: []byte("init"), program: []byte("program"),
		modules: []module{{"virtio", []byte("a")}, {"virtio_net", []byte("b")}},
		params:  map[string]string{"virtio_net": "napi_tx=0"},
		config:  proto.Config{Pairs: 2},
	}
	f, err := im.file()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]string{}
	r := cpio.Newc.Reader(f)
	for {
		rec, err := r.ReadRecord()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Mode&cpio.S_IFMT == cpio.S_IFREG {
			b := make([]byte, rec.FileSize)
			if _, err := rec.ReadAt(b, 0); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			got[rec.Name] = string(b)
		}
	}
	var cfg proto.Config
	if err := json.Unmarshal([]byte(got[proto.ConfigPath[1:]]), &cfg); err != nil {
		t.Fatal(err)
	}
	delete(got, proto.ConfigPath[1:])
	want := map[string]string{"init": "init", "bin/program": "program",
		"modules/00-virtio.ko": "a", "modules/01-virtio_net.ko": "b"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	mods := []proto.Module{{File: "/modules/00-virtio.ko"}, {File: "/modules/01-virtio_net.ko", Params: "napi_tx=0"}}
	if d := cmp.Diff(mods, cfg.Modules); d != "" || cfg.Pairs != 2 {
		t.Errorf("%s %d pairs", d, cfg.Pairs)
	}
}

func TestConsole(t *testing.T) {
	var out bytes.Buffer
	c := &console{to: &out}
	for _, s := range []string{"\x1bc\x1b[?7l\x1b[2Jfirm", "ware\r\nlinux", ": hello\n", strings.Repeat("\n", 3), "no end"} {
		if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "guest: firmware\nguest: linux: hello\n"; out.String() != want {
		t.Errorf("passed on %q, want %q", out.String(), want)
	}
	if got := c.last(2); got != "linux: hello | no end" {
		t.Errorf("the last are %q", got)
	}
	for range 100 {
		_, _ = c.Write(bytes.Repeat([]byte("x"), 1000))
	}
	if len(c.part) >= 4096 || len(c.lines) > consoleLines {
		t.Errorf("keeps %d bytes and %d lines", len(c.part), len(c.lines))
	}
}

// TestCheck: what a real guest cannot do is named with its key.
func TestCheck(t *testing.T) {
	g := New(Config{})
	ok := vmtest.Default()
	ok.Kernel = "6.1"
	if err := g.Check(ok); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, value, want string }{
		{"kernel", "3.8", "6.1"}, {"link.rate", "10G", "link"}, {"link.loss", "0.1", "link"},
		{"host.wake", "1us", "host"}, {"nic.tso_max_size", "32k", "gso_max_size"},
		{"receiver.gro", "off", "receiver.gro"}, {"trace.at", "qdisc", "trace.at"},
		{"ring_size", "128", "256, 512 and 1024"}, {"policy", "hurry", "policy"}, {"in_order", "on", "in_order"},
		{"flow.0.queue", "0", "flow.0.cpu"}, {"receiver.kernel", "6.1", "receiver.kernel"},
	} {
		s := ok.Clone()
		if err := s.Set(c.key, c.value); err != nil {
			t.Fatal(err)
		}
		if err := g.Check(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want an error with %q", c.key, c.value, err, c.want)
		}
	}
}

func TestGuestConfig(t *testing.T) {
	s := vmtest.Default()
	for key, v := range map[string]string{"qdisc": "fq", "flows": "2", "flow.1.write": "4096", "flow.1.cpu": "0",
		"pacing": "85.7MB/s", "sysctl.tcp_limit_output_bytes": "65536", "gso_max_size": "16k", "ip": "6", "duration": "2s"} {
		if err := s.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	c := guestConfig(&s)
	if c.Sysctls["net/core/default_qdisc"] != "fq" || c.Sysctls["tcp_limit_output_bytes"] != "65536" {
		t.Errorf("sysctls %v", c.Sysctls)
	}
	if c.GSOMaxSize != 16384 || c.GSOMaxSegs != 0 || c.Peer != "fd00:766e::1" || c.Sample != 10*time.Millisecond {
		t.Errorf("%+v", c)
	}
	want := []proto.Flow{
		{CPU: 0, Write: 1024, CC: "cubic", Pacing: 85_700_000},
		{CPU: 0, Write: 4096, CC: "cubic", Pacing: 85_700_000},
	}
	if d := cmp.Diff(want, c.Flows); d != "" {
		t.Error(d)
	}
}

// TestNoTools: without a PATH each tool that is missing is named with what
// brings it.
func TestNoTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := FindEmulator(context.Background())
	if !errors.Is(err, ErrEmulator) || !strings.Contains(err.Error(), "doctor --install") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without QEMU: %v", err)
	}
	_, err = guestProgram(context.Background())
	if !errors.Is(err, ErrGuestProgram) || !strings.Contains(err.Error(), ProgramVariable) {
		t.Errorf("without Go: %v", err)
	}
	if got := wrappers(); len(got) != 0 {
		t.Errorf("wrappers %v, want none", got)
	}
}

// TestGuestProgram builds the program outside of any module, as an installed
// vnetbench does, and takes one that was built before.
func TestGuestProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	b, err := guestProgram(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(ProgramVariable, path)
	t.Setenv("PATH", t.TempDir())
	again, err := guestProgram(context.Background())
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("a program that was built before: %v, the same: %v", err, bytes.Equal(b, again))
	}
}
