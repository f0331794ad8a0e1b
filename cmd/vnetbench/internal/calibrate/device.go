package calibrate

import (
	"errors"
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/hostnet/sink"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/virtio/ring"
	"github.com/vnetbench/vnetbench/virtio/shm"
)

const (
	batch   = 32
	batches = 2000
	bufSize = 2048
	base    = 1 << 20 // guest address of the memory
)

// bench is one ring with a driver on one side and the device on the other.
type bench struct {
	dev    *netdev.Device
	mem    []byte
	driver *ring.Driver
	bufs   []ring.Buf
}

// newBench lays out a ring of 256 and a buffer for each of a batch, and attaches
// the device to it.
func newBench(attach func(*netdev.Device, *ring.Device)) (*bench, error) {
	dev, err := netdev.New(netdev.Config{})
	if err != nil {
		return nil, err
	}
	acked := dev.Features() &^ (virtio.FeatureRingPacked | virtio.FeatureInOrder)
	if err := dev.SetFeatures(acked); err != nil {
		return nil, err
	}
	b := &bench{dev: dev, mem: make([]byte, 1<<20)}
	m, err := shm.NewMemory([]shm.Region{{GPA: base, Mem: b.mem}})
	if err != nil {
		return nil, err
	}
	top := uint64(base)
	alloc := func(n uint64) uint64 {
		at := top
		top = (at + n + 63) &^ 63
		return at
	}
	cfg := ring.Config{Size: 256, Features: acked}
	need := cfg.BytesNeeded()
	cfg.Desc, cfg.Avail, cfg.Used = alloc(need.Desc), alloc(need.Avail), alloc(need.Used)
	cfg.IndirectBase, cfg.Base = alloc(ring.IndirectBytes(cfg.Size, 0)), ring.StartBase(acked)
	if b.driver, err = ring.NewDriver(m, cfg); err != nil {
		return nil, err
	}
	d, err := ring.NewDevice(m, cfg)
	if err != nil {
		return nil, err
	}
	for range batch {
		b.bufs = append(b.bufs, ring.Buf{Addr: alloc(bufSize), Len: bufSize})
	}
	dev.Pair(0).SetPort(&sink.Port{})
	attach(dev, d)
	return b, nil
}

// offer makes the buffers of a batch available.
func (b *bench) offer(out bool) error {
	for i := range b.bufs {
		o, in := b.bufs[i:i+1], []ring.Buf(nil)
		if !out {
			o, in = in, o
		}
		if err := b.driver.Add(o, in, uint32(i)); err != nil {
			return err
		}
	}
	b.driver.Publish()
	return nil
}

// reap takes back what is used, which has to be a batch.
func (b *bench) reap() error {
	n := 0
	for {
		if _, _, ok := b.driver.Reap(); !ok {
			break
		}
		n++
	}
	if n != batch {
		return fmt.Errorf("the device used %d buffers of %d", n, batch)
	}
	return nil
}

// transmit is the time of a frame of 64 bytes from the guest, the driver's part
// included.
func transmit() (float64, error) {
	b, err := newBench(func(d *netdev.Device, q *ring.Device) { d.Pair(0).AttachTX(0, q) })
	if err != nil {
		return 0, err
	}
	f := tcp(10, false)
	for i := range b.bufs {
		at := b.mem[b.bufs[i].Addr-base:]
		clear(at[:virtio.NetHdrLen])
		b.bufs[i].Len = uint32(virtio.NetHdrLen + copy(at[virtio.NetHdrLen:], f))
	}
	tx := b.dev.Pair(0).TX
	begin := time.Now()
	for range batches {
		if err := b.offer(true); err != nil {
			return 0, err
		}
		_, _, err := tx.Poll(0, netdev.Budget{})
		if err := errors.Join(err, b.reap()); err != nil {
			return 0, err
		}
	}
	return per(time.Since(begin), batch*batches), nil
}

// receive is the time of an ACK to the guest, the driver's part included.
func receive() (float64, error) {
	b, err := newBench(func(d *netdev.Device, q *ring.Device) { d.Pair(0).AttachRX(0, q) })
	if err != nil {
		return 0, err
	}
	f, rx := tcp(0, true), b.dev.Pair(0).RX
	begin := time.Now()
	for range batches {
		if err := b.offer(false); err != nil {
			return 0, err
		}
		for range batch {
			if why := rx.Deliver(0, &virtio.NetHdr{}, f); why != netdev.DropNone {
				return 0, fmt.Errorf("the device dropped a frame: %v", why)
			}
		}
		_, _, err := rx.Poll(0, netdev.Budget{})
		if err := errors.Join(err, b.reap()); err != nil {
			return 0, err
		}
	}
	return per(time.Since(begin), batch*batches), nil
}

// tcp is a frame with n bytes of payload, of 66 bytes without any.
func tcp(n int, timestamps bool) []byte {
	return frame.AppendTCP(nil, &frame.TCPSpec{
		Src: frame.V4([4]byte{10, 0, 0, 1}), Dst: frame.V4([4]byte{10, 0, 0, 2}), SrcPort: 40000, DstPort: 5001,
		Seq: 1, Ack: 1, Flags: frame.TCPAck, Window: 512, Timestamps: timestamps, Payload: make([]byte, n),
	})
}
