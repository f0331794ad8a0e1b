package wire

import "fmt"

// Request is the number of a message from the front-end to the back-end, and
// of the answer to it.
type Request uint32

// The requests.
const (
	GetFeatures           Request = 1
	SetFeatures           Request = 2
	SetOwner              Request = 3
	ResetOwner            Request = 4
	SetMemTable           Request = 5
	SetLogBase            Request = 6
	SetLogFD              Request = 7
	SetVringNum           Request = 8
	SetVringAddr          Request = 9
	SetVringBase          Request = 10
	GetVringBase          Request = 11
	SetVringKick          Request = 12
	SetVringCall          Request = 13
	SetVringErr           Request = 14
	GetProtocolFeatures   Request = 15
	SetProtocolFeatures   Request = 16
	GetQueueNum           Request = 17
	SetVringEnable        Request = 18
	SendRARP              Request = 19
	NetSetMTU             Request = 20
	SetBackendReqFD       Request = 21
	IOTLBMsg              Request = 22
	SetVringEndian        Request = 23
	GetConfig             Request = 24
	SetConfig             Request = 25
	CreateCryptoSession   Request = 26
	CloseCryptoSession    Request = 27
	PostcopyAdvise        Request = 28
	PostcopyListen        Request = 29
	PostcopyEnd           Request = 30
	GetInflightFD         Request = 31
	SetInflightFD         Request = 32
	GPUSetSocket          Request = 33
	ResetDevice           Request = 34
	VringKick             Request = 35
	GetMaxMemSlots        Request = 36
	AddMemReg             Request = 37
	RemMemReg             Request = 38
	SetStatus             Request = 39
	GetStatus             Request = 40
	GetSharedObject       Request = 41
	SetDeviceStateFD      Request = 42
	CheckDeviceState      Request = 43
	GetShmemConfig        Request = 44
	GetVringBaseSkipDrain Request = 45
)

// spec is what the protocol says of a request: its payload, that of its own
// reply, and how many descriptors it may carry. none means that there is no own
// reply, so that FlagNeedReply is answered by a number.
type spec struct {
	name           string
	payload, reply kind
	fds            fdRule
}

// fdRule says how many descriptors a message carries.
type fdRule uint8

const (
	noFDs       fdRule = iota
	oneFD              // exactly one
	maybeFD            // none or one
	unlessNoFD         // one, or none if the payload's no-descriptor bit is set
	perRegionFD        // one for each region
)

