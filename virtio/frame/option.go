package frame

// TCP option kinds (RFC 9293 §3.2, RFC 7323, RFC 2018).
const (
	optEnd       = 0
	optNop       = 1
	optMSS       = 2
	optWScale    = 3
	optSACKOK    = 4
	optSACK      = 5
	optTimestamp = 8
)

// MaxSACK is the most SACK blocks that the options of a segment can hold, which
// with timestamps are 3 (RFC 2018 §3).
const MaxSACK = 4

// SACKBlock is a range of received sequence numbers: [Start, End).
type SACKBlock struct{ Start, End Seq }

// Options are the TCP options that ParseOptions knows.
type Options struct {
	MSS           uint16 // 0 if absent
	WScale        uint8  // shift; valid with HasWScale
	HasWScale     bool
	SACKPermitted bool
	Timestamps    bool
	TSVal, TSEcr  uint32
	NSACK         int // entries of SACK in use
	SACK          [MaxSACK]SACKBlock
}

// ParseOptions reads the bytes of the options into o. Unknown options are
// skipped; it stops at one whose length is wrong and returns false.
func ParseOptions(b []byte, o *Options) bool {
	*o = Options{}
	if len(b) == timestampLen && be.Uint32(b) == timestampHead {
		o.Timestamps, o.TSVal, o.TSEcr = true, be.Uint32(b[4:]), be.Uint32(b[8:])
		return true
	}
	for len(b) > 0 {
		switch b[0] {
		case optEnd:
			return true
		case optNop:
			b = b[1:]
			continue
		}
		if len(b) < 2 || int(b[1]) < 2 || int(b[1]) > len(b) {
			return false
		}
		n := int(b[1])
		if !o.set(b[0], b[2:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// set stores the option of the given kind with value v. It returns false if v
// has the wrong length.
func (o *Options) set(kind uint8, v []byte) bool {
	switch kind {
	case optMSS:
		if len(v) != 2 {
			return false
		}
		o.MSS = be.Uint16(v)
	case optWScale:
		if len(v) != 1 {
			return false
		}
		o.WScale, o.HasWScale = v[0], true
	case optSACKOK:
		o.SACKPermitted = true
		return len(v) == 0
	case optTimestamp:
		if len(v) != 8 {
			return false
		}
		o.Timestamps, o.TSVal, o.TSEcr = true, be.Uint32(v), be.Uint32(v[4:])
	case optSACK:
		return o.setSACK(v)
	}
	return true
}

func (o *Options) setSACK(v []byte) bool {
	if len(v) == 0 || len(v)%8 != 0 {
		return false
	}
	for ; len(v) > 0 && o.NSACK < MaxSACK; v = v[8:] {
		o.SACK[o.NSACK] = SACKBlock{Seq(be.Uint32(v)), Seq(be.Uint32(v[4:]))}
		o.NSACK++
	}
	return true
}
