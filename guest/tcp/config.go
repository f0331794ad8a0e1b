package tcp

import (
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/guest/tcp/cc"
)

// Sentinel errors of NewSock and Config.Validate.
var (
	// ErrConfig is wrapped by every error about a field of Config.
	ErrConfig = errors.New("bad tcp configuration")
	// ErrRelease is wrapped if no kernel release has the name.
	ErrRelease = errors.New("unknown kernel release")
	// ErrSwitch is wrapped if a switch or its value does not exist.
	ErrSwitch = errors.New("unknown tcp switch")
	// ErrSysctl is wrapped if a sysctl does not exist or refuses a value.
	ErrSysctl = errors.New("bad sysctl")
)

// Pacing is who enforces the pacing rate of a socket (enum sk_pacing).
type Pacing uint8

// The pacing states, in the kernel's order.
const (
	PacingNone   Pacing = iota // nobody; the rate only sizes packets
	PacingNeeded               // TCP's own timer (SO_MAX_PACING_RATE or BBR without fq)
	PacingFQ                   // the fq queueing discipline
)

// Unlimited is a rate without bound, in bytes/s.
const Unlimited = ^uint64(0)

// Config is everything that a socket must know before its connection is
// established. Kernel.Config gives one with the defaults of a release; a zero
// field that has a default gets it in NewSock.
//
// What a socket looks at for every packet comes first, up to the first sysctls.
type Config struct {
	Switches Switches // what the kernel release does

	Pacing   Pacing // who enforces the pacing rate; TCP's timer if nobody does and congestion control needs it
	NoDelay  bool   // TCP_NODELAY
	IPv6     bool   // headers and GSO limits of IPv6
	CanGSO   bool   // the device takes GSO packets; ignored where the kernel segments in software (v4.17)
	BBRPhase uint8  // BBR: phase of its gain cycle that it starts in, see cc.BBROptions.Phase; 0: drawn

	MSS     uint32 // payload bytes of a full segment, options taken off (mss_cache); default 1448, 1428 with IPv6
	PeerMSS uint32 // MSS option of the peer (mss_clamp), bytes; 0 means MSS and 12 bytes of timestamps
	HZ      uint32 // clock ticks per second, 1 to 10000; default 250
	MaxHdr  uint32 // MAX_TCP_HEADER: 304 or 320 in a distribution's kernel, 192 in a UML build; default 320

	GSOMaxSize uint32 // the device's gso_max_size, bytes; default 65536
	GSOMaxSegs uint32 // the device's gso_max_segs; default 65535

	TruesizeOverhead uint32 // bytes an skb is charged for beside its payload; default from MaxHdr and the release
	Sndbuf           uint32 // SO_SNDBUF as the kernel keeps it (twice what the application asked), bytes; 0: autotuned

	ISS    uint32 // sequence number of the first payload byte; default 1
	RcvNxt uint32 // acknowledgement number that every packet carries; default 1

	ArenaPages uint32 // pages of 32 KiB of the payload arena of the writer, at least 2; default 64. The last page holds linear payload
	ArenaBase  uint64 // its address, for skb.Frag; a multiple of ArenaPage

	MaxPacingRate uint64 // SO_MAX_PACING_RATE, bytes/s; 0: not set
	Seed          uint64 // of the random draws of this socket, together with its flow index

	Sysctl  Sysctl   // the kernel's knobs
	CC      string   // congestion control by name (cc.Names); default cubic
	Scratch *Scratch // working memory that sockets of one composer may share; nil: the socket has its own
}

// Scratch is working memory of a socket that is not in use between two calls, nor
// while an Env method runs. Sockets that are not used concurrently may share one,
// which then stays in the processor's cache. The zero value is ready.
type Scratch struct {
	st  ackState
	smp cc.Sample
}

// ArenaPage is the size of a page of the payload arena: an order-3 page
// fragment (SKB_FRAG_PAGE_ORDER, net/core/sock.c, v3.7 and later).
const ArenaPage = 32768

