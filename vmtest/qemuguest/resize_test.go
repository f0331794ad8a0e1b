package qemuguest

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestResize changes the sizes of the rings in the guest, as `ethtool -G` does, while
// TCP runs: a driver that resets a queue (RING_RESET) takes its memory back. No QEMU
// tried so far tells a vhost-user back-end of it, though all acknowledge the bit.
// So it is not offered, the guest's driver refuses, and nothing breaks.
func TestResize(t *testing.T) {
	needMove(t)
	onEmulators(t, func(t *testing.T, e Emulator) {
		for _, packed := range []bool{false, true} {
			if packed == e.patchesSafely() && !Long() {
				continue
			}
			t.Run(fmt.Sprintf("packed=%v", packed), func(t *testing.T) { testResize(t, e, packed) })
		}
	})
}

func testResize(t *testing.T, e Emulator, packed bool) {
	Rows.Add(t, e, "6.12", packed, "ethtool -G under TCP: refused, nothing breaks")
	m := newMove(t, e)
	m.config.nic.packed = packed
	m.useKernel("6.12", "--resize")
	m.boot()
	m.connect()
	m.flow(0)
	m.flow(100 * time.Millisecond)
	m.finish()
	m.vm.waitEnd(endPatience)
	said := regexp.MustCompile(`rings resized (\d+) times, refused (\d+) times, last .*`).FindStringSubmatch(m.config.console.last(consoleLines))
	if said == nil {
		t.Fatalf("the guest's program did not say what became of it; console: %s", m.config.console.last(10))
	}
	t.Log(said[0])
	resized, _ := strconv.Atoi(said[1])
	refused, _ := strconv.Atoi(said[2])
	if resized != 0 || refused == 0 {
		t.Errorf("resized %d times, refused %d times; want only refusals", resized, refused)
	}
}
