package vhost

import "errors"

// Reasons for which a session refuses a message. If the front-end asked for an
// acknowledgement it gets a negative one and the session goes on; if not, there
// is no way to tell it, and the session ends with the reason.
var (
	// ErrDescriptors says that a message carried more or fewer descriptors
	// than it is entitled to. All of them are closed.
	ErrDescriptors = errors.New("wrong number of descriptors")
	// ErrRing says that a ring's index is not below the number of rings.
	ErrRing = errors.New("no such ring")
	// ErrRingSize says that a ring's size is not a power of two up to 32768, or if
	// it is packed any number up to that.
	ErrRingSize = errors.New("ring size is not a power of two from 1 to 32768")
	// ErrAlignment says that a part of a ring is not aligned as it must be.
	ErrAlignment = errors.New("ring address is not aligned")
	// ErrFeatures says that bits were acknowledged that had not been offered.
	ErrFeatures = errors.New("feature was not offered")
	// ErrRunning says that a change needs the rings stopped, and one runs.
	ErrRunning = errors.New("a ring is running")
	// ErrMemory says that a memory table cannot be used: a region is empty,
	// overlaps another, or cannot be mapped.
	ErrMemory = errors.New("unusable memory region")
	// ErrSlots says that there are as many regions as the device has slots.
	ErrSlots = errors.New("no memory slot left")
	// ErrNoRegion says that a region to remove is not in the table.
	ErrNoRegion = errors.New("no such memory region")
	// ErrUnmapped says that a ring does not lie in guest memory. The ring is
	// not started; this alone never ends a session.
	ErrUnmapped = errors.New("ring is outside guest memory")
	// ErrValue says that a number has no meaning for its request.
	ErrValue = errors.New("value out of range")
	// ErrReadOnly says that the driver may not write to that part of the
	// configuration space.
	ErrReadOnly = errors.New("configuration space is read-only")
	// ErrState says that device state is not transferred so.
	ErrState = errors.New("device state transfer")
	// ErrPostcopy says that a message comes at the wrong time of a post-copy
	// migration, or that the kernel does not let this process take part in one.
	ErrPostcopy = errors.New("post-copy migration")
	// ErrUnsupported says that a request was not negotiated, or that nobody
	// knows it.
	ErrUnsupported = errors.New("request is not supported")
)

// Reasons for which a session ends whatever the front-end asked for.
var (
	// ErrUnexpectedReply says that the front-end sent an answer on the main
	// channel, where nothing was asked.
	ErrUnexpectedReply = errors.New("reply where a request was due")
	// ErrFlood says that more messages are waiting than a session keeps.
	ErrFlood = errors.New("too many messages while one is pending")
	// ErrFraming says that the byte stream is not made of messages.
	ErrFraming = errors.New("not a vhost-user message")
	// ErrTruncated says that guest memory has lost pages that had been there:
	// the file behind it was truncated.
	ErrTruncated = errors.New("guest memory was truncated")
	// ErrPort says that a port has become useless.
	ErrPort = errors.New("network port")
	// ErrStalled says that the front-end does not read its replies.
	ErrStalled = errors.New("front-end does not read its replies")
)

// ErrHangup is the reason of a session whose front-end closed the connection:
// the ordinary end.
var ErrHangup = errors.New("front-end closed the connection")

// Reasons for which a server does not start.
var (
	// ErrPathTooLong says that a socket path has more than MaxSocketPath bytes.
	ErrPathTooLong = errors.New("socket path too long")
	// ErrBusy says that somebody listens on the socket already.
	ErrBusy = errors.New("socket in use")
	// ErrNotSocket says that the path is there and is not a socket of ours.
	ErrNotSocket = errors.New("path exists")
	// ErrConfig says that a field of Config is out of its bounds.
	ErrConfig = errors.New("bad server configuration")
)
