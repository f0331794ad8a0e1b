package shm

import "sync/atomic"

// Acquire keeps reads that follow it after reads before it: read the other
// side's index, Acquire, read what the index covers. On amd64 it binds only the
// compiler.
func Acquire() {
	var own uint32
	atomic.LoadUint32(&own)
}

// Release keeps writes that follow it after all accesses before it: write the
// elements, Release, publish the index. On amd64 it binds only the compiler.
func Release() {
	var own uint32
	atomic.LoadUint32(&own)
}
