package driver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

// ctrlSize is the number of entries of the control queue's ring, as QEMU has it.
const ctrlSize = 64

// Control commands (virtio 1.3 §5.1.6.5.5).
const (
	ctrlMQ         = 4
	ctrlMQPairsSet = 0
)

// Errors of the control queue.
var (
	ErrCtrlBusy = errors.New("a control command is under way")
	ErrCtrlData = errors.New("control command is too long")
	ErrCtrlNAK  = errors.New("the device refused the control command")
)

// Ctrl is the control queue. One command is under way at a time: a kernel spins
// until it is done.
type Ctrl struct {
	Commands uint64 // sent
	Kicks    uint64 // notifications that the device asked for

	ring *ring.Driver
	mem  []byte
	gpa  uint64
	busy bool
	out  [2]ring.Buf
	in   [1]ring.Buf
}

// offsets in the command's memory, and the room for its data.
const (
	ctrlAck  = 2
	ctrlData = 8
	ctrlMax  = cacheLine - ctrlData
)

func newCtrl(mem *shm.Memory, p *queuePlace) (*Ctrl, error) {
	c := &Ctrl{gpa: p.bufs}
	var ok bool
	if c.mem, ok = mem.Slice(p.bufs, cacheLine); !ok {
		return nil, fmt.Errorf("command at %#x: %w", p.bufs, shm.ErrUnmapped)
	}
	var err error
	c.ring, err = ring.NewDriver(mem, p.ring)
	return c, err
}

// SetPairs sends the command to use n queue pairs (virtnet_set_queues, v3.8 to
// v6.12), and reports whether the device wants a kick. Done tells the outcome.
func (c *Ctrl) SetPairs(n int) (kick bool, err error) {
	return c.Send(ctrlMQ, ctrlMQPairsSet, binary.LittleEndian.AppendUint16(nil, uint16(n)))
}

// Send sends a command with its data, up to 56 bytes. The error wraps
// ErrCtrlBusy or ErrCtrlData.
func (c *Ctrl) Send(class, cmd uint8, data []byte) (kick bool, err error) {
	if c.busy {
		return false, fmt.Errorf("command %d/%d: %w", class, cmd, ErrCtrlBusy)
	}
	if len(data) > ctrlMax {
		return false, fmt.Errorf("command %d/%d: %w: %d bytes, at most %d", class, cmd, ErrCtrlData, len(data), ctrlMax)
	}
	c.mem[0], c.mem[1], c.mem[ctrlAck] = class, cmd, 0xff
	copy(c.mem[ctrlData:], data)
	out := append(c.out[:0], ring.Buf{Addr: c.gpa, Len: 2})
	if len(data) > 0 {
		out = append(out, ring.Buf{Addr: c.gpa + ctrlData, Len: uint32(len(data))})
	}
	c.in[0] = ring.Buf{Addr: c.gpa + ctrlAck, Len: 1}
	if err := c.ring.Add(out, c.in[:], 0); err != nil {
		return false, fmt.Errorf("command %d/%d: %w", class, cmd, err)
	}
	c.busy = true
	c.ring.Publish()
	c.Commands++
	if kick = c.ring.NeedKick(); kick {
		c.Kicks++
	}
	return kick, nil
}

// Done reports whether the command is through; err is ErrCtrlNAK if the device
// refused it.
func (c *Ctrl) Done() (done bool, err error) {
	if !c.busy {
		return true, nil
	}
	if _, _, ok := c.ring.Reap(); !ok {
		return false, c.ring.Err()
	}
	c.busy = false
	if c.mem[ctrlAck] != 0 {
		return true, ErrCtrlNAK
	}
	return true, nil
}
