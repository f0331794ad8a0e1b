package vhost

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vnetbench/vnetbench/vhost/osio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
)

const (
	// transferTime is how long a front-end may take to read or write a device's
	// state, which is a few kilobytes.
	transferTime = 10 * time.Second
	// maxState is the longest state in bytes that is read.
	maxState = 1 << 20
)

var (
	errNoTransfer = errors.New("no transfer was begun")
	errStateSize  = errors.New("device state is too long")
)

// transfer is device state on its way through a pipe, on a goroutine of its own,
// since the front-end may want answers on the main channel meanwhile.
type transfer struct {
	load bool
	file *os.File
	data []byte // what is to be written, or was read
	err  error
	done chan struct{} // closed when the goroutine is gone
}

// beginTransfer starts a transfer over fd, which it takes over.
func (r *runner) beginTransfer(a TransferState) error {
	r.endTransfer()
	if err := osio.PrepareNotifier(a.FD); err != nil { // a pipe, and one that waits for nobody
		osio.Close(a.FD)
		return err
	}
	t := &transfer{load: a.Load, file: os.NewFile(uintptr(a.FD), "device state"), done: make(chan struct{})}
	if !a.Load {
		t.data = r.dev.Save()
	}
	_ = t.file.SetDeadline(time.Now().Add(transferTime))
	r.transfer = t
	go t.run()
	return nil
}

func (t *transfer) run() {
	defer close(t.done)
	defer t.file.Close()
	if !t.load {
		_, t.err = t.file.Write(t.data)
		return
	}
	t.data, t.err = io.ReadAll(io.LimitReader(t.file, maxState+1))
	if t.err == nil && len(t.data) > maxState {
		t.err = fmt.Errorf("%w: over %d bytes", errStateSize, maxState)
	}
}

// checkTransfer waits for the transfer and, if it brought a state, puts it into
// effect.
func (r *runner) checkTransfer() error {
	t := r.transfer
	if t == nil {
		return errNoTransfer
	}
	<-t.done // within transferTime
	r.transfer = nil
	if t.err != nil || !t.load {
		return t.err
	}
	if err := r.dev.Load(t.data); err != nil {
		return err
	}
	r.log.Info("device state loaded", "bytes", len(t.data))
	return nil
}

// endTransfer ends a transfer that nobody asks for any more.
func (r *runner) endTransfer() {
	if t := r.transfer; t != nil {
		_ = t.file.SetDeadline(time.Unix(1, 0))
		<-t.done
		r.transfer = nil
	}
}

// sendRARP has the worker of the first pair send a RARP request from the guest's
// address on the host's side.
func (r *runner) sendRARP(a SendRARP) {
	w, err := r.hire(Role{Dir: netdev.DirTX})
	if err != nil {
		r.log.Warn("no RARP", "error", err)
		return
	}
	r.check(w.do(func() { w.sendOwn(frame.AppendRARP(nil, a.MAC)) }))
	r.log.Info("guest announced by RARP", "mac", fmt.Sprintf("%x", a.MAC))
}

// setMAC changes the device's address; it is the control queue's worker, if
// there is one, that may be changing it too.
func (r *runner) setMAC(mac [6]byte) (err error) {
	w := r.workers[r.dev.Pairs()]
	if w == nil || w.do(func() { err = r.dev.SetMAC(mac) }) != nil {
		return r.dev.SetMAC(mac)
	}
	return err
}
