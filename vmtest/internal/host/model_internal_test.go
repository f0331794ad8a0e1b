package host

import (
	"errors"
	"testing"

	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/vmtest"
)

// Every built-in model says of each cost what it is and where that is from.
func TestModelsAreComplete(t *testing.T) {
	for _, name := range vmtest.HostModels() {
		f, err := vmtest.HostCosts(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := modelByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.About == "" || f.HostBase != "" || len(f.Guest) > 0 || len(f.Host) != numCosts {
			t.Errorf("%s: about %q, base %q, %d costs of %d", name, f.About, f.HostBase, len(f.Host), numCosts)
		}
		for _, e := range m.Entries() {
			if e.Kind > vcpu.Defined || len(e.Note) < 12 {
				t.Errorf("%s: %s is %v: %q", name, e.Name, e.Kind, e.Note)
			}
		}
	}
	if _, err := vmtest.HostCosts("../guest/kvm"); !errors.Is(err, vmtest.ErrUnknownCosts) {
		t.Errorf("a path is no name: %v", err)
	}
}
