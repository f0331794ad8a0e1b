package calibrate

import "time"

// copyCold is the time to copy 1000 bytes that no cache holds.
func copyCold() (float64, error) {
	const chunk, area = 64 << 10, 256 << 20
	src, dst := make([]byte, area), make([]byte, chunk)
	for i := range src {
		src[i] = byte(i)
	}
	n := 0
	begin := time.Now()
	for off := 0; n < area/2; off = (off + 7*chunk) % area {
		n += copy(dst, src[off:off+chunk])
	}
	return per(time.Since(begin), n) * 1000, nil
}

// copyWarm is the time to copy a byte of a small buffer into pages that a cache
// holds.
func copyWarm() (float64, error) {
	const write, pages = 1024, 2 << 20
	src, dst := make([]byte, write), make([]byte, pages)
	n := 0
	begin := time.Now()
	for off := 0; n < 64<<20; off = (off + write) % pages {
		n += copy(dst[off:off+write], src)
	}
	return per(time.Since(begin), n), nil
}

// clockRead is the time to read the clock.
func clockRead() (float64, error) {
	const n = 200000
	begin := time.Now()
	last := begin
	for range n {
		last = time.Now()
	}
	return per(last.Sub(begin), n), nil
}
