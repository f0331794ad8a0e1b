// Package wire turns vhost-user messages into bytes and bytes into messages. It
// is without sockets, file descriptors, clock, goroutine or state: what a
// message means to a session is package vhost's business. Names and numbers are
// those of QEMU's docs/interop/vhost-user.rst. Multi-byte fields are in the byte
// order of the machine, which is little-endian wherever this module builds.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderLen is the length in bytes of a message's header. MaxPayload is the
// longest payload in bytes that is read; the longest that any message of the
// net device needs is below 300.
const (
	HeaderLen  = 12
	MaxPayload = 4096
)

// Flags of a header. Version is the value of VersionMask's bits.
const (
	Version     uint32 = 1
	VersionMask uint32 = 3
	FlagReply   uint32 = 4
	// FlagNeedReply asks for an answer to a message that has none of its own.
	// It counts only if REPLY_ACK was negotiated.
	FlagNeedReply uint32 = 8
)

// Errors of Decode and ParseHeader, one for each cause.
var (
	// ErrVersion says that the flags' version is not 1.
	ErrVersion = errors.New("protocol version is not 1")
	// ErrTooLong says that the header announces more than MaxPayload bytes.
	ErrTooLong = errors.New("payload too long")
	// ErrShort says that there are fewer bytes than the header announces.
	ErrShort = errors.New("message cut short")
	// ErrPayloadSize says that a payload has not the size of its request.
	ErrPayloadSize = errors.New("wrong payload size")
	// ErrRegions says that a memory table has more than MaxRegions regions.
	ErrRegions = errors.New("too many memory regions")
	// ErrReserved says that bits without a meaning are set, in a ring index
	// those above the eighth and the no-descriptor bit.
	ErrReserved = errors.New("reserved bits set")
	// ErrConfigRange says that a configuration access leaves its 256 bytes.
	ErrConfigRange = errors.New("configuration access out of range")
	// ErrLostOffset says that the mmap offset of a region was cut in half by an
	// old front-end, and that the half that is left is not 0.
	ErrLostOffset = errors.New("mmap offset cut short")
)

// Header is the fixed part of a message.
type Header struct {
	Request Request
	Flags   uint32 // FlagReply, FlagNeedReply and the version
	Size    uint32 // bytes of payload
}

// ParseHeader reads the header in the first HeaderLen bytes of b. Its errors
// are ErrShort, ErrVersion and ErrTooLong; after one of them the stream has no
// known next message.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, fmt.Errorf("%w: header of %d bytes, want %d", ErrShort, len(b), HeaderLen)
	}
	h := Header{
		Request: Request(binary.LittleEndian.Uint32(b)),
		Flags:   binary.LittleEndian.Uint32(b[4:]),
		Size:    binary.LittleEndian.Uint32(b[8:]),
	}
	if h.Flags&VersionMask != Version {
		return h, fmt.Errorf("%v: %w: flags %#x", h.Request, ErrVersion, h.Flags)
	}
	if h.Size > MaxPayload {
		return h, fmt.Errorf("%v: %w: %d bytes, limit %d", h.Request, ErrTooLong, h.Size, MaxPayload)
	}
	return h, nil
}

// Message is one message in either direction. Its payload is never nil.
type Message struct {
	Request Request
	Flags   uint32 // FlagReply and FlagNeedReply; the version is implied
	Payload Payload
}

// NeedReply reports whether the sender asks for an acknowledgement.
func (m Message) NeedReply() bool { return m.Flags&FlagNeedReply != 0 }

// IsReply reports whether the message is an answer.
func (m Message) IsReply() bool { return m.Flags&FlagReply != 0 }

// String names the request and shows the payload.
func (m Message) String() string {
	name := m.Request.String()
	if m.IsReply() {
		name += " reply"
	}
	if _, ok := m.Payload.(Empty); ok || m.Payload == nil {
		return name
	}
	return fmt.Sprintf("%s %+v", name, m.Payload)
}

// Reply returns the answer to m with payload p: the same request, the reply
// flag and no other.
func (m Message) Reply(p Payload) Message {
	return Message{Request: m.Request, Flags: FlagReply, Payload: p}
}

// Append appends the bytes of m to dst and returns the result.
func (m Message) Append(dst []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(m.Request))
	dst = binary.LittleEndian.AppendUint32(dst, m.Flags&^VersionMask|Version)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	if m.Payload != nil {
		dst = m.Payload.append(dst)
	}
	binary.LittleEndian.PutUint32(dst[at+8:], uint32(len(dst)-at-HeaderLen))
	return dst
}
