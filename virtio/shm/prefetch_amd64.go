package shm

// prefetchRead fetches two cache lines at the start of each of n buffers.
//
//go:noescape
func prefetchRead(bufs *[]byte, n int)

// prefetchWrite does so for writing.
//
//go:noescape
func prefetchWrite(bufs *[]byte, n int)
