package ring_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"pgregory.net/rapid"
)

// chunk is the room for one chain's buffers in the data area.
const chunk = 1024

// job is a chain in the model queue.
type job struct {
	token   uint32
	chunk   int    // index of its room in the data area
	out, in int    // bytes
	slots   int    // descriptors of the ring that it takes
	head    uint16 // once taken
	n       int    // bytes written by the device, once pushed
}

// machine drives both sides of a ring and a model of what they owe each other.
type machine struct {
	*world
	event, indirect bool

	added  []*job // Add, not yet Publish
	avail  []*job // published, not yet taken
	taken  []*job // in the order they were taken
	staged []*job // pushed, not yet published
	used   []*job // published, not yet reaped
	chunks []int  // free
	free   int    // slots
	tokens uint32

	devAsleep bool // the device waits for a kick
	drvAsleep bool // the driver waits for a call
	threshold int  // used elements that the driver lets pass before it wants one
	unasked   int  // chains published since NeedKick
	fresh     int  // of these, since the device fell asleep
	uncalled  int  // elements published since NeedCall
	first     bool // no call was evaluated since the start

	kicked, called uint16 // indices at the last NeedKick and NeedCall
}

func newMachine(t *rapid.T, f virtio.Features) *machine {
	size := uint16(1) << rapid.IntRange(0, 8).Draw(t, "log size")
	base := rapid.SampledFrom([]uint16{0, 1, 32767, 65279, 65500, 65535}).Draw(t, "base")
	m := &machine{
		world: newWorldAt(t, size, f, base),
		event: f.Has(eventIdx), indirect: f.Has(indirect),
		free: int(size), first: true, kicked: base, called: base,
	}
	for i := range 512 {
		m.chunks = append(m.chunks, i)
	}
	return m
}

// pattern is byte i of the chain with this token, as one of the sides writes it.
func pattern(token uint32, i int, side byte) byte { return byte(token*31) + byte(i*7) + side }

// split cuts n bytes at gpa into k buffers, none of them empty.
func split(t *rapid.T, gpa uint64, n, k int) (b []ring.Buf) {
	for ; k > 1; k-- {
		m := rapid.IntRange(1, n-k+1).Draw(t, "buffer")
		b = append(b, ring.Buf{Addr: gpa, Len: uint32(m)})
		gpa, n = gpa+uint64(m), n-m
	}
	if n > 0 {
		b = append(b, ring.Buf{Addr: gpa, Len: uint32(n)})
	}
	return b
}

func (m *machine) Add(t *rapid.T) {
	for range rapid.IntRange(1, max(1, int(m.cfg.Size)/2)).Draw(t, "chains") {
		if !m.addOne(t) {
			return
		}
	}
}

// addOne adds a chain, which must be refused if and only if it has no room.
func (m *machine) addOne(t *rapid.T) bool {
	nOut, nIn := rapid.IntRange(0, 3).Draw(t, "out"), rapid.IntRange(0, 3).Draw(t, "in")
	if nOut+nIn == 0 {
		nOut = 1
	}
	k := m.chunks[0]
	j := &job{token: m.tokens, chunk: k, out: nOut * 40, in: nIn * 40, slots: nOut + nIn}
	if m.indirect && j.slots > 1 {
		j.slots = 1
	}
	gpa := uint64(dataAt + k*chunk)
	err := m.drv.Add(split(t, gpa, j.out, nOut), split(t, gpa+uint64(j.out), j.in, nIn), j.token)
	if fits := j.slots <= m.free; (err == nil) != fits {
		t.Fatalf("Add of %d slots with %d free: %v", j.slots, m.free, err)
	}
	if err != nil {
		return false
	}
	for i, b := 0, m.data(k*chunk, j.out); i < j.out; i++ {
		b[i] = pattern(j.token, i, 0)
	}
	clear(m.data(k*chunk+j.out, j.in))
	m.added, m.chunks = append(m.added, j), m.chunks[1:]
	m.free -= j.slots
	m.tokens++
	return true
}

func (m *machine) PublishAvail(*rapid.T) {
	m.drv.Publish()
	m.unasked += len(m.added)
	m.fresh += len(m.added)
	m.avail, m.added = append(m.avail, m.added...), nil
}

// passes reports whether a step from old to new passes event: whether the entry
// with that index is one of those from old on and before new.
func passes(event, old, new uint16) bool {
	for i := old; i != new; i++ {
		if i == event {
			return true
		}
	}
	return false
}

// Kick asks whether a kick is needed: a device that sleeps must get one.
func (m *machine) Kick(t *rapid.T) {
	need := m.drv.NeedKick()
	if m.devAsleep && m.fresh > 0 && !need {
		t.Fatalf("%d chains and no kick for a device that sleeps", m.fresh)
	}
	idx := m.kicked + uint16(m.unasked)
	want := m.usedFlags() == 0
	if m.event {
		want = passes(m.availEvent(), m.kicked, idx)
	}
	if need != want {
		t.Fatalf("NeedKick %v from %d to %d, event %d", need, m.kicked, idx, m.availEvent())
	}
	m.kicked = idx
	m.devAsleep = m.devAsleep && !need
	m.unasked, m.fresh = 0, 0
}

