package sim

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// Hash is the running hash of a trace: two runs with equal hashes did the same
// things at the same times. It is 64 bits wide, order sensitive and not
// cryptographic. The zero value is the hash of nothing.
type Hash struct {
	state uint64
	words uint64
}

// Word adds one word.
func (h *Hash) Word(x uint64) {
	h.words++
	h.state = mix(h.state + golden ^ mix(x+h.words))
}

// Event adds one traced event: when, of which kind, to what, and how much.
func (h *Hash) Event(t vtime.Time, kind uint8, id uint32, n uint64) {
	h.Word(uint64(t))
	h.Word(uint64(kind)<<32 | uint64(id))
	h.Word(n)
}

// String adds the bytes of s and their number.
func (h *Hash) String(s string) {
	for i := 0; i < len(s); i++ {
		h.Word(uint64(s[i]))
	}
	h.Word(uint64(len(s)))
}

// Sum64 returns the hash of what was added so far; more may be added.
func (h *Hash) Sum64() uint64 { return mix(h.state ^ h.words) }

// Hex returns Sum64 as 16 hexadecimal digits.
func (h *Hash) Hex() string { return fmt.Sprintf("%016x", h.Sum64()) }
