package simguest

import (
	"time"

	"github.com/vnetbench/vnetbench/guest/skb"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/guest/vcpu"
	"github.com/vnetbench/vnetbench/virtio/frame"
	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// synRetry is the first retransmission timeout of a SYN (TCP_TIMEOUT_INIT,
// include/net/tcp.h, v3.1 and later); it doubles.
const synRetry = time.Second

// connectTask is the program's connect(2).
type connectTask struct{ *conn }

// Run sends the SYN. The program sleeps until the connection is established.
func (k *connectTask) Run(c *vcpu.CPU) {
	c.Charge(vcpu.OpSyscall, 1)
	if k.w.ce != nil {
		c.ReadClock() // for the first sequence number (secure_tcp_seq, v6.1)
	}
	k.synAt = k.w.Now()
	k.synWait = max(2*k.synWait, synRetry)
	k.alarm.Set(k.synAt.Add(k.synWait))
	c.Charge(vcpu.OpTCPXmit, 1)
	k.control(0, 0, skb.SYN)
}

// control sends a packet without data.
func (k *conn) control(seq, ack uint32, flags uint8) {
	p := k.w.pool.Get()
	p.Flow, p.Seq, p.Ack, p.Flags, p.Segs = int32(k.id), seq, ack, flags, 1
	p.Born = k.w.now()
	k.w.send(k, p)
}

// synAck is the receiver's answer to the SYN: the connection is established,
// the ACK goes out, and the program wakes up.
func (k *conn) synAck(wnd uint32, sack bool) {
	if k.open {
		k.control(1, 1, skb.ACK) // the ACK was lost, and this is another SYN-ACK
		return
	}
	k.open = true
	k.alarm.Stop()
	rtt := int64(k.w.Now())/1000 - int64(k.synAt)/1000 // the clock is kept in whole microseconds
	k.w.wake(k.cpu, &k.app)
	k.sock.Established(tcp.Handshake{RTTUs: rtt, Window: wnd, SACK: sack})
	k.w.Charge(vcpu.OpTCPXmit, 1)
	k.control(1, 1, skb.ACK)
	k.slept = true
}

// options sets what the headers of a packet say beside its numbers: a SYN
// offers, everything else carries a timestamp.
func (k *conn) options(syn bool) {
	f := &k.data
	f.MSS, f.HasWScale, f.SACKPermitted = 0, false, false
	if syn {
		f.MSS, f.HasWScale, f.WScale, f.SACKPermitted = uint16(k.w.s.EffectiveMSS()+12), true, 7, true
	}
}

// accept answers a SYN.
func (c *cable) accept(now vtime.Time, k *conn) {
	f := c.spec
	f.DstPort, f.Seq, f.Ack, f.Flags = k.data.SrcPort, 0, 1, skb.SYN|skb.ACK
	f.Window, f.TSVal, f.TSEcr = uint16(c.window()), tsMillis(now), tsMillis(now)
	f.MSS, f.HasWScale, f.WScale, f.SACKPermitted = uint16(c.w.s.EffectiveMSS()+12), true, c.wscale, true
	c.w.lower.answer(now, k, 1, &f)
}

// established handles a SYN-ACK that the driver received.
func (k *conn) established(b []byte, in *frame.Info) {
	var opt frame.Options
	frame.ParseOptions(frame.TCP(b[in.L4:]).Options(), &opt)
	k.data.TSEcr = max(opt.TSVal, 1) - 1
	k.synAck(uint32(in.Window), opt.SACKPermitted)
}
