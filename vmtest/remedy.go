package vmtest

import (
	"fmt"
	"strings"
)

// Remedy is a named change to a kernel's TCP that a report proposed.
type Remedy struct {
	Name   string
	Doc    string
	Sysctl map[string]string // sysctls it sets; a real kernel can have these
	TCP    map[string]string // switches it sets; only a model, or a patched kernel, has these
}

// Real reports whether an unpatched kernel can have the remedy.
func (r Remedy) Real() bool { return len(r.TCP) == 0 }

var remedies = []Remedy{
	{"win-divisor-1", "tcp_tso_win_divisor=1: the first change of report 002",
		map[string]string{"tcp_tso_win_divisor": "1"}, nil},
	{"no-full-size-test", "tcp_tso_should_defer without its full-size test: the second change of report 002",
		nil, map[string]string{"defer_full_size_test": "off"}},
	{"grow", "tcp_write_xmit lengthens a short packet from its follower: the last patch of report 000 (v6.10)",
		nil, map[string]string{"grow": "on"}},
	{"bbr-gso-unaware", "BBR's budget does not know gso_max_segs: the patch of report 003 (v4.16)",
		nil, map[string]string{"bbr_gso_unaware": "on"}},
}

// Remedies returns the named remedies.
func Remedies() []Remedy { return append([]Remedy(nil), remedies...) }

// RemedyLabel names a set of remedies as the key remedies reads it.
func RemedyLabel(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "+")
}

func remedyByName(name string) (Remedy, error) {
	valid := make([]string, 0, len(remedies)+1)
	for _, r := range remedies {
		if r.Name == name {
			return r, nil
		}
		valid = append(valid, r.Name)
	}
	valid = append(valid, "none")
	return Remedy{}, fmt.Errorf("unknown remedy %q; the nearest is %q", name, Nearest(name, valid))
}

func setRemedies(s *Scenario, v string) error {
	names := []string{}
	for n := range strings.SplitSeq(v, "+") {
		if n == "none" {
			continue
		}
		if _, err := remedyByName(n); err != nil {
			return err
		}
		names = append(names, n)
	}
	s.Remedies = names
	return nil
}

// Applied returns the scenario with the sysctls and switches of its remedies
// set, where the scenario does not set them itself.
func (s Scenario) Applied() (Scenario, error) {
	out := s.Clone()
	for _, name := range s.Remedies {
		r, err := remedyByName(name)
		if err != nil {
			return out, err
		}
		fill(out.Sysctl, r.Sysctl)
		fill(out.TCP, r.TCP)
	}
	return out, nil
}

func fill(dst, src map[string]string) {
	for k, v := range src {
		if _, set := dst[k]; !set {
			dst[k] = v
		}
	}
}
