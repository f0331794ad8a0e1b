//go:build !amd64

package shm

// Acquire keeps reads that follow it after reads before it: read the other
// side's index, Acquire, read what the index covers.
func Acquire() { Fence() }

// Release keeps writes that follow it after all accesses before it: write the
// elements, Release, publish the index.
func Release() { Fence() }
