package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/vnetbench/vnetbench/vmtest/doctor"
)

// doctorCmd says what a QEMU guest would find here.
type doctorCmd struct {
	Install bool   `help:"Install what is missing first, with apt-get, as root."`
	Format  string `enum:"text,json" default:"text" help:"text or json."`
}

// errMissing ends a command that found something missing; the checks have said
// what.
var errMissing = errors.New("not all that a QEMU guest needs is here; the simulated guest needs none of it")

// Run is the command. After --install what is still missing (a tap in a
// container, say) is told but no failure: nothing more can be installed.
func (c *doctorCmd) Run(s *streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.Install {
		if err := doctor.Install(ctx, s.err); err != nil {
			return usage(err)
		}
	}
	checks := doctor.Run(ctx)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err := c.print(s, checks); err != nil {
		return err
	}
	if !doctor.Healthy(checks) && !c.Install {
		return errMissing
	}
	return nil
}

func (c *doctorCmd) print(s *streams, checks []doctor.Check) error {
	if c.Format == "json" {
		return printJSON(s, checks)
	}
	for _, k := range checks {
		if _, err := fmt.Fprintln(s.out, k); err != nil {
			return err
		}
	}
	return nil
}

// jsonCheck is a check in JSON.
type jsonCheck struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Optional bool   `json:"optional"` // a guest runs without it
	Detail   string `json:"detail"`   // where it is, or why it cannot be used
	Mend     string `json:"mend"`     // the command that helps; may be empty
}

func printJSON(s *streams, checks []doctor.Check) error {
	out := []jsonCheck{}
	for _, k := range checks {
		out = append(out, jsonCheck{k.Name, k.OK, k.Optional, k.Detail, k.Mend})
	}
	e := json.NewEncoder(s.out)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
