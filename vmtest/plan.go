package vmtest

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Variant is one kernel of a plan, with the changes made to it.
type Variant struct {
	Kernel   string
	Release  string // "" is the kernel's default
	Remedies []string
	Case     string    // names the variants that belong together in the plan; "" if all do
	Settings []Setting // what else differs; a key that the command line sets is left to it
}

// Plan is a base scenario and what spans the runs of one command: the variants
// of the kernel, outermost, and axes. Its zero axes are single points of Base.
type Plan struct {
	Name     string
	Doc      string // one line
	Base     Scenario
	Variants []Variant // plain ones before their remedied ones
	Axes     []Axis
	Notes    []string // what Fit left out or changed, a line each

	// Frontier are the policies that are tried on guests with which the adaptive one
	// misses something, the first without any; nil if the plan does not ask for that.
	Frontier []string

	// ForReal takes out of Base what only a model has to be told, for a guest with
	// real kernels; nil if there is nothing.
	ForReal func(*Scenario)

	fixed map[string]bool // keys that Set was given
}

// Axis is a key that takes several values, in order.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// plans are the named plans; the first is the default.
var plans = []func() Plan{mqSmallPackets, tsoLeftover, bbrGSOOff, ccLinks, realKernels, guestRemedies, policies, fix, fixWorkloads, agreement, agreementEffects}

// Plans returns the named plans, the default first.
func Plans() []Plan {
	out := make([]Plan, len(plans))
	for i, p := range plans {
		out[i] = p()
	}
	return out
}

// PlanByName returns a named plan; an error offers the nearest name.
func PlanByName(name string) (Plan, error) {
	names := make([]string, 0, len(plans))
	for _, p := range Plans() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Plan{}, fmt.Errorf("unknown scenario %q; the nearest is %q, and a path to a file needs a / or ends in .toml", name, Nearest(name, names))
}

// FilePlan is the plan of a scenario file: one run, until a list of values
// makes it several.
func FilePlan(s Scenario) Plan {
	return Plan{Name: s.Name, Doc: "a scenario file", Base: s,
		Variants: []Variant{{Kernel: s.Kernel, Release: s.Release, Remedies: s.Remedies}},
		fixed:    map[string]bool{"duration": true, "warmup": true}}
}

func mqSmallPackets() Plan {
	s := Default()
	s.Name = "mq-small-packets"
	s.Kernel, s.GuestCPU = "3.8", "kvm-2013"
	s.Duration = 50 * time.Millisecond
	both := []string{"win-divisor-1", "no-full-size-test"}
	return Plan{
		Name: s.Name,
		Doc:  "report 002: small writes over one queue pair and over two, more and smaller packets",
		Base: s,
		Variants: []Variant{
			{Kernel: "3.8", Release: ReleaseOrphan, Remedies: []string{}},
			{Kernel: "3.8", Release: ReleaseOrphan, Remedies: both},
			{Kernel: "6.12", Release: ReleaseNAPI, Remedies: []string{}},
		},
		Axes: []Axis{{"queue_pairs", []string{"1", "2"}}},
	}
}

// axisKeys are the keys for which a list of values, separated by commas, makes
// an axis.
var axisKeys = []string{"kernel", "release", "remedies", "queue_pairs", "write", "policy",
	"host", "think", "flows", "ring", "ring_size", "in_order", "qdisc", "cc", "tso", "gso", "seed", "link.rate", "link.delay"}

// Setting is one KEY=VALUE of the command line.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ParseSetting splits KEY=VALUE.
func ParseSetting(arg string) (Setting, error) {
	k, v, ok := strings.Cut(arg, "=")
	if !ok || k == "" {
		return Setting{}, fmt.Errorf("%q is not KEY=VALUE, such as write=64k", arg)
	}
	return Setting{strings.TrimSpace(k), strings.TrimSpace(v)}, nil
}

// Set applies the settings of a command line. A key that the plan spans is
// fixed by a value and spanned anew by a list. Setting kernel, release,
// queue_pairs or policy leaves the remedied variants out unless remedies, or a
// switch of TCP, is set too.
func (p *Plan) Set(settings []Setting) error {
	var narrowed, asked bool
	for _, st := range settings {
		values := splitList(st.Key, st.Value)
		for _, v := range values {
			probe := p.Base.Clone()
			if err := probe.Set(st.Key, v); err != nil {
				return err
			}
		}
		if len(values) > 1 && !contains(axisKeys, st.Key) {
			return fmt.Errorf("%s: a list of values is for %s; write one value", st.Key, strings.Join(axisKeys, ", "))
		}
		switch st.Key {
		case "kernel", "release", "queue_pairs", "policy":
			narrowed = true
		}
		if st.Key == "remedies" || strings.HasPrefix(st.Key, "tcp.") {
			asked = true
		}
		p.apply(st.Key, values)
		if p.fixed == nil {
			p.fixed = map[string]bool{}
		}
		p.fixed[st.Key] = true
	}
	if narrowed && !asked {
		p.dropRemedied()
	}
	p.fitTopology()
	return nil
}