// withDefaults returns the configuration with defaults for zero fields.
func (c Config) withDefaults() Config {
	def := func(p *uint32, v uint32) {
		if *p == 0 {
			*p = v
		}
	}
	if c.CC == "" {
		c.CC = "cubic"
	}
	mss := uint32(1448)
	if c.IPv6 {
		mss = 1428
	}
	def(&c.MSS, mss)
	def(&c.HZ, 250)
	def(&c.MaxHdr, 320)
	def(&c.GSOMaxSize, 65536)
	def(&c.GSOMaxSegs, 65535)
	def(&c.TruesizeOverhead, c.Switches.truesizeOverhead(c.MaxHdr))
	def(&c.ISS, 1)
	def(&c.RcvNxt, 1)
	def(&c.ArenaPages, 64)
	if c.MaxPacingRate == 0 {
		c.MaxPacingRate = Unlimited
	}
	if c.Scratch == nil {
		c.Scratch = new(Scratch)
	}
	return c
}

// Validate reports the first field that is out of its bounds. Zero fields that
// have a default are accepted.
func (c Config) Validate() error {
	c = c.withDefaults()
	bound := func(name string, v, lo, hi uint32) error {
		if v < lo || v > hi {
			return fmt.Errorf("%w: %s is %d, want %d to %d", ErrConfig, name, v, lo, hi)
		}
		return nil
	}
	return errors.Join(
		bound("mss", c.MSS, 48, 65495),
		bound("hz", c.HZ, 1, 10000),
		bound("max_tcp_header", c.MaxHdr, 128, 512),
		bound("gso_max_size", c.GSOMaxSize, c.MaxHdr+2, 524280),
		bound("gso_max_segs", c.GSOMaxSegs, 1, 65535),
		bound("truesize overhead", c.TruesizeOverhead, 1, 1<<16),
		bound("arena base modulo page", uint32(c.ArenaBase%ArenaPage), 0, 0),
		bound("arena pages", c.ArenaPages, 2, 1<<20),
		bound("pacing", uint32(c.Pacing), 0, uint32(PacingFQ)),
		bound("bbr phase", uint32(c.BBRPhase), 0, 7),
		c.checkCC(),
	)
}

// checkCC refuses congestion control that the release does not have.
func (c *Config) checkCC() error {
	if c.CC == "bbr" && !c.Switches.BBR {
		return fmt.Errorf("%w: congestion control bbr is not in this release: want v4.9 or later", ErrConfig)
	}
	return nil
}

// ccOptions is what congestion control must know of the kernel and of the
// socket, when its GSO limits are known.
func (s *Sock) ccOptions() cc.Options {
	c, sw := &s.cfg, &s.cfg.Switches
	o := cc.Options{HZ: c.HZ, Hystart: cc.HystartOld + cc.HystartKind(sw.Hystart), DelayShift: 3,
		StretchSlowStart: sw.Stretch >= StretchSlowStart, StretchAvoid: sw.Stretch == StretchAll,
		IdleShift: sw.CubicIdle, AckRatio: sw.CubicRatio}
	if sw.CubicRatio {
		o.DelayShift = 4
	}
	o.BBR = cc.BBROptions{Phase: c.BBRPhase, Seed: c.Seed + uint64(s.flow)<<32, MaxHdr: c.MaxHdr,
		HeaderBytes: s.headerBytes(), GSORoom: s.gsoRoom(), GSOSegs: s.gsoSegs,
		StoredGoal: sw.BBRGoal == BBRGoalStored, GSOUnaware: sw.BBRGSOUnaware, RTTStrict: sw.BBRRTTStrict,
		IdleExit: sw.BBRIdleExit, EDT: sw.BBREDT, PlusTwo: sw.BBRPlusTwo, Aggregate: sw.BBRAggregate}
	return o
}
