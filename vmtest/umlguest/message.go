package umlguest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// op is what a message of the time-travel protocol says
// (include/uapi/linux/um_timetravel.h, v6.1; broadcast since v6.9).
type op uint32

// The operations. A guest sends those up to opUpdate, opGetTOD and opBroadcast,
// the calendar opRun and opFreeUntil. Every message is answered by an opAck with
// its number.
const (
	opAck op = iota
	opStart
	opRequest
	opWait
	opGet
	opUpdate
	opRun
	opFreeUntil
	opGetTOD
	opBroadcast
)

var opNames = [...]string{"ACK", "START", "REQUEST", "WAIT", "GET", "UPDATE", "RUN", "FREE_UNTIL", "GET_TOD", "BROADCAST"}

// String is the operation's name.
func (o op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("operation %d", uint32(o))
}

// messageLen is the length of every message in bytes.
const messageLen = 16

// message is one of the protocol, in either direction.
type message struct {
	op   op
	seq  uint32
	time uint64 // ns
}

func (m message) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(m.op))
	dst = binary.LittleEndian.AppendUint32(dst, m.seq)
	return binary.LittleEndian.AppendUint64(dst, m.time)
}

func parseMessage(b []byte) message {
	return message{
		op: op(binary.LittleEndian.Uint32(b)), seq: binary.LittleEndian.Uint32(b[4:]),
		time: binary.LittleEndian.Uint64(b[8:]),
	}
}

// when is the message's time; a guest without an event asks for the largest.
func (m message) when() vtime.Time {
	if m.time >= math.MaxInt64 {
		return vtime.Never
	}
	return vtime.Time(m.time)
}
