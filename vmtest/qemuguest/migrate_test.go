package qemuguest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// times is how often something is done: as often as the variable says, or n times.
func times(t *testing.T, variable string, n int) int {
	text := os.Getenv(variable)
	if text == "" {
		return n
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// needMove skips a test that needs virtual machines on a bridge; where CI=true, not
// having them is a failure.
func needMove(t *testing.T) {
	t.Helper()
	why := missingForMigration()
	if why == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, NOT TESTED:", why)
}

// TestMigration moves a guest to and fro, twice or as often as
// VNETBENCH_MIGRATIONS says, between two `vnetbench serve`, each with
// a tap on one bridge, while a stream of random bytes goes to the guest and comes
// back over one TCP connection. Every byte is compared. The guest does not
// announce itself: it is RARP by the back-end that moves its address to the other
// port of the bridge, which is looked at.
func TestMigration(t *testing.T) {
	needMove(t)
	onEmulators(t, func(t *testing.T, e Emulator) {
		for _, packed := range []bool{false, true} {
			if !packed && e.patchesSafely() && !Long() {
				continue
			}
			t.Run(fmt.Sprintf("packed=%v", packed), func(t *testing.T) { testMigration(t, e, packed) })
		}
	})
}

func testMigration(t *testing.T, e Emulator, packed bool) {
	Rows.Add(t, e, "6.1", packed, "migration to and fro under TCP")
	m := newMove(t, e)
	m.config.nic.packed = packed
	m.boot()
	m.connect()
	m.flow(time.Second)
	for i := range times(t, "VNETBENCH_MIGRATIONS", 2) {
		begin := time.Now()
		before := m.echoed.Load()
		m.migrate()
		if got := m.echoed.Load(); got == before {
			t.Errorf("migration %d: nothing came back meanwhile", i)
		}
		m.flow(500 * time.Millisecond)
		if port := m.learned(); port != m.at {
			t.Errorf("migration %d: the bridge has the guest at port %d, want %d", i, port, m.at)
		}
		t.Logf("migration %d: %v, %d bytes echoed meanwhile", i, time.Since(begin).Round(time.Millisecond), m.echoed.Load()-before)
	}
	m.finish()
}

// TestPostcopyMigration is TestMigration with the guest running at the other
// back-end before its memory has come there.
func TestPostcopyMigration(t *testing.T) {
	needMove(t)
	onEmulators(t, func(t *testing.T, e Emulator) {
		if !e.patchesSafely() || Long() || len(Emulators(t.Context())) == 1 {
			testPostcopy(t, e)
		}
	})
}

func testPostcopy(t *testing.T, e Emulator) {
	Rows.Add(t, e, "6.1", false, "post-copy migration to and fro under TCP")
	m := newMove(t, e, "--postcopy")
	m.postcopy = true
	m.boot()
	m.connect()
	m.flow(300 * time.Millisecond)
	for range 2 {
		m.migrate()
		m.flow(300 * time.Millisecond)
	}
	m.finish()
	for i := range m.backends { // both have been the destination
		m.endBackend(i)
		if said := m.said[i].String(); !strings.Contains(said, "memory comes page by page") {
			t.Errorf("back-end %d took no part in it:\n%s", i, said)
		}
	}
}

// TestBehindIOMMU runs a slower stream through a device whose addresses an emulated
// IOMMU translates: the guest's driver maps and unmaps each buffer, QEMU is asked
// for what the back-end does not know, and takes back what the guest unmaps. The
// guest's kernel does so at once (iommu.strict): for what it puts off, QEMU 7.2
// was not seen to take anything back.
func TestBehindIOMMU(t *testing.T) {
	needMove(t)
	onEmulators(t, testIOMMU)
}

func testIOMMU(t *testing.T, e Emulator) {
	Rows.Add(t, e, "6.1", false, "addresses translated by an IOMMU")
	m := newMove(t, e, "--iommu", "--format", "json")
	m.every = 50 * time.Millisecond
	m.config.devices = []string{"-machine", "q35", "-device", "intel-iommu,intremap=off,device-iotlb=on"}
	m.config.kernelArgs = []string{"intel_iommu=on", "iommu.strict=1"}
	m.config.nic.more += ",disable-legacy=on,iommu_platform=on,ats=on"
	m.boot()
	m.connect()
	m.flow(300 * time.Millisecond)
	m.finish()
	m.vm.kill()
	m.endBackend(0)
	asked := regexp.MustCompile(`"translation_misses":(\d+)`).FindAllStringSubmatch(m.said[0].String(), -1)
	n := 0
	for _, a := range asked {
		k, _ := strconv.Atoi(a[1])
		n += k
	}
	if n < 50 {
		t.Errorf("%d translations were asked for", n)
	}
	t.Logf("%d translations were asked for", n)
}

// TestBackendKilledUnderQEMU kills the back-end under a guest's TCP, three times or
// as often as VNETBENCH_KILLS says, and starts it again: QEMU connects anew
// (reconnect=1), the connection goes on, and every byte is right. Then QEMU itself
// is killed, and the next one's guest comes up at the same back-end.
func TestBackendKilledUnderQEMU(t *testing.T) {
	needMove(t)
	onEmulators(t, testBackendKilled)
}

func testBackendKilled(t *testing.T, e Emulator) {
	Rows.Add(t, e, "6.1", false, "back-end killed under TCP, front-end killed")
	m := newMove(t, e)
	m.boot()
	m.connect()
	m.flow(300 * time.Millisecond)
	for range times(t, "VNETBENCH_KILLS", 3) {
		_ = m.backends[0].Process.Kill()
		_ = m.backends[0].Wait()
		m.ok(m.serve(0))
		m.flow(300 * time.Millisecond)
	}
	m.finish()
	m.vm.kill()
	m.fed, m.heard = make(chan int64, 1), make(chan error, 1)
	m.pause.Store(false)
	m.echoed.Store(0)
	m.boot()
	m.connect()
	m.flow(100 * time.Millisecond)
	m.finish()
}

func missingForMigration() string {
	if os.Geteuid() != 0 {
		return "needs root for a network namespace and taps"
	}
	if _, err := FindEmulator(context.Background()); err != nil {
		return err.Error()
	}
	if _, err := FindKernel("6.1"); err != nil {
		return err.Error()
	}
	if _, err := exec.LookPath("go"); err != nil {
		return err.Error()
	}
	return ""
}
