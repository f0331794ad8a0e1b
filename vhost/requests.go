package vhost

import (
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
)

// handlers are the requests that the session knows what to do with.
var handlers = map[wire.Request]func(*Session, wire.Message, []int){
	wire.GetFeatures:         (*Session).getFeatures,
	wire.SetFeatures:         (*Session).setFeatures,
	wire.SetOwner:            (*Session).acknowledge,
	wire.ResetOwner:          (*Session).acknowledge,
	wire.GetProtocolFeatures: (*Session).getProtocolFeatures,
	wire.SetProtocolFeatures: (*Session).setProtocolFeatures,
	wire.GetQueueNum:         (*Session).getQueueNum,
	wire.SetBackendReqFD:     (*Session).setBackendFD,
	wire.GetConfig:           (*Session).getConfig,
	wire.SetConfig:           (*Session).setConfig,
	wire.ResetDevice:         (*Session).resetDevice,
	wire.SetStatus:           (*Session).setStatus,
	wire.GetStatus:           (*Session).getStatus,
	wire.SetMemTable:         (*Session).setMemTable,
	wire.GetMaxMemSlots:      (*Session).getMaxMemSlots,
	wire.AddMemReg:           (*Session).addMemReg,
	wire.RemMemReg:           (*Session).remMemReg,
	wire.SetVringNum:         (*Session).setVringNum,
	wire.SetVringAddr:        (*Session).setVringAddr,
	wire.SetVringBase:        (*Session).setVringBase,
	wire.GetVringBase:        (*Session).getVringBase,
	wire.SetVringKick:        (*Session).setVringFD,
	wire.SetVringCall:        (*Session).setVringFD,
	wire.SetVringErr:         (*Session).setVringFD,
	wire.SetVringEnable:      (*Session).setVringEnable,
	wire.VringKick:           (*Session).vringKick,
	wire.SendRARP:            (*Session).sendRARP,
	wire.NetSetMTU:           (*Session).setMTU,
	wire.SetDeviceStateFD:    (*Session).setDeviceState,
	wire.CheckDeviceState:    (*Session).checkDeviceState,
	wire.SetLogBase:          (*Session).setLogBase,
	wire.SetLogFD:            (*Session).setLogFD,
	wire.GetInflightFD:       (*Session).getInflight,
	wire.SetInflightFD:       (*Session).setInflight,

	wire.IOTLBMsg: (*Session).iotlbMsg,

	wire.PostcopyAdvise: (*Session).postcopyAdvise,
	wire.PostcopyListen: (*Session).postcopyListen,
	wire.PostcopyEnd:    (*Session).postcopyEnd,

	wire.GetVringBaseSkipDrain: (*Session).getVringBase,
}

// needs are the protocol features without whose offer a request is not served.
// That the front-end acknowledged them is not asked for: some that remember a
// negotiation skip it on the next connection.
var needs = map[wire.Request]wire.ProtocolFeatures{
	wire.GetQueueNum:     wire.ProtocolMQ,
	wire.SetBackendReqFD: wire.ProtocolBackendReq,
	wire.GetConfig:       wire.ProtocolConfig,
	wire.SetConfig:       wire.ProtocolConfig,
	wire.ResetDevice:     wire.ProtocolResetDevice,
	wire.SetStatus:       wire.ProtocolStatus,
	wire.GetStatus:       wire.ProtocolStatus,
	wire.GetMaxMemSlots:  wire.ProtocolConfigureMemSlots,
	wire.AddMemReg:       wire.ProtocolConfigureMemSlots,
	wire.RemMemReg:       wire.ProtocolConfigureMemSlots,
	wire.VringKick:       wire.ProtocolInband,
	wire.SendRARP:        wire.ProtocolRARP,
	wire.NetSetMTU:       wire.ProtocolMTU,

	wire.SetDeviceStateFD: wire.ProtocolDeviceState,
	wire.CheckDeviceState: wire.ProtocolDeviceState,

	wire.SetLogBase:    wire.ProtocolLogSHMFD,
	wire.SetLogFD:      wire.ProtocolLogSHMFD,
	wire.GetInflightFD: wire.ProtocolInflightSHMFD,
	wire.SetInflightFD: wire.ProtocolInflightSHMFD,

	wire.IOTLBMsg: wire.ProtocolBackendReq,

	wire.PostcopyAdvise: wire.ProtocolPagefault,
	wire.PostcopyListen: wire.ProtocolPagefault,
	wire.PostcopyEnd:    wire.ProtocolPagefault,

	wire.GetVringBaseSkipDrain: wire.ProtocolVringBaseSkipDrain | wire.ProtocolInflightSHMFD,
}

// handler returns the handler of a request.
func (s *Session) handler(r wire.Request) func(*Session, wire.Message, []int) {
	if r == wire.IOTLBMsg && !s.cfg.Features.Has(virtio.FeatureAccessPlatform) {
		return (*Session).unsupported
	}
	if h, ok := handlers[r]; ok && s.cfg.Protocol.Has(needs[r]) {
		return h
	}
	return (*Session).unsupported
}