func (m *machine) Take(t *rapid.T) {
	for range rapid.IntRange(1, int(m.cfg.Size)).Draw(t, "chains") {
		ok, err := m.dev.Next(&m.c)
		if err != nil || ok != (len(m.avail) > 0) {
			t.Fatalf("Next: %v, %v with %d chains available", ok, err, len(m.avail))
		}
		if !ok {
			return
		}
		m.checkChain(t, m.avail[0])
		m.taken, m.avail = append(m.taken, m.avail[0]), m.avail[1:]
	}
}

// checkChain compares the chain just taken with what was added, and answers in
// its writable buffers.
func (m *machine) checkChain(t *rapid.T, j *job) {
	j.head = m.c.Head
	out := bytes.Join(m.c.Out, nil)
	if len(out) != j.out || int(m.c.OutLen) != j.out || int(m.c.InLen) != j.in {
		t.Fatalf("chain %d: %+v", j.token, m.c)
	}
	for i, v := range out {
		if v != pattern(j.token, i, 0) {
			t.Fatalf("chain %d: byte %d of another", j.token, i)
		}
	}
	i := 0
	for _, b := range m.c.In {
		for k := range b {
			b[k] = pattern(j.token, i, 1)
			i++
		}
	}
	if i != j.in {
		t.Fatalf("chain %d: %d writable bytes", j.token, i)
	}
}

func (m *machine) Unget(t *rapid.T) {
	n := 0
	for n < len(m.taken) && m.taken[len(m.taken)-1-n].n >= 0 {
		n++
	}
	n = rapid.IntRange(0, n).Draw(t, "back")
	m.dev.Unget(uint16(n))
	at := len(m.taken) - n
	m.avail = append(slices.Clone(m.taken[at:]), m.avail...)
	m.taken = m.taken[:at]
	m.devAsleep = m.devAsleep && n == 0 // it is awake if it does that
}

// Push gives chains back in any order.
func (m *machine) Push(t *rapid.T) {
	for range rapid.IntRange(0, int(m.cfg.Size)).Draw(t, "chains") {
		if m.dev.InFlight() == 0 {
			return
		}
		at := rapid.IntRange(0, len(m.taken)-1).Draw(t, "which")
		for m.taken[at].n < 0 { // pushed already
			at = (at + 1) % len(m.taken)
		}
		j := *m.taken[at]
		m.taken[at] = &job{n: -1}
		j.n = j.in
		m.dev.Push(j.head, uint32(j.in))
		m.staged = append(m.staged, &j)
	}
	for len(m.taken) > 0 && m.taken[0].n < 0 {
		m.taken = m.taken[1:]
	}
}

func (m *machine) PublishUsed(t *rapid.T) {
	if n := m.dev.Publish(); int(n) != len(m.staged) {
		t.Fatalf("%d published, %d staged", n, len(m.staged))
	}
	m.uncalled += len(m.staged)
	m.used, m.staged = append(m.used, m.staged...), nil
}

// Call asks whether a call is needed: a driver that sleeps must get one when the
// elements it lets pass are exceeded.
func (m *machine) Call(t *rapid.T) {
	need, why := m.dev.NeedCall()
	switch {
	case (m.uncalled == 0) != (why == ring.CallNoneUsed):
		t.Fatalf("%v with %d elements published", why, m.uncalled)
	case m.uncalled > 0 && m.first != (why == ring.CallFirst):
		t.Fatalf("%v, first %v", why, m.first)
	case m.drvAsleep && m.uncalled > 0 && len(m.used) > m.threshold && !need:
		t.Fatalf("no call (%v) for a driver that sleeps until more than %d of %d", why, m.threshold, len(m.used))
	}
	idx := m.called + uint16(m.uncalled)
	want := m.uncalled > 0 && !m.drv.CallsDisabled()
	if m.event {
		want = passes(m.usedEventNow(), m.called, idx)
	}
	if want = want || why == ring.CallFirst; need != want {
		t.Fatalf("NeedCall %v (%v) from %d to %d, event %d", need, why, m.called, idx, m.usedEventNow())
	}
	m.called = idx
	m.first = m.first && m.uncalled == 0
	m.drvAsleep = m.drvAsleep && !need
	m.uncalled = 0
}

