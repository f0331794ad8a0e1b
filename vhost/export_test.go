package vhost

import "time"

// SetWriteTimeout shortens the patience with a front-end that does not read its
// replies, and returns what sets it back.
func SetWriteTimeout(d time.Duration) (restore func()) {
	old := writeTimeout
	writeTimeout = d
	return func() { writeTimeout = old }
}
