package report

import (
	"fmt"
	"strings"

	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/conclude"
	"github.com/vnetbench/vnetbench/cmd/vnetbench/internal/grid"
	"github.com/vnetbench/vnetbench/vmtest"
)

// story writes the conclusions, those about the same two runs together.
func story(r *vmtest.Result) string {
	if len(r.Conclusions) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nWhat happened:\n")
	for i := 0; i < len(r.Conclusions); {
		n := i
		for n < len(r.Conclusions) && r.Conclusions[n].Subject == r.Conclusions[i].Subject {
			n++
		}
		paragraph(&b, r.Conclusions[i:n])
		i = n
	}
	if all := conclude.Regression(r.Runs); all != "" {
		b.WriteString(grid.Wrap(all, Width, "", "  "))
	}
	return b.String()
}

// paragraph writes the statements about one subject, and whether they survive
// other costs.
func paragraph(b *strings.Builder, cs []vmtest.Conclusion) {
	b.WriteString(grid.Wrap(cs[0].Subject+verdict(cs), Width, "", "  "))
	last := ""
	for _, c := range cs {
		f := flips(c)
		text := f
		if f != "" && f == last {
			text = " [FLIPS likewise]"
		}
		if f != "" {
			last = f
		}
		b.WriteString(grid.Wrap(c.Text+text, Width, "  - ", "    "))
	}
}

// mostFlips is how many changes of costs are named; the result as JSON has all.
const mostFlips = 6

// flips names the changes of costs that turn a statement round, those by the
// same factor together, or says how many there are.
func flips(c vmtest.Conclusion) string {
	if len(c.Flips) > mostFlips {
		return fmt.Sprintf(" [FLIPS with %d of %d changes of a cost]", len(c.Flips), len(c.Tested)*len(conclude.Factors))
	}
	var parts []string
	for _, factor := range conclude.Factors {
		var costs []string
		for _, f := range c.Flips {
			if f.Factor == factor {
				costs = append(costs, f.Cost)
			}
		}
		if len(costs) > 0 {
			parts = append(parts, strings.Join(costs, " or ")+" is "+factorWords(factor))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " [FLIPS when " + strings.Join(parts, ", or ") + "]"
}

func factorWords(f float64) string {
	switch f {
	case 0.5:
		return "halved"
	case 2:
		return "doubled"
	}
	return fmt.Sprintf("multiplied by %g", f)
}

// verdict says how many assumed costs the statements were tried with.
func verdict(cs []vmtest.Conclusion) string {
	tested, held := 0, 0
	for _, c := range cs {
		tested = max(tested, len(c.Tested))
		if c.Holds {
			held++
		}
	}
	if tested == 0 {
		return ""
	}
	if held == len(cs) {
		return fmt.Sprintf(" (holds if any of %d assumed costs is halved or doubled)", tested)
	}
	return fmt.Sprintf(" (%d of %d hold if any of %d assumed costs is halved or doubled)", held, len(cs), tested)
}