var specs = [...]spec{
	GetFeatures:           {"GET_FEATURES", empty, number, noFDs},
	SetFeatures:           {"SET_FEATURES", number, none, noFDs},
	SetOwner:              {"SET_OWNER", empty, none, noFDs},
	ResetOwner:            {"RESET_OWNER", empty, none, noFDs},
	SetMemTable:           {"SET_MEM_TABLE", memTable, none, perRegionFD},
	SetLogBase:            {"SET_LOG_BASE", logArea, logAnswer, oneFD},
	SetLogFD:              {"SET_LOG_FD", empty, none, oneFD},
	SetVringNum:           {"SET_VRING_NUM", vringState, none, noFDs},
	SetVringAddr:          {"SET_VRING_ADDR", vringAddr, none, noFDs},
	SetVringBase:          {"SET_VRING_BASE", vringState, none, noFDs},
	GetVringBase:          {"GET_VRING_BASE", vringState, vringState, noFDs},
	SetVringKick:          {"SET_VRING_KICK", vringFD, none, unlessNoFD},
	SetVringCall:          {"SET_VRING_CALL", vringFD, none, unlessNoFD},
	SetVringErr:           {"SET_VRING_ERR", vringFD, none, unlessNoFD},
	GetProtocolFeatures:   {"GET_PROTOCOL_FEATURES", empty, number, noFDs},
	SetProtocolFeatures:   {"SET_PROTOCOL_FEATURES", number, none, noFDs},
	GetQueueNum:           {"GET_QUEUE_NUM", empty, number, noFDs},
	SetVringEnable:        {"SET_VRING_ENABLE", vringState, none, noFDs},
	SendRARP:              {"SEND_RARP", number, none, noFDs},
	NetSetMTU:             {"NET_SET_MTU", number, none, noFDs},
	SetBackendReqFD:       {"SET_BACKEND_REQ_FD", empty, none, oneFD},
	IOTLBMsg:              {"IOTLB_MSG", iotlb, number, noFDs},
	SetVringEndian:        {"SET_VRING_ENDIAN", vringState, none, noFDs},
	GetConfig:             {"GET_CONFIG", config, config, noFDs},
	SetConfig:             {"SET_CONFIG", config, none, noFDs},
	CreateCryptoSession:   {"CREATE_CRYPTO_SESSION", raw, none, noFDs},
	CloseCryptoSession:    {"CLOSE_CRYPTO_SESSION", raw, none, noFDs},
	PostcopyAdvise:        {"POSTCOPY_ADVISE", empty, logAnswer, noFDs},
	PostcopyListen:        {"POSTCOPY_LISTEN", empty, none, noFDs},
	PostcopyEnd:           {"POSTCOPY_END", empty, number, noFDs},
	GetInflightFD:         {"GET_INFLIGHT_FD", inflight, inflight, noFDs},
	SetInflightFD:         {"SET_INFLIGHT_FD", inflight, none, oneFD},
	GPUSetSocket:          {"GPU_SET_SOCKET", raw, none, oneFD},
	ResetDevice:           {"RESET_DEVICE", empty, none, noFDs},
	VringKick:             {"VRING_KICK", vringState, none, noFDs},
	GetMaxMemSlots:        {"GET_MAX_MEM_SLOTS", empty, number, noFDs},
	AddMemReg:             {"ADD_MEM_REG", memRegion, none, oneFD},
	RemMemReg:             {"REM_MEM_REG", memRegion, none, maybeFD},
	SetStatus:             {"SET_STATUS", number, none, noFDs},
	GetStatus:             {"GET_STATUS", empty, number, noFDs},
	GetSharedObject:       {"GET_SHARED_OBJECT", uuid, number, noFDs},
	SetDeviceStateFD:      {"SET_DEVICE_STATE_FD", stateTransfer, number, oneFD},
	CheckDeviceState:      {"CHECK_DEVICE_STATE", empty, number, noFDs},
	GetShmemConfig:        {"GET_SHMEM_CONFIG", empty, raw, noFDs},
	GetVringBaseSkipDrain: {"GET_VRING_BASE_SKIP_DRAIN", vringState, vringState, noFDs},
}

// spec returns what is known of r; an unknown request carries any bytes and
// has no reply of its own.
func (r Request) spec() spec {
	if uint64(r) < uint64(len(specs)) && specs[r].name != "" {
		return specs[r]
	}
	return spec{payload: raw, reply: none}
}

// Known reports whether the protocol has the request.
func (r Request) Known() bool { return r.spec().name != "" }

// HasOwnReply reports whether the request is always answered with a payload of
// its own, so that FlagNeedReply adds nothing.
func (r Request) HasOwnReply() bool { return r.spec().reply != none }

// String is the request's name, or its number if it has none.
func (r Request) String() string {
	if name := r.spec().name; name != "" {
		return name
	}
	return fmt.Sprintf("request %d", uint32(r))
}

// FDs returns how many descriptors the message m, which is no reply, is
// entitled to carry at least and at most.
func (m Message) FDs() (least, most int) {
	switch m.Request.spec().fds {
	case oneFD:
		return 1, 1
	case maybeFD:
		return 0, 1
	case unlessNoFD:
		if v, ok := m.Payload.(VringFD); ok && v.NoFD {
			return 0, 0
		}
		return 1, 1
	case perRegionFD:
		t, _ := m.Payload.(MemTable)
		return len(t.Regions), len(t.Regions)
	}
	return 0, 0
}

// BackendRequest is the number of a message from the back-end to the front-end,
// on the socket that SET_BACKEND_REQ_FD hands over. Its messages have the same
// header.
type BackendRequest uint32

// The back-end's requests that the net device can have a use for.
const (
	BackendIOTLB        BackendRequest = 1
	BackendConfigChange BackendRequest = 2
	BackendVringCall    BackendRequest = 4
	BackendVringErr     BackendRequest = 5
)

// BackendMessage returns the message that asks for r with payload p.
func BackendMessage(r BackendRequest, p Payload) Message {
	return Message{Request: Request(r), Payload: p}
}
