package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// Run is the command.
func (versionCmd) Run(s *streams) error {
	_, err := fmt.Fprintf(s.out, "vnetbench %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// version is the module's version with the commit, as far as the build knows.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v += " " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			v += " modified"
		}
	}
	return v
}
