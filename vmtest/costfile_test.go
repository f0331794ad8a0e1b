package vmtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

func costFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "costs.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGuestTableOfAFile(t *testing.T) {
	table, err := vmtest.GuestTable(costFile(t, "about = \"mine\"\nguest_cpu_base = \"kvm-2013\"\n[guest.kick]\nns = 1234.5\nkind = \"measured\"\nnote = \"here\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	base, err := vmtest.GuestTable("kvm-2013")
	if err != nil {
		t.Fatal(err)
	}
	kick := table.Entries()[vcpu.OpKick]
	if kick.Picos != 1234500 || kick.Source != vcpu.Measured || kick.Note != "here" || kick.Name != "kick" || table.About() != "mine" {
		t.Errorf("kick is %+v of %q", kick, table.About())
	}
	if table.Picos(vcpu.OpIRQ) != base.Picos(vcpu.OpIRQ) {
		t.Error("what the file does not have is not as in its base")
	}
}

func TestBadCostFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[guest.kik]\nns = 1\n", `the nearest is "kick"`},
		{"[guest.kick]\nns = -1\n", "[guest.kick] needs ns from 0"},
		{"[guest.kick]\nns = 1\nkind = \"guessed\"\n", "assumed, sourced, measured"},
		{"[guest.kick]\nnanos = 1\n", "unknown key guest.kick.nanos"},
		{"guest_cpu_base = \"xen\"\n", "guest_cpu_base"},
		{"[guest.kick\n", "costs.toml"},
	} {
		if _, err := vmtest.GuestTable(costFile(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
	if _, err := vmtest.GuestTable("./nowhere.toml"); err == nil || !strings.Contains(err.Error(), "nowhere.toml") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := vmtest.GuestTable("kvn"); err == nil || !strings.Contains(err.Error(), `"kvm"`) {
		t.Errorf("an unknown table: %v", err)
	}
}
