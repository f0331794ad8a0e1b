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
	seq     int    // likewise: when
	pushed  bool   // the device has given it back, although the driver need not see it yet
}

// gone stands for a chain that was taken after others and given back before them.
var gone = job{pushed: true}

// machine drives both sides of a ring and a model of what they owe each other.
type machine struct {
	*world
	event, indirect, packed, inOrder bool

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
	threshold int  // units used that the driver lets pass before it wants one
	unasked   int  // units published since NeedKick
	fresh     int  // of these, since the device fell asleep
	uncalled  int  // units published since NeedCall
	first     bool // no call was evaluated since the start
	seq       int  // chains taken

	// Units count what the sides tell each other by: chains, or in a packed ring
	// descriptors. Positions of the last NeedKick and NeedCall, as an index of the
	// split ring or as off | wrap<<15.
	kicked, called uint16
}

func newMachine(t *rapid.T, f virtio.Features) *machine {
	packed := f.Has(virtio.FeatureRingPacked)
	size := uint16(1) << rapid.IntRange(0, 8).Draw(t, "log size")
	base := uint32(rapid.SampledFrom([]uint16{0, 1, 32767, 65279, 65500, 65535}).Draw(t, "base"))
	if packed {
		size = rapid.Uint16Range(1, 300).Draw(t, "size")
		base = uint32(rapid.Uint16Range(0, size-1).Draw(t, "position") | rapid.SampledFrom([]uint16{0, 0x8000}).Draw(t, "wrap"))
		base |= base << 16
	}
	m := &machine{
		world: newWorldAt(t, size, f, base),
		event: f.Has(eventIdx), indirect: f.Has(indirect), packed: packed, inOrder: f.Has(virtio.FeatureInOrder),
		free: int(size), first: true, kicked: uint16(base), called: uint16(base),
	}
	if rapid.Bool().Draw(t, "inflight") {
		m.cfg.Inflight = make([]byte, ring.InflightBytes(size, f))
		m.restart()
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
	m.unasked += m.units(m.added)
	m.fresh += m.units(m.added)
	m.avail, m.added = append(m.avail, m.added...), nil
}

// Kick asks whether a kick is needed: a device that sleeps must get one.
func (m *machine) Kick(t *rapid.T) {
	need := m.drv.NeedKick()
	if m.devAsleep && m.fresh > 0 && !need {
		t.Fatalf("%d chains and no kick for a device that sleeps", m.fresh)
	}
	var want bool
	switch {
	case m.packed:
		asks, at, event := m.wish(usedAt)
		want = asks && (!at || m.passes(event, m.kicked, m.unasked))
	case m.event:
		want = m.passes(m.availEvent(), m.kicked, m.unasked)
	default:
		want = m.usedFlags() == 0
	}
	if need != want && m.unasked <= int(m.cfg.Size) {
		t.Fatalf("NeedKick %v from %d on, %d units", need, m.kicked, m.unasked)
	}
	m.kicked = m.on(m.kicked, m.unasked)
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
	j.head, j.seq = m.c.Head, m.seq
	m.seq++
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
	for n < len(m.taken) && !m.taken[len(m.taken)-1-n].pushed {
		n++
	}
	n = rapid.IntRange(0, n).Draw(t, "back")
	m.dev.Unget(uint16(n))
	at := len(m.taken) - n
	m.avail = append(slices.Clone(m.taken[at:]), m.avail...)
	m.taken = m.taken[:at]
	m.devAsleep = m.devAsleep && n == 0 // it is awake if it does that
}

// Push gives chains back in any order. With IN_ORDER the driver sees them in the
// order in which they were taken.
func (m *machine) Push(t *rapid.T) {
	for range rapid.IntRange(0, int(m.cfg.Size)).Draw(t, "chains") {
		if m.dev.InFlight() == 0 {
			return
		}
		at := rapid.IntRange(0, len(m.taken)-1).Draw(t, "which")
		for m.taken[at].pushed {
			at = (at + 1) % len(m.taken)
		}
		j := m.taken[at]
		j.pushed = true
		m.dev.Push(j.head, uint32(j.in))
		if !m.inOrder {
			m.staged, m.taken[at] = append(m.staged, j), &gone
		}
		for len(m.taken) > 0 && m.taken[0].pushed {
			if m.inOrder {
				m.staged = append(m.staged, m.taken[0])
			}
			m.taken = m.taken[1:]
		}
	}
}

func (m *machine) PublishUsed(t *rapid.T) {
	if n := m.dev.Publish(); int(n) != len(m.staged) {
		t.Fatalf("%d published, %d staged", n, len(m.staged))
	}
	m.uncalled += m.units(m.staged)
	m.used, m.staged = append(m.used, m.staged...), nil
}

// Call asks whether a call is needed: a driver that sleeps must get one when the
// elements it lets pass are exceeded.
func (m *machine) Call(t *rapid.T) {
	need, why := m.dev.NeedCall()
	if m.packed && m.uncalled > int(m.cfg.Size) {
		m.first = true // more than a position can tell
	}
	switch {
	case (m.uncalled == 0) != (why == ring.CallNoneUsed):
		t.Fatalf("%v with %d elements published", why, m.uncalled)
	case m.uncalled > 0 && m.first != (why == ring.CallFirst):
		t.Fatalf("%v, first %v", why, m.first)
	case m.drvAsleep && m.uncalled > 0 && m.units(m.used) > m.threshold && !need:
		t.Fatalf("no call (%v) for a driver that sleeps until more than %d of %d", why, m.threshold, m.units(m.used))
	}
	var want bool
	switch {
	case m.packed:
		asks, at, event := m.wish(availAt)
		want = m.uncalled > 0 && asks && (!at || m.passes(event, m.called, m.uncalled))
	case m.event:
		want = m.passes(m.usedEventNow(), m.called, m.uncalled)
	default:
		want = m.uncalled > 0 && !m.drv.CallsDisabled()
	}
	if want = want || why == ring.CallFirst; need != want {
		t.Fatalf("NeedCall %v (%v) from %d on, %d units", need, why, m.called, m.uncalled)
	}
	m.called = m.on(m.called, m.uncalled)
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
		if token != j.token || int(n) != j.in {
			t.Fatalf("reaped %d with %d bytes, want %d with %d", token, n, j.token, j.in)
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
	outstanding := m.units(m.added) + m.units(m.avail) + m.units(m.taken) + m.units(m.staged) + m.units(m.used)
	pending := m.drv.EnableCallsDelayed()
	m.threshold = outstanding * 3 / 4
	if want := m.units(m.used) > m.threshold || m.packed && len(m.used) > 0; pending != want {
		t.Fatalf("EnableCallsDelayed %v: %d of %d used", pending, m.units(m.used), outstanding)
	}
	if !m.event {
		// Without EVENT_IDX the wish is for the next element; what is used already
		// has no call to come.
		m.threshold = m.units(m.used)
	}
	m.drvAsleep = !pending
}

func (m *machine) DriverWorks(*rapid.T) {
	m.drv.DisableCalls()
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
	for _, f := range combinations(indirect, eventIdx, inOrder, packed) {
		t.Run(f.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				t.Repeat(rapid.StateMachineActions(newMachine(t, f)))
			})
		})
	}
}
