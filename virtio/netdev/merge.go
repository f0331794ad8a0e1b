package netdev

import (
	"bytes"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// maxHeaders is the longest headers in bytes of a packet that others are joined
// to: Ethernet with two tags, IPv6, and TCP with all options.
const maxHeaders = maxL2Len + frame.IPv6Len + 60

// maxIPLen is the longest IP packet in bytes.
const maxIPLen = 65535

// joiner makes one GSO packet of consecutive segments of a flow that are in the
// ring together. It waits for nothing: what is not there yet goes by itself.
//
// The rules are those of generic receive offload (tcp_gro_receive, v6.12): same
// flow, next sequence number, same acknowledgement, window and options, hence
// the same timestamps; nothing with SYN, FIN, RST, URG, ECE or CWR; checksums
// that the guest left to us, as a finished one would have to be verified first.
//
// Deviation: a short segment or one with PSH does not end a packet. Receive
// offload ends it so that the data does not wait, and nothing waits here; TCP
// has no boundaries that the receiver could miss, and the segments of the joined
// packet are no longer than the longest of those in it.
type joiner struct {
	on      bool   // packets are joined now
	may     bool   // they are, or will be
	headers []byte // maxHeaders for each head of the ring; a port may refer to them until it is done
	first   frameView
	parts   []joinPart
	iov     [][]byte
	next    frame.Seq
	len     int // bytes of the frame so far
	payload int
	segment int  // payload bytes of its longest segment
	psh     bool // some part has PSH

	drained [floorFlows]drained // flows of this drain of the ring
	flows   int
}

// floorFlows bounds the flows of one drain that are told apart for Stats.Floor;
// those beyond count as the last.
const floorFlows = 16

// drained is what a drain of the ring has of a flow.
type drained struct {
	hash  uint32
	bytes int
}

// note takes a frame that may be joined into the floor of this drain.
func (j *joiner) note(v *frameView) {
	h := frame.FlowHash(v.front, &v.info)
	i := 0
	for i < j.flows && j.drained[i].hash != h {
		i++
	}
	if i == j.flows {
		i = min(i, floorFlows-1)
		j.flows = i + 1
		j.drained[i].hash = h
	}
	j.drained[i].bytes += v.payload
}

// floor returns the fewest packets that could carry the drain, and begins the
// next one.
func (j *joiner) floor() (n uint64) {
	for i := range j.drained[:j.flows] {
		n += uint64((j.drained[i].bytes + maxIPLen - 1) / maxIPLen)
		j.drained[i].bytes = 0
	}
	j.flows = 0
	return n
}

// joinPart is what is remembered of a chain that is part of a joined packet.
type joinPart struct {
	head         uint16
	flags        uint8
	gsoType      uint8
	gso          uint16
	descs        int
	len, payload int
}

// start allocates what a ring of that size needs.
func (j *joiner) start(size int) {
	if j.may && len(j.headers) < size*maxHeaders {
		j.headers = make([]byte, size*maxHeaders)
		j.parts = make([]joinPart, 0, size)
	}
}

// takeJoined is takeOne where the policy joins packets: it takes a packet off
// the ring, and those behind it that continue it, and gives the port one.
func (t *TX) takeJoined(now vtime.Time) bool {
	got, more := t.next()
	if !got {
		return more
	}
	c := &t.chain
	if r := t.admit(c); r != DropNone {
		t.reject(c.Head, r)
		t.work.Dropped++
		return true
	}
	if !t.joinable() {
		return t.send(now, c, 1)
	}
	if t.join.note(&t.view); t.q.Pending() == 0 {
		return t.send(now, c, 1)
	}
	t.saw(now)
	t.join.begin(&t.view, c)
	for t.extend(now, c) {
	}
	return t.sendJoined(now)
}

// joinable reports whether the frame in t.view may be part of a joined packet.
func (t *TX) joinable() bool {
	v := &t.view
	in, h := &v.info, &v.hdr
	if t.cut.limited || v.payload <= 0 || in.Fragment || in.Payload > min(len(v.front), maxHeaders) {
		return false // payload counts that of TCP only
	}
	if h.Flags&virtio.HdrNeedsCSum == 0 || int(h.CSumStart) != in.L4 || h.CSumOffset != frame.TCPCSumOffset {
		return false
	}
	if in.Flags&^frame.TCPPsh != frame.TCPAck || v.front[in.L4+12]&15 != 0 {
		return false
	}
	if in.Version == 6 {
		return in.L4-in.L3 == frame.IPv6Len && t.rules.acked.Has(virtio.FeatureHostTSO6) && h.GSOType&virtio.GSOECN == 0
	}
	const dontFragment = 0x40
	return in.L4-in.L3 == frame.IPv4Len && t.rules.acked.Has(virtio.FeatureHostTSO4) && h.GSOType&virtio.GSOECN == 0 &&
		v.front[in.L3+6]&dontFragment != 0
}

// segment is the payload of the longest segment of a frame.
func (v *frameView) segment() int {
	if v.hdr.GSOSize > 0 {
		return int(v.hdr.GSOSize)
	}
	return v.payload
}

// begin makes v the first part of a packet, with a copy of its headers.
func (j *joiner) begin(v *frameView, c *ring.Chain) {
	hdr := j.headers[int(c.Head)*maxHeaders:][:v.info.Payload:v.info.Payload]
	copy(hdr, v.front)
	j.first.hdr, j.first.info, j.first.front = v.hdr, v.info, hdr
	j.parts, j.iov = j.parts[:0], append(j.iov[:0], hdr)
	j.len, j.payload, j.segment, j.psh = v.info.Payload, 0, 0, false
	j.next = v.info.Seq
	j.add(v, c)
}

// add appends the payload of v.
func (j *joiner) add(v *frameView, c *ring.Chain) {
	j.iov = appendFrom(j.iov, v.iov, v.info.Payload, v.payload)
	j.parts = append(j.parts, joinPart{c.Head, v.info.Flags, v.hdr.GSOType, v.hdr.GSOSize, c.Descs, v.len, v.payload})
	j.next = j.next.Add(uint32(v.payload))
	j.len += v.payload
	j.payload += v.payload
	j.segment = max(j.segment, v.segment())
	j.psh = j.psh || v.info.Flags&frame.TCPPsh != 0
}

// extend joins the next chain of the ring to the packet, if it can be. What
// cannot, or is none, stays in the ring for later.
func (t *TX) extend(now vtime.Time, c *ring.Chain) bool {
	if len(t.join.parts) == t.size {
		return false
	}
	ok, err := t.q.Next(c)
	if err == nil && !ok {
		return false
	}
	if err == nil && !t.join.has(c.Head) && t.admit(c) == DropNone && t.follows() {
		t.join.note(&t.view)
		t.saw(now)
		t.join.add(&t.view, c)
		return true
	}
	if c.HasHead {
		t.q.Unget(1)
	}
	return false
}

// has reports whether a chain is part of the packet already: a guest that
// offers it again is found out when it is taken by itself.
func (j *joiner) has(head uint16) bool {
	for i := range j.parts {
		if j.parts[i].head == head {
			return true
		}
	}
	return false
}

// follows reports whether the frame in t.view continues the packet.
func (t *TX) follows() bool {
	j, in := &t.join, &t.view.info
	first := &j.first.info
	if !t.joinable() || in.Seq != j.next || in.Payload != first.Payload || in.L3 != first.L3 || in.Version != first.Version {
		return false
	}
	if j.len-in.L3+t.view.payload > min(t.rules.tso, maxIPLen) {
		return false
	}
	a, b := j.first.front, t.view.front
	return bytes.Equal(a[:in.L3], b[:in.L3]) && sameIP(a[in.L3:in.L4], b[in.L3:in.L4], in.Version) &&
		sameTCP(a[in.L4:in.Payload], b[in.L4:in.Payload])
}

// sameIP compares IP headers without what differs from packet to packet: lengths,
// and in IPv4 the identification, which of a packet that may not be fragmented
// says nothing (RFC 6864 §4.1), and the checksum.
func sameIP(a, b []byte, version uint8) bool {
	if version == 4 {
		return bytes.Equal(a[:2], b[:2]) && bytes.Equal(a[6:10], b[6:10]) && bytes.Equal(a[12:], b[12:])
	}
	return bytes.Equal(a[:4], b[:4]) && bytes.Equal(a[6:], b[6:])
}

// sameTCP compares TCP headers without sequence number, PSH and checksum.
func sameTCP(a, b []byte) bool {
	return bytes.Equal(a[:4], b[:4]) && bytes.Equal(a[8:13], b[8:13]) && (a[13]^b[13])&^frame.TCPPsh == 0 &&
		bytes.Equal(a[14:16], b[14:16]) && bytes.Equal(a[18:], b[18:])
}

// appendFrom appends n bytes of iov from the offset on.
func appendFrom(dst, iov [][]byte, off, n int) [][]byte {
	for i := 0; i < len(iov) && n > 0; i++ {
		p := iov[i]
		if off >= len(p) {
			off -= len(p)
			continue
		}
		p = p[off:min(len(p), off+n)]
		off = 0
		n -= len(p)
		dst = append(dst, p)
	}
	return dst
}

// sendJoined gives the packet that was made to the port.
func (t *TX) sendJoined(now vtime.Time) bool {
	j := &t.join
	for _, p := range j.parts {
		t.slots[p.head].state = slotLater
	}
	t.joinedView()
	t.parts = len(j.parts)
	done, r := t.port.Send(now, &t.view.hdr, t.view.iov, makeToken(t.gen, j.parts[0].head))
	t.parts = 1
	if r == Full {
		for _, p := range j.parts {
			t.slots[p.head].state = slotFree
		}
		t.q.Unget(uint16(len(j.parts)))
		t.blocked = true
		t.stats.FullStops++
		return false
	}
	t.stats.Joined += uint64(len(j.parts) - 1)
	for i := range j.parts {
		t.joinedPart(now, i, max(done, now), r)
	}
	return true
}

// joinedView leaves the packet that was made in t.view.
func (t *TX) joinedView() {
	j, v := &t.join, &t.view
	v.hdr, v.info, v.front = j.first.hdr, j.first.info, j.first.front
	v.iov, v.len, v.payload = j.iov, j.len, j.payload
	v.info.End = j.len
	if len(j.parts) == 1 {
		return
	}
	tcp := frame.TCP(v.front[v.info.L4:])
	if j.psh {
		v.info.Flags |= frame.TCPPsh
		tcp.SetFlags(tcp.Flags() | frame.TCPPsh)
	}
	v.hdr.HdrLen, v.hdr.GSOSize = uint16(v.info.Payload), uint16(j.segment)
	l4 := uint32(j.len - v.info.L4)
	if v.info.Version == 6 {
		v.hdr.GSOType = virtio.GSOTCPv6
		ip := frame.IPv6(v.front[v.info.L3:])
		ip.SetPayloadLen(uint16(l4))
		tcp.SetCSum(frame.PseudoSum(ip.Src(), ip.Dst(), frame.ProtoTCP, l4))
		return
	}
	v.hdr.GSOType = virtio.GSOTCPv4
	ip := frame.IPv4(v.front[v.info.L3:v.info.L4])
	ip.SetTotalLen(uint16(j.len - v.info.L3))
	ip.UpdateCSum()
	tcp.SetCSum(frame.PseudoSum(ip.Src(), ip.Dst(), frame.ProtoTCP, l4))
}

// joinedPart notes what became of the chain that is part i of the packet that
// the port took, and accounts it as the guest sent it.
func (t *TX) joinedPart(now vtime.Time, i int, done vtime.Time, r SendResult) {
	p := &t.join.parts[i]
	s := &t.slots[p.head]
	s.kickAt, s.follows = t.took(), i+1 < len(t.join.parts)
	if s.follows {
		s.follower = t.join.parts[i+1].head
	}
	if r == Sent {
		s.state, s.follows = slotSent, false
		t.pend.insert(done, p.head)
	}
	v := &t.view
	v.hdr.GSOType, v.hdr.GSOSize, v.info.Flags, v.len, v.payload = p.gsoType, p.gso, p.flags, p.len, p.payload
	t.account(now, p.head, p.descs)
}
