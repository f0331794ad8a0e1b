package netdev

import (
	"encoding/binary"

	"github.com/vnetbench/vnetbench/virtio"
)

// Commands of class NOTF_COAL (virtio 1.3 §5.1.6.5.6).
const (
	coalTX    = 0
	coalRX    = 1
	coalVQSet = 2
	coalVQGet = 3
)

// applyCoal carries a command of class NOTF_COAL out. The queues take the new
// parameters over at their next look.
func (c *Ctrl) applyCoal(cmd byte, data []byte) (Action, bool) {
	need := virtio.FeatureNotfCoal
	if cmd >= coalVQSet {
		need = virtio.FeatureVQNotfCoal
	}
	set := Action{Kind: ActCoalesce}
	if !c.dev.acked.Has(need) {
		return set, false
	}
	switch cmd {
	case coalTX:
		return set, c.setDirCoal(DirTX, data)
	case coalRX:
		return set, c.setDirCoal(DirRX, data)
	case coalVQSet:
		return set, c.setQueueCoal(data)
	case coalVQGet:
		return Action{}, c.getQueueCoal(data)
	}
	return Action{}, false
}

func (c *Ctrl) setDirCoal(dir Dir, data []byte) bool {
	if len(data) != 8 {
		return false
	}
	c.dev.setCoalescing(dir, readCoalescing(data))
	return true
}

func readCoalescing(b []byte) Coalescing {
	return Coalescing{MaxPackets: binary.LittleEndian.Uint32(b), MaxUsecs: binary.LittleEndian.Uint32(b[4:])}
}

func (c *Ctrl) setQueueCoal(data []byte) bool {
	if len(data) != 12 {
		return false
	}
	q := c.dataQueue(binary.LittleEndian.Uint16(data))
	if q == nil || !q.up.Load() {
		return false
	}
	q.coal.set(readCoalescing(data[4:]))
	return true
}

// getQueueCoal answers with the parameters of a queue. Drivers send the whole
// structure of VQ_SET or the queue's number and its padding only.
func (c *Ctrl) getQueueCoal(data []byte) bool {
	if len(data) != 4 && len(data) != 12 {
		return false
	}
	q := c.dataQueue(binary.LittleEndian.Uint16(data))
	if q == nil || !q.up.Load() {
		return false
	}
	p := q.coal.get()
	c.result = binary.LittleEndian.AppendUint32(c.result, p.MaxPackets)
	c.result = binary.LittleEndian.AppendUint32(c.result, p.MaxUsecs)
	return true
}

// dataQueue returns the receive or transmit queue of that virtqueue number, nil
// if there is none.
func (c *Ctrl) dataQueue(vq uint16) *queue {
	if int(vq) >= 2*len(c.dev.pairs) {
		return nil
	}
	return c.dev.pairs[vq/2].queue(Dir(vq % 2))
}
