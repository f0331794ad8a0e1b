package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// output is where a result goes: standard output, or a file that appears only
// when it is complete.
type output struct {
	io.Writer
	temp *os.File // nil: nothing to rename
	path string
}

// openOutput makes sure that path can be written before anything is run. An
// empty path is standard output; what is no regular file is written to directly.
func openOutput(path string, stdout *os.File) (*output, error) {
	if path == "" || path == "-" {
		return &output{Writer: stdout}, nil
	}
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		if fi.IsDir() {
			return nil, fmt.Errorf("--out: %s is a directory; name a file in it", path)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &output{Writer: f}, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &output{f, f, path}, nil
}

// commit gives the file its name. Its mode is that of files that the user makes.
func (o *output) commit() error {
	if o.temp == nil {
		return nil
	}
	err := errors.Join(o.temp.Chmod(0o644), o.temp.Close(), os.Rename(o.temp.Name(), o.path))
	o.temp = nil
	return err
}

// discard removes the file if it was not committed.
func (o *output) discard() {
	if o.temp == nil {
		return
	}
	o.temp.Close()
	os.Remove(o.temp.Name())
	o.temp = nil
}

// tracer opens the traces, or captures, of a command: one run's is the file of
// that name, those of several runs have the label behind it.
func tracer(flag, path string, runs int) func(label string) (io.WriteCloser, error) {
	if path == "" {
		return nil
	}
	return func(label string) (io.WriteCloser, error) {
		name := path
		if runs > 1 {
			name += "." + label
		}
		f, err := os.Create(name)
		if err != nil {
			return nil, usage(fmt.Errorf("%s: %w", flag, err))
		}
		return f, nil
	}
}

// formatFor is the format asked for, or the one that the file's name suggests.
func formatFor(format, out string) string {
	switch {
	case format != "":
		return format
	case strings.HasSuffix(out, ".json"):
		return "json"
	}
	return "text"
}
