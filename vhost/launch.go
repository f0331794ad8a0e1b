package vhost

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// startAll starts every ring that is complete and does not run, and then
// answers m by then. A ring that cannot start is counted and left alone: the
// message was about something else.
func (s *Session) startAll(m wire.Message, then func(wire.Message)) { s.startFrom(0, m, then) }

func (s *Session) startFrom(i int, m wire.Message, then func(wire.Message)) {
	for ; i < len(s.rings); i++ {
		if s.ready(i) {
			s.launch(i, func(error) { s.startFrom(i+1, m, then) })
			return
		}
	}
	then(m)
}

// ready reports whether ring i can be started.
func (s *Session) ready(i int) bool {
	r := &s.rings[i]
	return r.complete() && !r.running && s.have && len(s.memory) > 0
}

// startRing starts ring i if the message m made it complete, and answers m.
func (s *Session) startRing(m wire.Message, i int, then func(wire.Message)) {
	if !s.ready(i) {
		then(m)
		return
	}
	s.launch(i, func(err error) {
		if err != nil {
			s.note(m, fmt.Errorf("ring %d: %w", i, err))
			return
		}
		then(m)
	})
}

// launch starts ring i, which is ready. If it does not lie in guest memory it
// is left stopped, and then is called with ErrUnmapped.
func (s *Session) launch(i int, then func(error)) {
	if role := s.role(i); role.Pair >= s.cfg.QueuePairs {
		then(fmt.Errorf("%w: it is no queue without CTRL_VQ and MQ", ErrRing))
		return
	}
	cfg, err := s.place(&s.rings[i])
	if errors.Is(err, errUntranslated) {
		then(nil) // it starts when the translation comes
		return
	}
	if err != nil {
		s.stats.RingsUnmapped++
		then(err)
		return
	}
	if _, err := s.recorded(i); err != nil {
		then(err)
		return
	}
	s.apply(func(err error) {
		if err != nil {
			then(err)
			return
		}
		s.emitStart(i, cfg, then)
	})
}

func (s *Session) emitStart(i int, cfg ring.Config, then func(error)) {
	r := &s.rings[i]
	cfg.Features = s.acked
	r.log = s.ringLog(r)
	recorded, _ := s.recorded(i)
	t := s.pend(func(res Result) {
		r.running = res.Err == nil
		if r.running {
			r.started = true
			s.stats.RingStarts++
			if !r.enabled {
				s.stats.StartsDisabled++
			}
		}
		then(res.Err)
	})
	s.emit(StartRing{Token: t, Ring: i, Role: s.role(i), Config: cfg, Enabled: r.enabled, Wake: s.loaded,
		Log: r.log, Inflight: recorded, Translated: s.translates()})
}

// place translates a ring's addresses. After a memory change a part whose
// address is no longer one of the front-end's stays where it was in the guest's
// physical memory, which the front-end may have mapped elsewhere meanwhile.
func (s *Session) place(r *ringState) (ring.Config, error) {
	cfg := ring.Config{Size: r.size, Base: r.base, BaseFromUsed: s.cfg.ResumeFromUsed, Features: s.acked}
	cfg.ZeroIsStart = !r.started
	if r.base == 0 && !r.started && s.packed() && s.protocol.Has(wire.ProtocolInband) {
		cfg.Base = ring.StartBase(s.acked) // Linux UML gives 0 for a new ring of either layout
	}
	need := cfg.BytesNeeded()
	for i, p := range []struct {
		name     string
		uva, n   uint64
		was, gpa *uint64
	}{
		{"descriptor table", r.addr.Desc, need.Desc, &r.gpa.Desc, &cfg.Desc},
		{"available ring", r.addr.Avail, need.Avail, &r.gpa.Avail, &cfg.Avail},
		{"used ring", r.addr.Used, need.Used, &r.gpa.Used, &cfg.Used},
	} {
		if s.translates() {
			if at, ok := s.covers(p.uva, p.n, s.ringPerm(i)); !ok {
				s.out = append(s.out, s.want(at, s.ringPerm(i))...)
				return cfg, errUntranslated
			}
			*p.gpa = p.uva
			continue
		}
		gpa, ok := s.gpaOf(p.uva, p.n)
		if !ok && r.located && s.holds(*p.was, p.n) {
			gpa, ok = *p.was, true
		}
		if !ok {
			return cfg, fmt.Errorf("%w: %s at %#x, %d bytes", ErrUnmapped, p.name, p.uva, p.n)
		}
		*p.gpa = gpa
	}
	r.gpa, r.located = cfg, !s.translates()
	return cfg, nil
}

// errUntranslated says that a ring lies where there is no translation yet.
var errUntranslated = errors.New("ring address without a translation")

// stopRing stops ring i, which runs, and keeps its index.
func (s *Session) stopRing(i int, then func()) { s.leaveRing(i, false, then) }

// leaveRing is stopRing, and may leave chains in flight.
func (s *Session) leaveRing(i int, leave bool, then func()) {
	r := &s.rings[i]
	t := s.pend(func(res Result) {
		r.running, r.base = false, res.Base
		s.stats.RingStops++
		then()
	})
	s.emit(StopRing{Token: t, Ring: i, Role: s.role(i), Leave: leave})
}

// stopAll stops every ring that runs and calls then with their numbers.
func (s *Session) stopAll(then func(ran []int)) { s.stopFrom(0, nil, then) }

func (s *Session) stopFrom(i int, ran []int, then func([]int)) {
	for ; i < len(s.rings); i++ {
		if s.rings[i].running {
			s.stopRing(i, func() { s.stopFrom(i+1, append(ran, i), then) })
			return
		}
	}
	then(ran)
}
