package qemuguest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
)

// buildSender builds the program of testdata as a user would.
func buildSender(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "sender")
	cmd := exec.Command("go", "build", "-o", out, "./testdata/sender")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	return out
}

// TestProgram runs a program of the user's in the place of our sender.
func TestProgram(t *testing.T) {
	needGuest(t, "6.1")
	r := run(t, scenario(1), qemuguest.Config{Program: buildSender(t), Args: []string{"3000000"}})
	checkKicks(t, r)
	if len(r.Flows) != 1 || r.Flows[0].Bytes != 3_000_000 || r.Totals.Bytes < 3_000_000 {
		t.Errorf("flows %+v, %d bytes at the device; want one flow of 3000000", r.Flows, r.Totals.Bytes)
	}
	if len(r.Warnings) != 1 {
		t.Errorf("warnings %q, want the one about emulation", r.Warnings)
	}
}

// TestProgramErrors: what cannot run in the guest is found before it boots.
func TestProgramErrors(t *testing.T) {
	needGuest(t, "6.1")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/no/such/file": "no such file", text: "no executable", "/bin/sh": "dynamically linked",
	} {
		_, err := qemuguest.New(qemuguest.Config{Program: path}).Run(context.Background(), scenario(1), vmtest.Options{})
		if !errors.Is(err, qemuguest.ErrGuestProgram) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %v with %q", path, err, qemuguest.ErrGuestProgram, want)
		}
	}
}
