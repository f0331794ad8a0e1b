package shm

import "sync/atomic"

// Fence is a full barrier: no access before it is ordered after it, nor one
// after it before it. It is what store-load order needs: publish an index, Fence,
// read the other side's event. The package comment says what it is made of.
func Fence() {
	var own uint32
	atomic.StoreUint32(&own, 1)
	atomic.LoadUint32(&own)
}
