package vhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The rows of the list of faults that matter most have a guard in the code and a
// test. Here each guard is taken out, by an overlay of the build that leaves the
// files as they are, and its test has to fail. A test that does not notice is
// worth nothing.

// guardsFlag: which guards TestGuards takes out.
var guardsFlag = flag.String("guards", "few", "guards that TestGuards takes out: few, all, none, or the number of a row")

// guard is what protects from a fault: a piece of text that occurs once in a
// file, and what is there instead when it is taken out.
type guard struct {
	row      int
	file     string // from the module's directory
	old, new string
	more     []edit // where more than one line guards: each alone would do
	pkg      string // of the test
	few      bool   // taken out in the short form too
}

// edit is a further piece of text of a guard.
type edit struct{ file, old, new string }

// edits are all pieces of the guard.
func (g *guard) edits() []edit { return append([]edit{{g.file, g.old, g.new}}, g.more...) }

var guards = []guard{
	{row: 1, file: "vhost/wire/decode.go", pkg: "vhost",
		old: "if len(b) >= 40 {", new: "if len(b) >= 36 {"},
	{row: 3, file: "vhost/session.go", pkg: "vhost", few: true,
		old: "return m.NeedReply() && !m.Request.HasOwnReply() && s.protocol", new: "return m.NeedReply() && s.protocol"},
	{row: 12, file: "vhost/channel.go", pkg: "vhost",
		old: "	osio.CloseAll(c.fds)\n	c.fds, c.buf = nil, c.buf[:0]", new: "	c.fds, c.buf = nil, c.buf[:0]"},
	{row: 20, file: "vhost/runner.go", pkg: "vhost",
		old: "	if err := osio.SendOrWrite(r.backend, b); err != nil {",
		new: "	err := osio.SendOrWrite(r.backend, b)\n	for answer := [8]byte{}; ; {\n		if n, _ := osio.ReadEvent(r.backend, &answer); n > 0 {\n			break\n		}\n	}\n	if err != nil {"},
	{row: 25, file: "vhost/memory.go", pkg: "vhost",
		old: "		s.startAll(m, func(m wire.Message) { s.reportLost(m, ran, strict) })", new: "		s.reportLost(m, ran[:0], strict)"},
	{row: 40, file: "virtio/netdev/pair.go", pkg: "vhost",
		old: "p.TX.enabled, p.TX.more = tx, p.TX.q != nil", new: "p.TX.enabled, p.TX.more = tx, false",
		more: []edit{
			{"virtio/netdev/tx.go", "!t.blocked && (t.more || t.q.Pending() > 0)", "!t.blocked && t.more"},
			{"virtio/netdev/queue.go", "	q.more = q.q.EnableKicks()\n", "	q.q.EnableKicks()\n"},
		}},
	{row: 41, file: "virtio/netdev/queue.go", pkg: "virtio/netdev",
		old: "q.broken, q.awake, q.more, q.staged = nil, false, true, 0", new: "q.broken, q.awake, q.more, q.staged = nil, false, false, 0"},
	{row: 44, file: "vhost/launch.go", pkg: "vhost",
		old: "r.running, r.base = false, res.Base", new: "r.running, r.base = false, res.Base&0"},
	{row: 61, file: "vhost/attach.go", pkg: "vhost",
		old: "	r.maps = keep\n", new: "	r.maps = keep\n	r.mem = nil\n	if r.sess.stats.MemoryChanges > 1 {\n		return\n	}\n"},
	{row: 64, file: "virtio/ring/notify.go", pkg: "virtio/ring",
		old: "		return true, CallFirst", new: "		known = true"},
	{row: 65, file: "virtio/ring/device.go", pkg: "virtio/ring",
		old: "	shm.Store16(d.usedFlags, 0)\n	d.logUsed(0, 2)\n	d.EnableKicks()", new: "	d.logUsed(0, 2)"},
	{row: 84, file: "virtio/ring/chain.go", pkg: "virtio/ring",
		old: "			return ErrNext\n		}\n		if left--; left == 0 {\n			return ErrLoop\n		}\n	}\n}\n\n// walkIndirect",
		new: "			return ErrNext\n		}\n		if left--; left == 0 {\n			return 0\n		}\n	}\n}\n\n// walkIndirect"},
	{row: 85, file: "virtio/ring/chain.go", pkg: "virtio/ring",
		old: "	if n == 0 {\n		return ErrZeroLen\n	}\n", new: ""},
	{row: 86, file: "virtio/ring/chain.go", pkg: "virtio/ring", few: true,
		old: "d.reads.Slice(addr, n)", new: "d.reads.Slice(addr, 16)"},
	{row: 95, file: "virtio/netdev/view.go", pkg: "virtio/netdev",
		old: "		iov = cut(iov, raw[:hdrLen])\n", new: "		copy(raw[:hdrLen], first)\n"},
	{row: 100, file: "virtio/ring/chain.go", pkg: "virtio/netdev",
		old: "		i = uint(meta >> 48)\n		if i >= uint(len(d.desc)) {\n			return ErrNext\n		}\n",
		new: "		i = uint(meta >> 48)\n"},
	{row: 109, file: "virtio/netdev/gso.go", pkg: "virtio/netdev", few: true,
		old: "	case v.hdr.GSOSize < minGSOSize || in.Layer", new: "	case in.Layer"},
	{row: 112, file: "virtio/netdev/deliver.go", pkg: "virtio/netdev",
		old: "	h.NumBuffers = 1\n", new: "	h.NumBuffers = 0\n"},
	{row: 136, file: "virtio/netdev/device.go", pkg: "virtio/netdev",
		old: "	if d.ctrlRuns.Load() {\n", new: "	if false {\n"},
	{row: 156, file: "virtio/ring/log.go", pkg: "vhost",
		old: "		if page/32 >= uint64(len(l.words)) {\n			l.missed += last - page + 1\n			return\n		}\n", new: ""},
	{row: 157, file: "virtio/ring/log.go", pkg: "vhost",
		old: "	for page, last := gpa/LogPage, (gpa+n-1)/LogPage; page <= last; page++ {",
		new: "	for page, last := gpa/LogPage, gpa/LogPage; page <= last; page++ {"},
	{row: 169, file: "guest/driver/tx.go", pkg: "vmtest/simguest",
		old: "	if !q.cfg.NAPI {\n		p.Orphan()\n	}\n", new: ""},
	{row: 170, file: "virtio/ring/wish.go", pkg: "vmtest/simguest",
		old: "bufs := uint16(uint32(q.avail-q.reaped) * 3 / 4)", new: "bufs := uint16(uint32(q.avail-q.reaped) * 0)"},
	{row: 172, file: "virtio/netdev/complete.go", pkg: "virtio/netdev", few: true,
		old: "t.due < t.policy.enough(t.size) && now <", new: "t.due < t.policy.enough(t.size) || now <"},
}

