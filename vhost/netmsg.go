package vhost

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// sendRARP announces the guest, whose address is in the low six bytes: after a
// migration a front-end whose guest cannot do that itself asks for it.
func (s *Session) sendRARP(m wire.Message, _ []int) {
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], uint64(m.Payload.(wire.U64)))
	mac := [6]byte(raw[:6])
	if mac[0]&1 != 0 || mac == [6]byte{} {
		s.refuse(m, fmt.Errorf("%w: %x is not the address of one station", ErrValue, mac))
		return
	}
	s.emit(SendRARP{MAC: mac})
	s.ack(m)
}

// setMTU takes the MTU of the host's network. QEMU sends it once for each pair,
// while the first runs already.
func (s *Session) setMTU(m wire.Message, _ []int) {
	t := s.pend(func(r Result) { s.settle(m, r.Err) })
	s.emit(SetMTU{Token: t, MTU: uint64(m.Payload.(wire.U64))})
}

// getConfig answers with a part of the configuration space. What lies beyond
// the fields that the device has reads as zero: front-ends ask for the whole
// structure of their own version.
func (s *Session) getConfig(m wire.Message, _ []int) {
	want := m.Payload.(wire.Config)
	space := s.space()
	part := space[want.Offset : int(want.Offset)+len(want.Data)]
	s.reply(m, wire.Config{Offset: want.Offset, Flags: want.Flags, Data: part})
}

// space is the configuration space, with zeroes behind it.
func (s *Session) space() []byte {
	space := make([]byte, wire.MaxConfig)
	copy(space, s.cfg.ConfigSpace())
	return space
}

// configMigration is the flag of SET_CONFIG that says that the front-end writes
// what it has of a guest that migrates, and not what the driver wrote.
const configMigration = 1

// setConfig takes a part of the configuration space. A driver may write nothing
// but the station address, and that only without VERSION_1 (virtio 1.3
// §5.1.4.2); of a migrated guest's space the address is taken over, and what else
// is there is the device's own business. What would change nothing is no error.
func (s *Session) setConfig(m wire.Message, _ []int) {
	want := m.Payload.(wire.Config)
	space := s.space()
	mac := [6]byte(space)
	written := space[want.Offset:]
	same := bytes.HasPrefix(written, want.Data)
	copy(written, want.Data)
	migrates := want.Flags&configMigration != 0
	onlyMAC := int(want.Offset)+len(want.Data) <= len(mac)
	legacy := s.have && !s.acked.Has(virtio.FeatureVersion1)
	switch {
	case !same && !migrates && !(onlyMAC && legacy):
		s.refuse(m, fmt.Errorf("%w: %d bytes at %d", ErrReadOnly, len(want.Data), want.Offset))
	case [6]byte(space) == mac:
		s.ack(m)
	default:
		t := s.pend(func(r Result) { s.settle(m, r.Err) })
		s.emit(SetMAC{Token: t, MAC: [6]byte(space)})
	}
}
