package qemuguest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

// pieceBytes and pieceEvery pace the stream to some 16 MB/s, twice what the guest's
// program takes, so that its socket's buffer is always full. A guest whose memory
// changes faster than it can be moved never arrives.
const (
	pieceBytes = 16 << 10
	pieceEvery = time.Millisecond
)

// connect takes the guest's connection, and begins to feed and to compare.
func (m *move) connect() {
	m.t.Helper()
	m.ok(m.listen.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second)))
	c, err := m.listen.Accept()
	m.ok(err)
	m.conn = c
	m.t.Cleanup(func() { c.Close() })
	stop := m.t.Context().Done()
	go m.feed(stop, m.fed)
	go m.hear(m.heard)
}

func randomBytes() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1: 7}) }

func (m *move) feed(stop <-chan struct{}, done chan<- int64) {
	var sent int64
	defer func() { done <- sent }()
	src, buf := randomBytes(), make([]byte, pieceBytes)
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for !m.pause.Load() {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		_, _ = src.Read(buf)
		n, err := m.conn.Write(buf)
		sent += int64(n)
		if err != nil {
			return
		}
	}
}

// hear compares what comes back with what was sent.
func (m *move) hear(done chan<- error) {
	src := randomBytes()
	got, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := m.conn.Read(got)
		_, _ = src.Read(want[:n])
		if string(got[:n]) != string(want[:n]) {
			done <- fmt.Errorf("wrong bytes after %d", m.echoed.Load())
			return
		}
		m.echoed.Add(int64(n))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			done <- err
			return
		}
	}
}

// flow waits until the stream has moved on, and for a time.
func (m *move) flow(d time.Duration) {
	m.t.Helper()
	before, end := m.echoed.Load(), time.Now().Add(20*time.Second)
	for m.echoed.Load() < before+4*pieceBytes {
		select {
		case err := <-m.heard:
			m.t.Fatalf("the stream ended: %v; console: %s", err, m.config.console.last(10))
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			m.t.Fatalf("the stream stands still at byte %d; console: %s", before, m.config.console.last(10))
		}
	}
	time.Sleep(d)
}

// finish ends the stream and compares the counts.
func (m *move) finish() {
	m.t.Helper()
	m.pause.Store(true)
	sent := <-m.fed
	m.ok(m.conn.(*net.TCPConn).CloseWrite())
	select {
	case err := <-m.heard:
		m.ok(err)
	case <-time.After(30 * time.Second):
		m.t.Fatal("the stream does not end")
	}
	if got := m.echoed.Load(); got != sent || got == 0 {
		m.t.Errorf("%d bytes sent, %d came back", sent, got)
	}
	m.t.Logf("%d bytes there and back, every one compared", sent)
}