// fitTopology leaves out what TopologyVeth has not: releases of skbs, queue pairs,
// and CPUs but one, unless the command line asks for them.
func (p *Plan) fitTopology() {
	if p.Base.Topology != TopologyVeth {
		return
	}
	for _, key := range []string{"vcpus", "queue_pairs"} {
		if !p.fixed[key] {
			p.spanAxis(key, []string{"1"})
			p.fixed[key] = true
		}
	}
	if p.fixed["release"] {
		return
	}
	for i := range p.Variants {
		p.Variants[i].Release = ""
	}
	p.Variants = dedup(p.Variants)
}

// splitList splits a list at its commas, but not inside a policy's k=v,k=v.
func splitList(key, value string) []string {
	parts := strings.Split(value, ",")
	if key != "policy" {
		return parts
	}
	out := parts[:1:1]
	for _, s := range parts[1:] {
		if head, _, _ := strings.Cut(s, "+"); strings.Contains(head, "=") && !strings.Contains(head, ":") {
			out[len(out)-1] += "," + s
			continue
		}
		out = append(out, s)
	}
	return out
}

func (p *Plan) apply(key string, values []string) {
	switch key {
	case "kernel":
		p.spanKernels(values)
	case "release":
		p.spanReleases(values)
	case "remedies":
		p.spanRemedies(values)
	default:
		p.spanAxis(key, values)
	}
}

// spanKernels keeps releases and remedies that the command line named before.
func (p *Plan) spanKernels(kernels []string) {
	var out []Variant
	for _, k := range kernels {
		for _, v := range p.Variants {
			v.Kernel = k
			if !p.fixed["release"] {
				v.Release = ""
			}
			if !p.fixed["remedies"] {
				v.Remedies = []string{}
			}
			out = append(out, v)
		}
	}
	p.Variants = dedup(out)
}

func (p *Plan) spanReleases(releases []string) {
	var out []Variant
	for _, v := range p.plain() {
		for _, r := range releases {
			if r == "default" {
				r = ""
			}
			v.Release = r
			out = append(out, v)
		}
	}
	p.Variants = dedup(out)
}

func (p *Plan) spanRemedies(sets []string) {
	var out []Variant
	for _, v := range p.plain() {
		for _, set := range sets {
			var s Scenario
			_ = setRemedies(&s, set) // Set has checked it
			v.Remedies = s.Remedies
			out = append(out, v)
		}
	}
	p.Variants = out
}

func (p *Plan) spanAxis(key string, values []string) {
	for i := range p.Axes {
		if p.Axes[i].Key == key {
			p.Axes = append(p.Axes[:i:i], p.Axes[i+1:]...)
			break
		}
	}
	if len(values) == 1 {
		_ = p.Base.Set(key, values[0]) // Set has checked it
		return
	}
	p.Axes = append(p.Axes, Axis{key, values})
}

// plain returns the distinct kernels and releases without their remedies.
func (p *Plan) plain() []Variant {
	out := make([]Variant, 0, len(p.Variants))
	for _, v := range p.Variants {
		v.Remedies = []string{}
		out = append(out, v)
	}
	return dedup(out)
}

func dedup(in []Variant) []Variant {
	var out []Variant
	seen := map[string]bool{}
	for _, v := range in {
		k := v.Case + "|" + v.Kernel + "|" + v.Release + "|" + RemedyLabel(v.Remedies)
		if !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

func (p *Plan) dropRemedied() {
	var out []Variant
	for _, v := range p.Variants {
		if len(v.Remedies) == 0 {
			out = append(out, v)
		}
	}
	if len(out) > 0 {
		p.Variants = out
	}
}

// Fit adapts the plan to a guest with real kernels. Kernels that the command
// line did not name and of which the guest lacks one become its default one, or, in
// virtual time, those of the plan that it has; with each release of skbs that the plan has (both,
// where the command line named the kernel alone), and remedies that no unpatched
// kernel can have go. A named plan's durations, which are made for virtual time,
// become ones for real time where the guest runs in that. Notes says what was
// changed.
func (p *Plan) Fit(g Guest) {
	have := g.Kernels()
	if g.Name() == "sim" || len(have) == 0 {
		return
	}
	if p.ForReal != nil {
		p.ForReal(&p.Base)
	}
	kernels := p.kernels()
	if !p.fixed["kernel"] {
		runs := have[:1]
		if both := common(kernels, have); g.Name() == "uml" && len(both) > 0 || len(both) == len(kernels) {
			runs = both
		}
		if len(runs) != len(kernels) || runs[0] != kernels[0] {
			p.Notes = append(p.Notes, fmt.Sprintf("kernel %s: the guest runs %s instead", strings.Join(kernels, ", "), strings.Join(runs, ", ")))
		}
		kernels = runs
	}
	var out []Variant
	var dropped []string
	for _, k := range kernels {
		for _, v := range p.fitReleases() {
			v.Kernel = k
			if name, ok := unreal(v.Remedies); ok {
				dropped = append(dropped, name)
				continue
			}
			out = append(out, v)
		}
	}
	p.Variants = dedup(out)
	if len(dropped) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("left out: no unpatched kernel has the remedy %s", strings.Join(unique(dropped), ", ")))
	}
	if g.Name() != "uml" {
		p.fitTime()
	}
	p.fitTopology()
}

