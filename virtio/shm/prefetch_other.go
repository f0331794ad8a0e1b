//go:build !amd64

package shm

func prefetchRead(*[]byte, int)  {}
func prefetchWrite(*[]byte, int) {}
