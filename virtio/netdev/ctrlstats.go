package netdev

import (
	"encoding/binary"
	"math/bits"

	"github.com/vnetbench/vnetbench/virtio"
)

// Commands of class STATS (virtio 1.4 §5.1.6.5, Linux uapi virtio_net.h v6.12).
const (
	statsQuery = 0
	statsGet   = 1
)

// Groups of counters, as bits of a request; the number of the bit is the type of
// the reply. The groups of rate limits (RX_SPEED and TX_SPEED) are not offered:
// the device has no limit.
const (
	groupRXBasic = 1 << 0
	groupRXCSum  = 1 << 1
	groupRXGSO   = 1 << 2
	groupTXBasic = 1 << 16
	groupTXCSum  = 1 << 17
	groupTXGSO   = 1 << 18
	groupCtrl    = 1 << 32

	groupsRX  = groupRXBasic | groupRXCSum | groupRXGSO
	groupsTX  = groupTXBasic | groupTXCSum | groupTXGSO
	groupsAll = groupsRX | groupsTX | groupCtrl
)

const (
	// statsRequest is the length in bytes of what is asked of one queue.
	statsRequest = 16
	// statsHdr is the length in bytes before the counters of a group.
	statsHdr = 8
	// maxStatsResult bounds an answer: every group of 128 pairs.
	maxStatsResult = 64 << 10
)

// applyStats answers which groups of counters the device has, or the counters
// that are asked for.
func (c *Ctrl) applyStats(cmd byte, data []byte) bool {
	switch cmd {
	case statsQuery:
		c.result = binary.LittleEndian.AppendUint64(c.result, groupsAll)
		return len(data) == 0
	case statsGet:
		return c.getStats(data)
	}
	return false
}

// getStats answers a list of requests, each a virtqueue and the groups that are
// wanted of it, in order; a queue's groups come in the order of their bits.
func (c *Ctrl) getStats(data []byte) bool {
	le := binary.LittleEndian
	if len(data) == 0 || len(data)%statsRequest != 0 {
		return false
	}
	for ; len(data) > 0; data = data[statsRequest:] {
		vq, groups := le.Uint16(data), le.Uint64(data[8:])
		has := c.groupsOf(vq)
		if groups == 0 || groups&^has != 0 {
			return false
		}
		for ; groups != 0; groups &= groups - 1 {
			c.appendGroup(vq, bits.TrailingZeros64(groups))
		}
		if len(c.result) > maxStatsResult {
			return false
		}
	}
	return true
}

// groupsOf returns which groups a virtqueue has, 0 if there is no such queue.
func (c *Ctrl) groupsOf(vq uint16) uint64 {
	ctrl := 2 * len(c.dev.pairs)
	if !c.dev.acked.Has(virtio.FeatureMQ) {
		ctrl = 2
	}
	switch {
	case int(vq) == ctrl:
		return groupCtrl
	case int(vq) > ctrl:
		return 0
	case vq%2 == 0:
		return groupsRX
	}
	return groupsTX
}

// appendGroup appends one group of a queue's counters, behind a header that has
// its type, the queue and its length.
func (c *Ctrl) appendGroup(vq uint16, group int) {
	var buf [6]uint64
	values := buf[:0]
	if group == 32 {
		values = append(values, c.stats.Packets, c.stats.Packets-c.stats.Refused)
	} else {
		values = c.dataQueue(vq).mirror.group(values, group)
	}
	le := binary.LittleEndian
	c.result = append(c.result, byte(group), 0)
	c.result = le.AppendUint16(c.result, vq)
	c.result = le.AppendUint16(c.result, 0)
	c.result = le.AppendUint16(c.result, uint16(statsHdr+8*len(values)))
	for _, v := range values {
		c.result = le.AppendUint64(c.result, v)
	}
}
