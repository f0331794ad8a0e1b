package shm

// WillRead tells the CPU that the first 128 bytes of each buffer are read soon,
// so that it fetches them together: a cache line that the other side has just
// written takes as long to come as a hundred instructions, and many of them take
// hardly longer than one. It reads nothing itself, faults on no address, and does
// nothing where the CPU's instruction for it is not known to this package.
func WillRead(bufs [][]byte) {
	if len(bufs) > 0 {
		prefetchRead(&bufs[0], len(bufs))
	}
}

// WillWrite is WillRead for bytes that are written soon.
func WillWrite(bufs [][]byte) {
	if len(bufs) > 0 {
		prefetchWrite(&bufs[0], len(bufs))
	}
}
