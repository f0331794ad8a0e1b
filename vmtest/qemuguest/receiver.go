package qemuguest

import (
	"net"
	"sync"
	"sync/atomic"
)

// receiver reads and counts what the guest sends. It is safe for concurrent
// use.
type receiver struct {
	listen net.Listener
	flows  []atomic.Int64 // by the sender's port, from firstPort

	mu     sync.Mutex
	conns  map[net.Conn]bool
	others []*atomic.Int64 // of connections from other ports, in the order of arrival
	closed bool
	wg     sync.WaitGroup
}

// newReceiver serves the listener until close.
func newReceiver(l net.Listener, flows int) *receiver {
	r := &receiver{listen: l, flows: make([]atomic.Int64, flows), conns: map[net.Conn]bool{}}
	r.wg.Go(r.accept)
	return r
}

func (r *receiver) accept() {
	for {
		c, err := r.listen.Accept()
		if err != nil {
			return
		}
		n := r.admit(c)
		if n == nil {
			c.Close()
			return
		}
		r.wg.Go(func() { r.read(c, n) })
	}
}

// admit returns the counter of a new connection, nil after close.
func (r *receiver) admit(c net.Conn) *atomic.Int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.conns[c] = true
	if from, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		if i := from.Port - firstPort; i >= 0 && i < len(r.flows) {
			return &r.flows[i]
		}
	}
	n := new(atomic.Int64)
	r.others = append(r.others, n)
	return n
}

func (r *receiver) read(c net.Conn, count *atomic.Int64) {
	buf := make([]byte, 256<<10)
	for {
		n, err := c.Read(buf)
		count.Add(int64(n))
		if err != nil {
			break
		}
	}
	c.Close()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// received returns the bytes of each flow, then of each other connection.
func (r *receiver) received() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]int64, 0, len(r.flows)+len(r.others))
	for i := range r.flows {
		out = append(out, r.flows[i].Load())
	}
	for _, n := range r.others {
		out = append(out, n.Load())
	}
	return out
}

// close ends every connection and waits for their readers.
func (r *receiver) close() {
	r.listen.Close()
	r.mu.Lock()
	r.closed = true
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}
