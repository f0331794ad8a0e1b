package doctor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/vmtest/doctor"
)

// TestRun makes the checks on this machine: each says something, in a line, and
// what is missing either has a command or explains itself.
func TestRun(t *testing.T) {
	checks := doctor.Run(context.Background())
	seen := map[string]bool{}
	for _, c := range checks {
		t.Log(c)
		seen[c.Name] = true
		if c.Detail == "" || strings.Contains(c.String(), "\n") {
			t.Errorf("%s: %q", c.Name, c.String())
		}
		if c.OK && c.Mend != "" {
			t.Errorf("%s is there and has a remedy, %q", c.Name, c.Mend)
		}
	}
	for _, name := range []string{"qemu", "qemu, newer", "kvm", "kernel 6.1", "kernel 6.12", "network namespace", "tap", "user mode 6.1", "user mode 6.12", "user mode, package"} {
		if !seen[name] {
			t.Errorf("no check of %s", name)
		}
	}
}

func TestHealthy(t *testing.T) {
	for _, c := range []struct {
		checks []doctor.Check
		want   bool
	}{
		{nil, true},
		{[]doctor.Check{{OK: true}, {Optional: true}}, true},
		{[]doctor.Check{{OK: true}, {Name: "qemu"}}, false},
	} {
		if got := doctor.Healthy(c.checks); got != c.want {
			t.Errorf("%v: %v", c.checks, got)
		}
	}
}

func TestString(t *testing.T) {
	for _, c := range []struct {
		check doctor.Check
		want  string
	}{
		{doctor.Check{Name: "qemu", OK: true, Detail: "/usr/bin/q"}, "qemu               ok: /usr/bin/q"},
		{doctor.Check{Name: "kvm", Optional: true, Detail: "no"}, "kvm                not here, not needed: no"},
		{doctor.Check{Name: "tap", Detail: "no", Mend: "modprobe tun"}, "tap                MISSING: no: `modprobe tun`"},
	} {
		if got := c.check.String(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
