package vmtest

import (
	"os"
	"strings"
)

// CPUModel is the name that this machine's kernel gives its processor, empty if it
// gives none.
func CPUModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, " \t:"))
		}
	}
	return ""
}
