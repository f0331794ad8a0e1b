package vhost

import (
	"github.com/vnetbench/vnetbench/vhost/osio"
)

// perform carries actions out in order, and those that follow from them.
func (r *runner) perform(actions []Action) {
	for len(actions) > 0 && r.reason == nil {
		a := actions[0]
		actions = append(actions[1:], r.do(a)...)
	}
	for _, a := range actions { // of a session that has ended meanwhile
		r.drop(a)
	}
}

// drop closes the descriptors of an action that is not carried out.
func (r *runner) drop(a Action) {
	switch a := a.(type) {
	case CloseFDs:
		osio.CloseAll(a.FDs)
	case MapRegions:
		osio.CloseAll(a.FDs)
	case SetFD:
		osio.Close(a.FD)
	case SetBackendFD:
		osio.Close(a.FD)
	case TransferState:
		osio.Close(a.FD)
	case MapLog:
		osio.Close(a.FD)
	case SetLogFD:
		osio.Close(a.FD)
	case MapInflight:
		osio.Close(a.FD)
	case Reply:
		osio.CloseAll(a.FDs)
	}
}

// do carries one action out and returns what follows from its result.
func (r *runner) do(a Action) []Action {
	switch a := a.(type) {
	case Reply:
		if err := r.ch.write(a.Message, a.FDs); err != nil {
			r.end(err)
		}
		osio.CloseAll(a.FDs)
	case CloseFDs:
		osio.CloseAll(a.FDs)
	case MapRegions:
		uvas, err := r.mapRegions(a)
		return r.sess.Done(a.Token, Result{Err: err, UVAs: uvas})
	case SetMemory:
		r.setMemory(a)
	case SetFeatures:
		return r.sess.Done(a.Token, Result{Err: r.setFeatures(a.Acked)})
	case StartRing:
		return r.sess.Done(a.Token, Result{Err: r.startRing(a)})
	case StopRing:
		return r.sess.Done(a.Token, Result{Base: r.stopRing(a)})
	case EnableRing:
		if w := r.worker(a.Role); w != nil {
			r.check(w.do(func() { w.enable(a.Role.Dir, a.On) }))
		}
	case SetFD:
		err := r.setFD(a)
		if a.Token != 0 {
			return r.sess.Done(a.Token, Result{Err: err})
		}
	case SetBackendFD:
		return r.sess.Done(a.Token, Result{Err: r.setBackend(a.FD)})
	case ResetDevice:
		r.dev.Reset()
		r.shared.pairs.Store(int32(r.dev.Pairs()))
	case NotifyConfig:
		r.notifyConfig()
	case End:
		r.end(a.Reason)
	default:
		return r.doShared(a)
	}
	return nil
}

// doShared carries out the actions of migration, of shared memory other than the
// guest's, and those that change the device.
func (r *runner) doShared(a Action) []Action {
	switch a := a.(type) {
	case MakeUserfault:
		fd, err := r.makeUserfault()
		return r.sess.Done(a.Token, Result{FD: fd, Err: err})
	case WatchMemory:
		return r.sess.Done(a.Token, Result{Err: r.watchMemory()})
	case EndUserfault:
		r.endUserfault()
	case SetTranslations:
		r.setTranslations(a)
	case AskTranslation:
		r.askTranslation(a)
	case MapLog:
		return r.sess.Done(a.Token, Result{Err: r.mapLog(a)})
	case LogRing:
		r.logRing(a)
	case SetLogFD:
		return r.sess.Done(a.Token, Result{Err: r.setLogFD(a.FD)})
	case MakeInflight:
		fd, err := osio.Memfd("vhost-user inflight", int64(a.Size))
		return r.sess.Done(a.Token, Result{FD: fd, Err: err})
	case MapInflight:
		return r.sess.Done(a.Token, Result{Err: r.mapInflight(a)})
	case SendRARP:
		r.sendRARP(a)
	case SetMTU:
		return r.sess.Done(a.Token, Result{Err: r.dev.SetMTU(a.MTU)})
	case SetMAC:
		return r.sess.Done(a.Token, Result{Err: r.setMAC(a.MAC)})
	case TransferState:
		return r.sess.Done(a.Token, Result{Err: r.beginTransfer(a)})
	case CheckState:
		return r.sess.Done(a.Token, Result{Err: r.checkTransfer()})
	}
	return nil
}