func (m *machine) Reap(t *rapid.T) {
	for range rapid.IntRange(1, int(m.cfg.Size)).Draw(t, "chains") {
		if m.drv.HasUsed() != (len(m.used) > 0) {
			t.Fatalf("HasUsed %v with %d used", m.drv.HasUsed(), len(m.used))
		}
		token, n, ok := m.drv.Reap()
		if ok != (len(m.used) > 0) {
			t.Fatalf("Reap %v with %d used: %v", ok, len(m.used), m.drv.Err())
		}
		if !ok {
			return
		}
		m.drvAsleep = false // it is awake if it reaps
		j := m.used[0]
		if token != j.token || int(n) != j.n {
			t.Fatalf("reaped %d with %d bytes, want %d with %d", token, n, j.token, j.n)
		}
		for i, v := range m.data(j.chunk*chunk+j.out, j.in) {
			if v != pattern(j.token, i, 1) {
				t.Fatalf("answer to %d: byte %d of another", j.token, i)
			}
		}
		m.used, m.chunks, m.free = m.used[1:], append(m.chunks, j.chunk), m.free+j.slots
	}
}

func (m *machine) DeviceSleeps(t *rapid.T) {
	more := m.dev.EnableKicks()
	if more != (len(m.avail) > 0) {
		t.Fatalf("EnableKicks %v with %d chains available", more, len(m.avail))
	}
	m.devAsleep, m.fresh = !more, 0
}

func (m *machine) DeviceWorks(*rapid.T) {
	m.dev.DisableKicks()
	m.devAsleep = false
}

func (m *machine) DriverSleeps(t *rapid.T) {
	pending := m.drv.EnableCalls()
	if pending != (len(m.used) > 0) {
		t.Fatalf("EnableCalls %v with %d used", pending, len(m.used))
	}
	m.drvAsleep, m.threshold = !pending, 0
}

func (m *machine) DriverSleepsDelayed(t *rapid.T) {
	outstanding := len(m.added) + len(m.avail) + int(m.dev.InFlight()) + len(m.staged) + len(m.used)
	pending := m.drv.EnableCallsDelayed()
	m.threshold = outstanding * 3 / 4
	if pending != (len(m.used) > m.threshold) {
		t.Fatalf("EnableCallsDelayed %v: %d of %d used", pending, len(m.used), outstanding)
	}
	if !m.event {
		// Without EVENT_IDX the wish is for the next element; what is used already
		// has no call to come.
		m.threshold = len(m.used)
	}
	m.drvAsleep = !pending
}

func (m *machine) DriverWorks(*rapid.T) {
	m.drv.DisableCalls()
	m.drvAsleep = false
}

// Restart puts a new device on the ring, which nothing of the old one is out of.
func (m *machine) Restart(t *rapid.T) {
	if m.dev.InFlight() > 0 || len(m.staged) > 0 {
		return
	}
	m.cfg.Base, m.cfg.BaseFromUsed = m.dev.Base(), rapid.Bool().Draw(t, "from used")
	used := m.dev.UsedIdx()
	m.restart()
	if m.dev.UsedIdx() != used || m.dev.Base() != m.cfg.Base {
		t.Fatalf("restarted at %d, %d", m.dev.NextAvail(), m.dev.UsedIdx())
	}
	m.taken, m.first, m.uncalled, m.called, m.devAsleep = nil, true, 0, used, false
	// Calls that the old device owed are not to come; the vhost side raises one.
	m.drvAsleep = false
}

// Check is what holds between any two operations.
func (m *machine) Check(t *rapid.T) {
	if m.drv.Free() != m.free {
		t.Fatalf("%d slots free, want %d", m.drv.Free(), m.free)
	}
	if int(m.dev.Pending()) != len(m.avail) || int(m.dev.Staged()) != len(m.staged) {
		t.Fatalf("%d pending of %d, %d staged of %d", m.dev.Pending(), len(m.avail), m.dev.Staged(), len(m.staged))
	}
	if m.devAsleep && m.fresh == 0 && len(m.avail) > 0 {
		t.Fatalf("the device sleeps over %d chains", len(m.avail))
	}
	if m.drv.Err() != nil || m.dev.Broken() {
		t.Fatalf("broken: %v, %v", m.drv.Err(), m.dev.Broken())
	}
}

// Cycle takes chains all the way round, which single steps seldom do.
func (m *machine) Cycle(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "cycles") {
		for _, step := range []func(*rapid.T){
			m.Add, m.PublishAvail, m.Kick, m.Take, m.Push, m.PublishUsed, m.Call, m.Reap,
		} {
			step(t)
			m.Check(t)
		}
	}
}

// TestDriverDeviceModel runs any sequence of what the two sides can do against
// queues of a model: chains arrive in order with their bytes, come back in the
// order they were pushed with the answer, and nobody sleeps over work.
func TestDriverDeviceModel(t *testing.T) {
	for _, f := range []virtio.Features{0, indirect, eventIdx, indirect | eventIdx} {
		t.Run(f.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				t.Repeat(rapid.StateMachineActions(newMachine(t, f)))
			})
		})
	}
}
