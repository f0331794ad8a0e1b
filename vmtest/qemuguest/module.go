package qemuguest

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// errNoModule says that a kernel has no module of a name. It may be built in.
var errNoModule = errors.New("no such module")

// moduleTree is the modules of one kernel, by name.
type moduleTree struct {
	dir     string
	files   map[string]string // name -> path
	builtin map[string]bool
}

// module is one module, ready to load.
type module struct {
	name string
	data []byte // the ELF file
}

// openModules lists the modules below dir. Names have underscores where the
// file's may have dashes.
func openModules(dir string) (*moduleTree, error) {
	t := &moduleTree{dir: dir, files: map[string]string{}, builtin: map[string]bool{}}
	if dir == "" {
		return t, nil
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if base, _, ok := strings.Cut(d.Name(), ".ko"); ok {
			t.files[moduleName(base)] = path
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("modules: %w", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "modules.builtin")); err == nil {
		for line := range strings.Lines(string(b)) {
			t.builtin[moduleName(strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko"))] = true
		}
	}
	return t, nil
}

func moduleName(file string) string { return strings.ReplaceAll(file, "-", "_") }

// resolve returns the named modules and what they depend on, in the order of
// loading. Names that are built in are left out; so is, in a kernel without
// modules, every name.
func (t *moduleTree) resolve(names ...string) ([]module, error) {
	if len(t.files) == 0 {
		return nil, nil
	}
	var out []module
	done := map[string]bool{}
	for _, n := range names {
		if err := t.visit(n, done, &out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *moduleTree) visit(name string, done map[string]bool, out *[]module) error {
	if done[name] {
		return nil
	}
	done[name] = true
	path := t.files[name]
	if path == "" {
		if t.builtin[name] {
			return nil
		}
		return fmt.Errorf("%w: %s in %s", errNoModule, name, t.dir)
	}
	data, err := readModule(path)
	if err != nil {
		return fmt.Errorf("module %s: %w", path, err)
	}
	needs, err := dependencies(data)
	if err != nil {
		return fmt.Errorf("module %s: %w", path, err)
	}
	for _, n := range needs {
		if err := t.visit(n, done, out); err != nil {
			return err
		}
	}
	*out = append(*out, module{name, data})
	return nil
}

// readModule reads a module's ELF file, unpacked if its name says that it is
// packed.
func readModule(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r io.Reader
	switch filepath.Ext(path) {
	case ".xz":
		r, err = xz.NewReader(bytes.NewReader(b))
	case ".gz":
		r, err = gzip.NewReader(bytes.NewReader(b))
	case ".zst":
		r, err = zstd.NewReader(bytes.NewReader(b))
	default:
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// dependencies reads the entry depends= of the module's .modinfo.
func dependencies(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	sec := f.Section(".modinfo")
	if sec == nil {
		return nil, errors.New("no .modinfo section")
	}
	info, err := sec.Data()
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		list, ok := strings.CutPrefix(string(entry), "depends=")
		if ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