func TestGuards(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, g := range guards {
		without, ok := g.without(t, root)
		if !ok || !g.wanted() {
			continue
		}
		taken++
		t.Run(fmt.Sprintf("%03d", g.row), func(t *testing.T) { g.takeOut(t, root, without) })
	}
	t.Logf("%d of %d guards were taken out (-guards %s)", taken, len(guards), *guardsFlag)
}

// without returns the texts of the guard's files without it. The guard has to be
// there, in full, so that a change of the code does not make the check void.
func (g *guard) without(t *testing.T, root string) (texts map[string]string, ok bool) {
	t.Helper()
	texts, ok = map[string]string{}, true
	for _, e := range g.edits() {
		path := filepath.Join(root, e.file)
		if _, have := texts[path]; !have {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(b)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			t.Errorf("row %d: its guard is %d times in %s, want once:\n%s", g.row, n, e.file, e.old)
			ok = false
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	return texts, ok
}

func (g *guard) wanted() bool {
	switch *guardsFlag {
	case "all":
		return true
	case "few":
		return g.few && !testing.Short()
	}
	return *guardsFlag == fmt.Sprint(g.row)
}

// takeOut runs the tests of the row with other texts in the place of the guard's
// files. They have to build and to fail: by a report of their own, by a
// panic of what was unguarded, or because they do not end.
func (g *guard) takeOut(t *testing.T, root string, texts map[string]string) {
	list := overlay(t, texts)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	name := fmt.Sprintf("TestFault%03d", g.row)
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", list, "-count=1", "-timeout=20s", "-run", "^"+name, "./"+g.pkg)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		t.Errorf("without its guard in %s, %s still passes:\n%s", g.file, name, out)
	case !errors.As(err, &exit) || ctx.Err() != nil:
		t.Fatalf("go test: %v\n%s", err, out)
	case !failure(name).Match(out):
		t.Errorf("go test failed, but not by %s:\n%s", name, out)
	}
}

// overlay writes the texts to files and returns the list of them that the build
// reads.
func overlay(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}

// failure matches the output of a test that failed, or that panicked or did not
// end: no other runs.
func failure(name string) *regexp.Regexp {
	return regexp.MustCompile(`--- FAIL: ` + name + `|(?m)^(panic|fatal error): `)
}
