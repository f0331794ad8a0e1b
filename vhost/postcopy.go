package vhost

import (
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
)

// postcopy is how far a migration is in which the guest runs here while its memory
// is still on its way.
type postcopy struct {
	advised bool   // the front-end has the descriptor for missing pages
	listens bool   // memory that comes now is watched
	confirm func() // what waits for the front-end to know the addresses of its regions
}

// postcopyAdvise hands the front-end a descriptor at which it learns of missing
// pages, with an answer of no bytes. An answer without one says that there is
// none.
func (s *Session) postcopyAdvise(m wire.Message, _ []int) {
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.note(m, fmt.Errorf("%w: %w", ErrPostcopy, r.Err))
			s.reply(m, wire.Empty{})
			return
		}
		s.postcopy.advised = true
		s.emit(Reply{Message: m.Reply(wire.Empty{}), FDs: []int{r.FD}})
	})
	s.emit(MakeUserfault{Token: t})
}

// postcopyListen says that the guest will come with its memory missing.
func (s *Session) postcopyListen(m wire.Message, _ []int) {
	if i := s.firstRunning(); i >= 0 || !s.postcopy.advised {
		s.refuse(m, fmt.Errorf("%w: listen with a ring running (%v) or before advise (%v)", ErrPostcopy, i >= 0, !s.postcopy.advised))
		return
	}
	s.postcopy.listens = true
	s.ack(m)
}

// offerMemory answers a memory table, which is mapped, with where its regions lie
// in our process: faults are reported by those addresses. The table takes effect
// when the front-end has confirmed that it knows them.
func (s *Session) offerMemory(m wire.Message, added []region) {
	var answer wire.MemTable
	for _, r := range added {
		r.UVA = r.ours
		answer.Regions = append(answer.Regions, r.Region)
	}
	s.reply(m, answer)
	s.postcopy.confirm = func() { s.changeWatched(m, added) }
}

// confirmMemory takes the confirmation: a number, 0, in the place of a table, which
// reads as one without regions. It is not answered.
func (s *Session) confirmMemory(m wire.Message, rs []wire.Region) {
	then := s.postcopy.confirm
	s.postcopy.confirm = nil
	if len(rs) != 0 {
		s.end(fmt.Errorf("%v: %w: a table where a confirmation was due", m.Request, ErrPostcopy))
		return
	}
	then()
}

// changeWatched makes added the guest memory, with its missing pages reported.
// The answer to the table's message has been given.
func (s *Session) changeWatched(m wire.Message, added []region) {
	s.memory = added
	s.stats.MemoryChanges++
	set := SetMemory{Regions: s.table()}
	for i := range added {
		set.IDs = append(set.IDs, added[i].id)
	}
	s.emit(set)
	t := s.pend(func(r Result) {
		if r.Err != nil {
			s.end(fmt.Errorf("%v: %w: %w", m.Request, ErrPostcopy, r.Err))
			return
		}
		s.startAll(m, func(wire.Message) {})
	})
	s.emit(WatchMemory{Token: t})
}

// postcopyEnd says that all of the memory has come.
func (s *Session) postcopyEnd(m wire.Message, _ []int) {
	s.postcopy = postcopy{}
	s.emit(EndUserfault{})
	s.reply(m, wire.U64(0))
}
