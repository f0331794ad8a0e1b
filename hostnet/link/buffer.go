package link

// BufferConfig describes the receive buffer of a socket, in bytes of truesize as
// the kernel charges them. The zero value is a buffer that is never short: the
// window then grows with every packet up to ReceiverConfig.WindowMax.
type BufferConfig struct {
	Size uint32 // sk_rcvbuf: tcp_rmem[1]
	// Max is tcp_rmem[2], to which the buffer grows if the program reads more in
	// each round trip; 0: it stays as it is, and the window grows for every packet.
	Max uint32
	// Measured takes the share of the buffer that is payload from the packets that
	// come (scaling_ratio, v6.6); before, it is half (tcp_adv_win_scale 1).
	Measured bool
}

// Scale of the share of a buffer that is payload (TCP_RMEM_TO_WIN_SCALE, v6.6).
const (
	ratioShift = 8
	ratioHalf  = 1 << (ratioShift - 1)
)

// maxFrags is how many fragments a packet has at most (MAX_SKB_FRAGS, v6.1 and
// v6.12).
const maxFrags = 17

// segmentOwn is what a segment's memory has beside payload when the kernel reckons
// with it: room for headers, sk_buff and skb_shared_info (SKB_TRUESIZE and
// MAX_TCP_HEADER, v6.1; a distribution's larger headers round to the same).
const segmentOwn = 192 + 256 + 320

// buffer is the receive buffer of a socket (sk_rcvbuf, sk_rmem_alloc, sk_backlog
// and window_clamp, v6.1).
type buffer struct {
	BufferConfig
	ratio int64  // share that is payload, in 1/256
	clamp uint32 // window_clamp: the window never gets larger
	used  uint32 // charged by packets that wait to be read
	late  uint32 // charged by packets in the backlog
}

// init sets the limits of a new connection, and returns the window that it may
// offer at first (tcp_select_initial_window and tcp_init_buffer_space, v6.1).
func (b *buffer) init(c BufferConfig, mss int32, initial uint32) (thresh uint32) {
	b.BufferConfig, b.ratio = c, ratioHalf
	full, option := b.payload(int64(c.Size)), uint32(mss+timestampLen)
	b.clamp = max(2*uint32(mss), full-uint32(mss))
	if !c.Measured {
		return min(initial, b.clamp)
	}
	return min(full/option*option, b.clamp)
}

// payload is how much of so many bytes of buffer is payload (tcp_win_from_space,
// v6.1).
func (b *buffer) payload(space int64) uint32 {
	return uint32(max(space, 0) * b.ratio >> ratioShift)
}

// measure learns the share from a packet whose segments have another size than
// those before (tcp_measure_rcv_mss, v6.6).
func (b *buffer) measure(s *Segment) {
	if !b.Measured || s.TrueSize == 0 {
		return
	}
	if ratio := max(int64(s.Len)<<ratioShift/int64(s.TrueSize), 1); ratio != b.ratio {
		b.ratio = ratio
		b.clamp = b.payload(int64(b.Size))
	}
}

// spaceFor is the buffer that so much payload needs, in segments of mss, at most the
// largest. Before v6.6 it is counted in packets of one segment, each with the
// kernel's own part and grown until half of it holds the segment (v6.1).
func (b *buffer) spaceFor(win, mss int64) uint32 {
	need := win << ratioShift / b.ratio
	if !b.Measured {
		one := mss + segmentOwn
		for (one+1)/2 < mss {
			one += 128
		}
		need = win / mss * one
	}
	return uint32(min(need, int64(b.Max)))
}

// space is the payload that still fits (tcp_space, v6.1).
func (b *buffer) space() uint32 {
	return b.payload(int64(b.Size) - int64(b.late) - int64(b.used))
}

// room is how far a window may still grow (tcp_grow_window, v6.1).
func (b *buffer) room(thresh uint32) uint32 {
	limit := min(b.clamp, b.space())
	return limit - min(limit, thresh)
}

// grows reports whether a packet makes the window grow: one that takes a lot more
// memory than its payload does so only while the window is small; less says that
// its head does not count (tcp_grow_window, truesize_adjust and __tcp_grow_window, v6.1).
func (b *buffer) grows(s *Segment, thresh uint32, less bool) bool {
	if b.Max == 0 || s.TrueSize == 0 {
		return true
	}
	size := s.TrueSize
	if less && size-s.HeadSize >= s.Len {
		size -= s.HeadSize
	}
	takes, most := b.payload(int64(size)), b.payload(int64(b.Max))>>1
	if takes <= uint32(s.Len) {
		return true
	}
	for takes >>= 1; thresh <= most; takes, most = takes>>1, most>>1 {
		if takes <= uint32(s.Len) {
			return true
		}
	}
	return false
}

// window is what the receiver would offer, and whether the buffer is more than
// half full, so that acknowledgements need not be quick (__tcp_select_window,
// v6.1).
func (b *buffer) window(thresh uint32, mss int32, unit uint32) (w uint32, tight bool) {
	free, allowed := b.space(), b.payload(int64(b.Size))
	full := min(b.clamp, allowed)
	if free < full>>1 {
		tight = true
		free &^= unit - 1
		if free < allowed>>4 || free < min(uint32(mss), full) {
			return 0, true
		}
	}
	return (min(free, thresh) + unit - 1) &^ (unit - 1), tight
}
