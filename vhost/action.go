package vhost

import (
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
)

// Action is one thing that a Session wants done: one of the types of this
// file. Actions are carried out in the order in which they were returned. Those
// with a Token are pending: the session waits, and handles no further message,
// until Done has been called with the token and what came of it.
type Action interface{ action() }

// Token names a pending action. Tokens of a session are never used twice.
type Token uint64

// Result is what came of a pending action. Only the fields that the action's
// comment names are looked at.
type Result struct {
	Err  error
	FD   int      // of MakeInflight and MakeUserfault
	UVAs []uint64 // of MapRegions: where the regions lie in our own process
	Base uint32   // of StopRing: where the device would go on, as ring.Config.Base has it
}

// RingLog is what is noted in the dirty log of a ring.
type RingLog struct {
	On       bool   // the guest's buffers that are written
	Ring     bool   // the ring
	RingAddr uint64 // guest physical address that stands for the used ring's
}

// RegionID names a mapped memory region within a session. IDs are never used
// twice.
type RegionID uint64

// FDKind is what a descriptor of a ring is for.
type FDKind uint8

// The descriptors of a ring.
const (
	KickFD FDKind = iota // readable when the driver made buffers available
	CallFD               // to be written when the driver wants to know of used ones
	ErrFD                // to be written when the ring is broken
)

// String names the kind as the protocol's requests do.
func (k FDKind) String() string { return [...]string{"kick", "call", "err"}[min(k, ErrFD)] }

// Role is what a ring is in the net device.
type Role struct {
	Dir  netdev.Dir
	Pair int // 0 for the control queue
}

