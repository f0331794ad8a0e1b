package umlguest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrBuild says that a kernel could not be built: something is missing on this
// machine, and the error names it and the command that installs it, or the build
// itself went wrong, and the error has its last lines.
var ErrBuild = errors.New("cannot build the kernel")

// BuildProgress is how far a build is.
type BuildProgress struct {
	Phase string // unpack, configure or compile
	Done  int    // files compiled
	Total int    // about as many as there will be; 0: not known
}

// compiledFiles is about how many steps a build prints.
const compiledFiles = 1250

// BuildKernel builds a named kernel for user mode from the source package of the
// distribution, with this package's configuration, and returns the path of the
// executable in the user's cache. If it is there already, nothing is built.
// progress, which may be nil, is called now and then. The build runs with a low
// priority, takes some ten minutes of CPU time, and 1.8 GB on the disk until it
// is done.
func BuildKernel(ctx context.Context, name string, progress func(BuildProgress)) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	b, err := newBuild(name, progress)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(b.dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isFile(b.result()) {
		return b.result(), nil
	}
	return b.result(), b.run(ctx)
}

// build is one build of a kernel.
type build struct {
	name     string
	source   string // archive
	dir      string // of the result
	progress func(BuildProgress)
}

func newBuild(name string, progress func(BuildProgress)) (*build, error) {
	if progress == nil {
		progress = func(BuildProgress) {}
	}
	b := &build{name: name, source: "/usr/src/linux-source-" + name + ".tar.xz", progress: progress}
	if err := missing(name, b.source); err != nil {
		return nil, err
	}
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	b.dir = filepath.Join(dir, keyOf(packageVersion(name)))
	return b, nil
}

func (b *build) result() string { return filepath.Join(b.dir, "linux") }

// buildTools are the programs that a build runs and the packages that have them.
var buildTools = []struct{ program, pkg string }{
	{"gcc", "gcc"}, {"make", "make"}, {"flex", "flex"}, {"bison", "bison"}, {"bc", "bc"},
	{"tar", "tar"}, {"xz", "xz-utils"}, {"ld", "binutils"},
}

// buildHeaders are files that a build includes.
var buildHeaders = []struct{ path, pkg string }{
	{"/usr/include/stdio.h", "libc6-dev"}, {"/usr/include/libelf.h", "libelf-dev"}, {"/usr/include/openssl/ssl.h", "libssl-dev"},
}

// BuildPackages are the packages of the distribution that a build of the named
// kernel needs.
func BuildPackages(name string) []string {
	var out []string
	for _, t := range buildTools {
		out = append(out, t.pkg)
	}
	for _, h := range buildHeaders {
		out = append(out, h.pkg)
	}
	return append(out, "linux-source-"+name)
}

// missing names what a build lacks, and the command that gets it.
func missing(name, source string) error {
	var lacks []string
	for _, t := range buildTools {
		if _, err := exec.LookPath(t.program); err != nil {
			lacks = append(lacks, t.pkg)
		}
	}
	for _, h := range buildHeaders {
		if !isFile(h.path) {
			lacks = append(lacks, h.pkg)
		}
	}
	if !isFile(source) {
		lacks = append(lacks, "linux-source-"+name)
	}
	if len(lacks) == 0 {
		return nil
	}
	list := strings.Join(lacks, " ")
	return fmt.Errorf("%w: missing %s; run: apt-get install --no-install-recommends %s", ErrBuild, list, list)
}

// packageVersion is the version of the installed source package; if that is not
// known, the archive itself tells builds apart.
func packageVersion(name string) string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", "linux-source-"+name).Output()
	if v := strings.TrimSpace(string(out)); err == nil && v != "" {
		return strings.ReplaceAll(v, ":", "_")
	}
	st, err := os.Stat("/usr/src/linux-source-" + name + ".tar.xz")
	if err != nil {
		return ""
	}
	return name + ".x" + strconv.FormatInt(st.ModTime().Unix(), 16)
}

// lock keeps a second build of the same kernel waiting.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// run unpacks, configures and compiles in a directory that goes afterwards.
func (b *build) run(ctx context.Context) error {
	work, err := os.MkdirTemp(b.dir, "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b.progress(BuildProgress{Phase: "unpack"})
	if err := b.command(ctx, work, 0, "tar", append([]string{"xf", b.source, "--strip-components=1"}, unneeded()...)...); err != nil {
		return err
	}
	config := filepath.Join(work, "vnetbench.config")
	if err := os.WriteFile(config, fragment, 0o644); err != nil {
		return err
	}
	b.progress(BuildProgress{Phase: "configure"})
	if err := b.command(ctx, work, 0, "make", "ARCH=um", "O=out", "KCONFIG_ALLCONFIG="+config, "allnoconfig"); err != nil {
		return err
	}
	if err := b.command(ctx, work, compiledFiles, "make", "ARCH=um", "O=out", "-j"+strconv.Itoa(runtime.NumCPU()), "linux"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, "out", "linux"), b.result())
}

// unneeded are parts of the source that no build of ours reads: half of it.
func unneeded() []string {
	var out []string
	for _, p := range []string{"Documentation/*.rst", "drivers/gpu/drm/*.[ch]", "drivers/media/*.[ch]", "sound/*.[ch]", "tools/testing/*"} {
		out = append(out, "--exclude=*/"+p)
	}
	return out
}

// command runs one step with a low priority. With total, each line that it prints
// is progress.
func (b *build) command(ctx context.Context, dir string, total int, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, "nice", append([]string{name}, args...)...)
	cmd.Dir = dir
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrBuild, name, err)
	}
	var last []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		last = b.watch(r, total)
	}()
	err := cmd.Wait()
	w.Close()
	<-read
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w: %s", ErrBuild, name, err, strings.Join(last, " | "))
	}
	return nil
}

// watch counts lines and returns the last ones.
func (b *build) watch(r io.Reader, total int) (last []string) {
	n := 0
	for s := bufio.NewScanner(r); s.Scan(); {
		if last = append(last, s.Text()); len(last) > 6 {
			last = last[1:]
		}
		if n++; total > 0 {
			b.progress(BuildProgress{Phase: "compile", Done: n, Total: total})
		}
	}
	_, _ = io.Copy(io.Discard, r)
	return last
}