// common returns what is in both lists, in the order of the first.
func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// Times of a run in real time, which has boots and schedulers in it.
const (
	realDuration = 2 * time.Second
	realWarmUp   = 500 * time.Millisecond
)

func (p *Plan) fitTime() {
	if p.fixed["duration"] || p.Base.Duration >= realDuration {
		return
	}
	p.Notes = append(p.Notes, fmt.Sprintf("duration %v: %v in real time", p.Base.Duration, realDuration))
	p.Base.Duration = realDuration
	if !p.fixed["warmup"] {
		p.Base.WarmUp = realWarmUp
	}
}

func (p *Plan) kernels() []string {
	var out []string
	for _, v := range p.Variants {
		if !contains(out, v.Kernel) {
			out = append(out, v.Kernel)
		}
	}
	return out
}

// fitReleases are the plan's variants without their kernels.
func (p *Plan) fitReleases() []Variant {
	if p.fixed["kernel"] && !p.fixed["release"] && !p.fixed["remedies"] && !p.cased() {
		return []Variant{{Release: ReleaseOrphan, Remedies: []string{}}, {Release: ReleaseNAPI, Remedies: []string{}}}
	}
	out := make([]Variant, 0, len(p.Variants))
	for _, v := range p.Variants {
		v.Kernel = ""
		out = append(out, v)
	}
	return dedup(out)
}

// cased reports whether the plan's variants are cases, which differ by more than
// kernel and release.
func (p *Plan) cased() bool {
	for _, v := range p.Variants {
		if v.Case != "" {
			return true
		}
	}
	return false
}

func unreal(names []string) (string, bool) {
	for _, n := range names {
		if r, err := remedyByName(n); err == nil && !r.Real() {
			return n, true
		}
	}
	return "", false
}

func unique(in []string) []string {
	sort.Strings(in)
	var out []string
	for i, s := range in {
		if i == 0 || s != in[i-1] {
			out = append(out, s)
		}
	}
	return out
}

// PlannedRun is one run of a plan.
type PlannedRun struct {
	Label    string            // distinguishes the run within the plan, fit for a file name
	Axes     map[string]string // the plan's axes and this run's values on them
	Settings []Setting         // what its case sets over the plan's base, before the axes
	Scenario Scenario
}

// Runs spans the plan: for each variant, in order, every combination of the
// axes, the last axis innermost.
func (p *Plan) Runs() ([]PlannedRun, error) {
	var out []PlannedRun
	for _, v := range p.Variants {
		s, err := p.variant(v)
		if err != nil {
			return nil, err
		}
		first := len(out)
		label := v.Kernel
		if v.Case != "" {
			label = v.Case + "-" + label
		}
		if v.Release != "" {
			label += "-" + v.Release
		}
		if len(v.Remedies) > 0 {
			label += "-" + RemedyLabel(v.Remedies)
		}
		point := map[string]string{}
		if v.Case != "" {
			point["case"] = v.Case
		}
		if err := p.expand(&out, s, label, point, p.Axes); err != nil {
			return nil, err
		}
		for i := first; i < len(out); i++ {
			out[i].Settings = p.open(v.Settings)
		}
	}
	return out, nil
}

// variant is the base with the variant's differences.
func (p *Plan) variant(v Variant) (Scenario, error) {
	s := p.Base.Clone()
	s.Kernel, s.Release, s.Remedies = v.Kernel, v.Release, append([]string{}, v.Remedies...)
	for _, st := range p.open(v.Settings) {
		if err := s.Set(st.Key, st.Value); err != nil {
			return s, err
		}
	}
	return s, nil
}

// open are the settings of keys that the command line left open.
func (p *Plan) open(settings []Setting) []Setting {
	out := []Setting{}
	for _, st := range settings {
		if !p.fixed[st.Key] {
			out = append(out, st)
		}
	}
	return out
}

func (p *Plan) expand(out *[]PlannedRun, s Scenario, label string, point map[string]string, axes []Axis) error {
	if len(axes) == 0 {
		if p.single("queue_pairs") {
			label += fmt.Sprintf("-%dq", s.QueuePairs)
		}
		if err := s.Validate(); err != nil {
			return err
		}
		*out = append(*out, PlannedRun{Label: FileSafe(label), Axes: cloneMap(point), Scenario: s})
		return nil
	}
	for _, v := range axes[0].Values {
		c := s.Clone()
		if err := c.Set(axes[0].Key, v); err != nil {
			return err
		}
		part := axes[0].Key + "=" + v
		if axes[0].Key == "queue_pairs" {
			part = v + "q"
		}
		point[axes[0].Key] = v
		if err := p.expand(out, c, label+"-"+part, point, axes[1:]); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) single(key string) bool {
	for _, a := range p.Axes {
		if a.Key == key {
			return false
		}
	}
	return true
}

// FileSafe is a label, or a kernel in one, fit for the name of a file.
func FileSafe(label string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == ':' || r == ' ' {
			return '_'
		}
		return r
	}, label)
}