// The actions.
type (
	// Reply sends a message to the front-end on the main channel, with
	// descriptors, which are closed afterwards.
	Reply struct {
		Message wire.Message
		FDs     []int
	}

	// CloseFDs closes descriptors that a message was not entitled to carry or
	// that the session has no use for.
	CloseFDs struct{ FDs []int }

	// MapRegions maps the regions, each from its own descriptor, under the
	// IDs. All are mapped or none is. The executor closes the descriptors, also
	// when it fails. Pending: Err, UVAs.
	MapRegions struct {
		Token   Token
		IDs     []RegionID
		Regions []wire.Region
		FDs     []int
	}

	// SetMemory makes the mapped regions, and no others, the guest memory of
	// the rings that start from here on. No ring runs. Regions that are not
	// among them are unmapped.
	SetMemory struct {
		IDs     []RegionID
		Regions []wire.Region
	}

	// MakeUserfault makes a descriptor by which the front-end learns of pages that
	// are missing, and brings them (userfaultfd). Pending: Err, and FD, which
	// becomes the session's.
	MakeUserfault struct{ Token Token }

	// WatchMemory has the pages that are missing in the present memory reported
	// there from here on. Pending: Err.
	WatchMemory struct{ Token Token }

	// EndUserfault ends that: every page is there.
	EndUserfault struct{}

	// SetTranslations makes the runs, and no others, the memory of the rings that
	// start with Translated, and of those that run so.
	SetTranslations struct{ List []Translation }

	// AskTranslation asks the front-end, on the socket of SetBackendFD, for the
	// translation of an address. Nothing waits for it.
	AskTranslation struct {
		IOVA uint64
		Perm uint8
	}

	// SetFeatures makes acked the feature set of the device; the bits of the
	// protocol are not among them. No ring runs. Pending: Err.
	SetFeatures struct {
		Token Token
		Acked virtio.Features
	}

	// StartRing starts a ring. Pending: Err.
	StartRing struct {
		Token   Token
		Ring    int
		Role    Role
		Config  ring.Config
		Enabled bool
		Wake    bool // call the guest at once: what it knew of calls was another device's

		Log        RingLog
		Translated bool // its addresses are those of SetTranslations

		Inflight bool // keep the record of chains in flight, in the ring's part of it
	}

	// StopRing stops a ring that runs: what it holds is completed, and no guest
	// memory is touched and no call made for it afterwards. With Leave nothing is
	// waited for: chains that a port holds stay in the record of those in flight.
	// Pending: Base.
	StopRing struct {
		Token Token
		Ring  int
		Role  Role
		Leave bool
	}

	// MapLog makes a part of a file the dirty log, in the place of the one that
	// there is. The executor closes FD. Pending: Err.
	MapLog struct {
		Token        Token
		FD           int
		Offset, Size uint64
	}

	// LogRing changes what is logged of a ring that runs.
	LogRing struct {
		Ring int
		Role Role
		Log  RingLog
	}

	// SetLogFD gives the session a descriptor to write to when pages were logged,
	// in the place of the one that it has, which is closed. Pending: Err, if it
	// cannot be used; it is closed then.
	SetLogFD struct {
		Token Token
		FD    int
	}

	// MakeInflight makes a file of Size zero bytes for the record of chains in
	// flight. Pending: Err, and FD, which becomes the session's.
	MakeInflight struct {
		Token Token
		Size  uint64
	}

	// MapInflight makes a part of a file the record of chains in flight of the
	// rings that start from here on: Stride bytes for each of Rings. No ring runs.
	// The executor closes FD. Pending: Err.
	MapInflight struct {
		Token  Token
		FD     int
		Offset uint64
		Rings  int
		Stride uint64
	}

	// EnableRing enables or disables a ring that runs.
	EnableRing struct {
		Ring int
		Role Role
		On   bool
	}

	// KickRing is a kick that came as a message: the driver made buffers of a
	// ring that runs available.
	KickRing struct {
		Ring int
		Role Role
	}

	// SetFD gives a ring, whether it runs or not, a descriptor in the place of
	// the one that it has, which is closed. FD is -1 for none: a ring without a
	// kick descriptor that runs is polled. Pending, unless the token is 0: Err,
	// if the descriptor cannot be used; it is closed then and the old one stays.
	SetFD struct {
		Token Token
		Ring  int
		Kind  FDKind
		FD    int
	}

	// SetBackendFD replaces, and closes, the socket for requests to the
	// front-end. Pending: Err, if it cannot be used; it is closed then.
	SetBackendFD struct {
		Token Token
		FD    int
	}

	// SendRARP sends a broadcast from the guest's address on the host's side, so
	// that its switches learn where the guest is now.
	SendRARP struct{ MAC [6]byte }

	// SetMTU changes the device's MTU. Pending: Err.
	SetMTU struct {
		Token Token
		MTU   uint64
	}

	// SetMAC changes the device's station address. Pending: Err.
	SetMAC struct {
		Token Token
		MAC   [6]byte
	}

	// TransferState begins to write the device's state to FD, a pipe, or with
	// Load to read it from there, beside what else the session does. No ring
	// runs. The executor closes FD. Pending: Err, if it cannot begin.
	TransferState struct {
		Token Token
		Load  bool
		FD    int
	}

	// CheckState waits for the transfer that was begun last, and puts a state
	// that was read into effect. Pending: Err.
	CheckState struct{ Token Token }

	// ResetDevice returns the device to its initial state. No ring runs.
	ResetDevice struct{}

	// NotifyConfig tells the front-end, on the socket of SetBackendFD, that the
	// configuration or status changed. Nothing waits for an answer.
	NotifyConfig struct{}

	// End ends the session: everything that it has is released, and the
	// connection is closed. No action follows.
	End struct{ Reason error }
)

func (Reply) action()           {}
func (CloseFDs) action()        {}
func (MapRegions) action()      {}
func (SetMemory) action()       {}
func (SetFeatures) action()     {}
func (StartRing) action()       {}
func (StopRing) action()        {}
func (EnableRing) action()      {}
func (KickRing) action()        {}
func (SetFD) action()           {}
func (SetBackendFD) action()    {}
func (MapLog) action()          {}
func (LogRing) action()         {}
func (SetLogFD) action()        {}
func (MakeInflight) action()    {}
func (MapInflight) action()     {}
func (SetTranslations) action() {}
func (AskTranslation) action()  {}
func (MakeUserfault) action()   {}
func (WatchMemory) action()     {}
func (EndUserfault) action()    {}
func (SendRARP) action()        {}
func (SetMTU) action()          {}
func (SetMAC) action()          {}
func (TransferState) action()   {}
func (CheckState) action()      {}
func (ResetDevice) action()     {}
func (NotifyConfig) action()    {}
func (End) action()             {}
