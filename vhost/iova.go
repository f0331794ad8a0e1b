package vhost

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// setTranslations lays a memory by the driver's own addresses over the regions,
// and moves the rings that run to it. Those lie in it: the session has stopped
// the others.
func (r *runner) setTranslations(a SetTranslations) {
	r.iova = nil
	regions := make([]shm.Region, 0, len(a.List))
	for _, t := range a.List {
		b := r.maps[t.Region].Bytes()
		regions = append(regions, shm.Region{GPA: t.IOVA, Mem: b[t.Offset : t.Offset+t.Size : t.Offset+t.Size], Access: shm.Access(t.Perm)})
	}
	if len(regions) > 0 {
		mem, err := shm.NewMemory(regions)
		if err != nil {
			panic(fmt.Sprintf("vhost: session let a bad translation through: %v", err))
		}
		r.iova = mem
	}
	var err error
	r.everyWorker(func(w *worker) { err = errors.Join(err, w.moveTo(r.iova)) })
	r.check(err)
}

// moveTo has the rings that run go on in another memory by the driver's
// addresses. It runs on the thread.
func (w *worker) moveTo(mem *shm.Memory) error {
	runs := false
	for i := range w.legs {
		w.legs[i].asked = false
		runs = runs || w.legs[i].running
	}
	if !runs || !w.translated {
		return nil
	}
	w.rxReady = true
	if w.pair == nil {
		return w.ctrl.SetMemory(mem)
	}
	return w.pair.SetMemory(mem)
}

// askMissing reports the address that a chain of the leg waits for, if one does.
func (w *worker) askMissing(l *leg) {
	var m ring.Missing
	if l.dir == netdev.DirCtrl {
		m, l.asked = w.ctrl.Missing()
	} else {
		m, l.asked = w.pair.Missing(l.dir)
	}
	if l.asked {
		w.events.missing(m)
	}
}

// askTranslation asks the front-end. A socket that is full has requests in it
// that come first; the answer to one of them has this address asked for again.
func (r *runner) askTranslation(a AskTranslation) {
	if r.backend < 0 {
		r.log.Warn("address without a translation, and no channel to ask for one", "iova", fmt.Sprintf("%#x", a.IOVA))
		r.sess.NotAsked(a.IOVA)
		return
	}
	m := wire.BackendMessage(wire.BackendIOTLB, wire.IOTLB{IOVA: a.IOVA, Perm: a.Perm, Type: tlbMiss})
	if err := osio.SendOrWrite(r.backend, m.Append(nil)); err != nil {
		r.log.Warn("translation not asked for", "error", err)
		r.sess.NotAsked(a.IOVA)
	}
}
