package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/vnetbench/vnetbench/vmtest"
)

// planFor returns the named plan or the one of a scenario file, with the
// settings of the command line.
func planFor(name string, settings []vmtest.Setting) (vmtest.Plan, error) {
	p, err := namedPlan(name)
	if err != nil {
		return p, err
	}
	return p, p.Set(settings)
}

// namedPlan looks name up among the plans, or reads it as a file if it looks
// like a path.
func namedPlan(name string) (vmtest.Plan, error) {
	if !strings.Contains(name, "/") && !strings.HasSuffix(name, ".toml") {
		return vmtest.PlanByName(name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return vmtest.Plan{}, fmt.Errorf("scenario file: %w", err)
	}
	base := vmtest.Default()
	base.Name = strings.TrimSuffix(name[strings.LastIndex(name, "/")+1:], ".toml")
	s, err := vmtest.Decode(base, name, text)
	if err != nil {
		return vmtest.Plan{}, err
	}
	return vmtest.FilePlan(s), nil
}

// settings gathers --set, --seed and --kernel.
func (c *runCmd) settings() ([]vmtest.Setting, error) {
	var out []vmtest.Setting
	for _, arg := range c.Set {
		s, err := vmtest.ParseSetting(arg)
		if err != nil {
			return nil, fmt.Errorf("--set: %w", err)
		}
		out = append(out, s)
	}
	if c.Kernel != "" {
		out = append(out, vmtest.Setting{Key: "kernel", Value: c.Kernel})
	}
	if c.Seed != nil {
		out = append(out, vmtest.Setting{Key: "seed", Value: strconv.FormatUint(*c.Seed, 10)})
	}
	return out, nil
}
