package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// errNoBackports says why a newer QEMU cannot be had.
var errNoBackports = errors.New("no package source of a Debian release")

// newerPackages are what a QEMU needs of its own release. The libraries are those of
// the QEMU that is installed.
var newerPackages = []string{"qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios"}

// keyring is what Debian's package sources are signed with.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// fetchNewer unpacks the QEMU of the release's backports into the user's cache
// directory, for tests with more than one front-end. Package lists are fetched to
// a place of their own, so that nothing else is installed from there.
func fetchNewer(ctx context.Context, w io.Writer, s system) error {
	uri, release, err := archive(ctx, s)
	if err != nil {
		return err
	}
	dir, err := s.emulators()
	if err != nil {
		return err
	}
	tmp, err := fetchDir(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	apt, err := privateAPT(tmp, uri, release)
	if err != nil {
		return err
	}
	if err := s.run(ctx, w, tmp, "apt-get", append(apt, "update")...); err != nil {
		return err
	}
	download := append(apt, "download")
	for _, p := range newerPackages {
		download = append(download, p+"/"+release+"-backports")
	}
	if err := s.run(ctx, w, tmp, "apt-get", download...); err != nil {
		return err
	}
	return unpackNewer(ctx, w, s, dir, tmp)
}

// archive is where this machine gets the packages of its Debian release from.
func archive(ctx context.Context, s system) (uri, release string, err error) {
	var out bytes.Buffer
	if err := s.run(ctx, &out, "", "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Component: main"); err != nil {
		return "", "", err
	}
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == "bookworm" {
			return f[0], f[1], nil
		}
	}
	return "", "", fmt.Errorf("%w 12 (bookworm), whose backports have one", errNoBackports)
}

// privateAPT makes what apt-get keeps below dir, and returns its options.
func privateAPT(dir, uri, release string) ([]string, error) {
	var list strings.Builder
	for _, suite := range []string{release, release + "-backports"} {
		fmt.Fprintf(&list, "deb [signed-by=%s] %s %s main\n", keyring, uri, suite)
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	sources := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(sources, []byte(list.String()), 0o644); err != nil {
		return nil, err
	}
	return []string{"-o", "APT::Sandbox::User=root", "-o", "Dir::Etc::sourcelist=" + sources, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + filepath.Join(dir, "cache"), "-q"}, nil
}

// unpackNewer unpacks the packages in tmp. The directory gets its name, the version,
// at the end.
func unpackNewer(ctx context.Context, w io.Writer, s system, dir, tmp string) error {
	debs, version := packagesIn(tmp), ""
	for _, deb := range debs {
		if _, v, ok := strings.Cut(filepath.Base(deb), newerPackages[0]+"_"); ok {
			version, _, _ = strings.Cut(v, "_")
			_, version, _ = strings.Cut(version, "%3a") // without the epoch
		}
	}
	if version == "" || len(debs) != len(newerPackages) {
		return fmt.Errorf("apt-get download left %d packages, want %v", len(debs), newerPackages)
	}
	out, err := unpack(ctx, w, s, tmp, debs)
	if err != nil {
		return err
	}
	return adopt(w, "QEMU "+version, out, filepath.Join(dir, version))
}
