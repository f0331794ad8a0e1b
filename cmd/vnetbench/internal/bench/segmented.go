package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/vnetbench/vnetbench/vhost/frontend"
	"github.com/vnetbench/vnetbench/vhost/wire"
	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/vmtest/testpmd"
)

// gsoBytes is the length of a GSO packet: 45 segments of 1448 bytes behind one
// header.
const gsoBytes = 66 + 45*1448

// gsoRing is the size of the front-end's ring, and how many packets it has.
const gsoRing = 256

// gsoSide is a back-end under a front-end of our own, a thread of this process:
// testpmd cannot send GSO packets that fast.
type gsoSide struct {
	back  backend
	guest *frontend.Guest
	tx    *frontend.Ring
	cpu   int
}

func (r *runner) openOursSegmented(ctx context.Context, s spec) (side, error) {
	path := r.path()
	b, err := r.serve(ctx, path, s.net)
	if err != nil {
		return nil, err
	}
	return r.openGuest(b, path)
}

func (r *runner) openPeerSegmented(ctx context.Context, s spec) (side, error) {
	path := r.path()
	b, err := testpmd.Start(ctx, testpmd.Config{
		CPU: r.cfg.CPUs[0], VDev: testpmd.BackEnd(path, 1, "tso=1"),
		// Without these offloads the PMD computes every checksum itself.
		Args: []string{"--rx-offloads=0xc"},
	})
	if err != nil {
		return nil, err
	}
	if err := forward(b, false, 0); err != nil {
		b.Kill()
		return nil, err
	}
	return r.openGuest(b, path)
}

// openGuest connects a front-end to a back-end, which it closes on an error.
func (r *runner) openGuest(b backend, path string) (side, error) {
	x := &gsoSide{back: b, cpu: r.cfg.CPUs[1]}
	if err := x.connect(path); err != nil {
		x.close()
		return nil, fmt.Errorf("front-end: %w", err)
	}
	x.back.Pause()
	return x, nil
}

func (x *gsoSide) connect(path string) (err error) {
	if x.guest, err = frontend.NewGuest(path, 64<<20); err != nil {
		return err
	}
	const features = virtio.FeatureVersion1 | virtio.FeatureCSum | virtio.FeatureHostTSO4 |
		virtio.FeatureMrgRxBuf | virtio.FeatureIndirectDesc
	if err := x.guest.Negotiate(features, wire.ProtocolReplyAck); err != nil {
		return err
	}
	if !x.guest.Features.Has(virtio.FeatureHostTSO4) {
		return fmt.Errorf("the back-end takes no GSO packets: it offers %v", x.guest.Features)
	}
	if err := x.guest.ShareMemory(); err != nil {
		return err
	}
	for i := range 2 { // a back-end waits for both rings of the pair
		ring, err := x.guest.AddRing(i, gsoRing, 68<<10)
		if err != nil {
			return err
		}
		if err := x.guest.Start(ring, 0); err != nil {
			return err
		}
	}
	x.tx = x.guest.Rings[1]
	x.tx.DisableCalls()
	return x.fill()
}

// fill writes a packet into every buffer.
func (x *gsoSide) fill() error {
	h := virtio.NetHdr{
		Flags: virtio.HdrNeedsCSum, GSOType: virtio.GSOTCPv4, HdrLen: 66, GSOSize: 1448,
		CSumStart: 34, CSumOffset: frame.TCPCSumOffset,
	}
	f := frame.AppendTCP(nil, &frame.TCPSpec{
		SrcMAC: frame.MAC{0x52, 0x54, 0, 0x12, 0x34, 0x56}, DstMAC: frame.MAC{2, 0, 0, 0, 0, 1},
		Src: frame.V4([4]byte{198, 18, 0, 2}), Dst: frame.V4([4]byte{198, 18, 0, 1}), SrcPort: 40000, DstPort: 9,
		Flags: frame.TCPAck, Window: 512, Timestamps: true, Partial: true, Payload: make([]byte, gsoBytes-66),
	})
	for token := range uint32(gsoRing) {
		b := x.tx.Buffer(token)
		h.Encode(b[:virtio.NetHdrLen])
		copy(b[virtio.NetHdrLen:], f)
	}
	return nil
}

func (x *gsoSide) run(d time.Duration) (rate float64, err error) {
	x.back.Resume()
	defer x.back.Pause()
	done := make(chan error, 1)
	go onCPU(x.cpu, done, func() {
		x.send(settle)
		rate = x.send(d)
	})
	err = <-done
	if err == nil && rate == 0 {
		err = errNothing
	}
	return rate, err
}

// send keeps the ring full for a time, and returns Gbit/s of frames that came
// back.
func (x *gsoSide) send(d time.Duration) float64 {
	back, start := 0, time.Now()
	for time.Since(start) < d {
		for range gsoRing {
			if _, _, ok := x.tx.Done(); !ok {
				break
			}
			back++
		}
		n := 0
		for n < 32 && x.tx.Again(virtio.NetHdrLen+gsoBytes) {
			n++
		}
		if n > 0 {
			x.tx.Publish()
			x.tx.Notify()
		}
	}
	return float64(back) * gsoBytes * 8 / float64(time.Since(start).Nanoseconds())
}

func (x *gsoSide) close() {
	if x.guest != nil {
		x.guest.Close()
	}
	x.back.Kill()
}
