package vswitch

import (
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// ways is how many stations share a place of the table.
const ways = 8

// table remembers stations. A station has one place, found by a hash of its
// address, so that no number of made up addresses takes more than their places.
type table struct {
	slots []slot // ways of them for each place
	mask  uint64
}

// slot is a station, or free with heard 0.
type slot struct {
	mac   frame.MAC
	port  uint16
	heard vtime.Time // plus one
}

func newTable(stations int) table {
	return table{slots: make([]slot, stations), mask: uint64(stations/ways - 1)}
}

// place returns the slots of an address.
func (t *table) place(mac frame.MAC) []slot {
	k := uint64(mac[0])<<40 | uint64(mac[1])<<32 | uint64(mac[2])<<24 | uint64(mac[3])<<16 | uint64(mac[4])<<8 | uint64(mac[5])
	k *= 0x9e3779b97f4a7c15
	i := (k >> 32 & t.mask) * ways
	return t.slots[i : i+ways]
}

// find returns the port of a station that was heard after since.
func (t *table) find(mac frame.MAC, since vtime.Time) (port int, ok bool) {
	place := t.place(mac)
	for i := range place {
		if s := &place[i]; s.heard > 0 && s.mac == mac {
			return int(s.port), s.heard-1 > since
		}
	}
	return 0, false
}

// learning is what came of learning a station.
type learning uint8

const (
	isKnown learning = iota
	isNew
	hasMoved
	hasEvicted // new, and another one was forgotten though its time was not over
)

// learn notes that a station was heard at now behind a port.
func (t *table) learn(mac frame.MAC, port int, now, since vtime.Time) learning {
	place := t.place(mac)
	oldest := &place[0]
	for i := range place {
		s := &place[i]
		if s.heard > 0 && s.mac == mac {
			return s.hear(port, now, since)
		}
		if s.heard < oldest.heard {
			oldest = s
		}
	}
	result := isNew
	if oldest.heard > 0 && oldest.heard-1 > since {
		result = hasEvicted
	}
	*oldest = slot{mac: mac, port: uint16(port), heard: max(now, 0) + 1}
	return result
}

// hear notes a frame of a station that has a slot.
func (s *slot) hear(port int, now, since vtime.Time) learning {
	result := isKnown
	switch {
	case s.heard-1 <= since:
		result = isNew
	case int(s.port) != port:
		result = hasMoved
	}
	s.port, s.heard = uint16(port), max(now, 0)+1
	return result
}
