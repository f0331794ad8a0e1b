package netdev

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/frame"
)

// ErrState is a saved device state that cannot be read.
var ErrState = errors.New("bad device state")

// stateVersion is the version of the saved form that Save writes.
const stateVersion = 1

// savedState is what the control queue and the front-end have set: everything of
// a device that is neither its configuration nor in the rings.
type savedState struct {
	Version  int             `json:"version"`
	MAC      [6]byte         `json:"mac"`
	MTU      uint16          `json:"mtu"`
	Pairs    int             `json:"pairs"`
	Offloads virtio.Features `json:"offloads"`
	LinkDown bool            `json:"link_down"`
	Announce bool            `json:"announce"`

	Promisc   bool      `json:"promisc"`
	AllMulti  bool      `json:"all_multi"`
	AllUni    bool      `json:"all_uni"`
	NoMulti   bool      `json:"no_multi"`
	NoUni     bool      `json:"no_uni"`
	NoBcast   bool      `json:"no_bcast"`
	Uni       [][6]byte `json:"uni"`
	Multi     [][6]byte `json:"multi"`
	UniOver   bool      `json:"uni_over"`
	MultiOver bool      `json:"multi_over"`
	VLANs     []uint64  `json:"vlans"` // a bit for each

	RSS  *savedRSS     `json:"rss"`  // nil if the guest configured no hashes
	Coal [2]Coalescing `json:"coal"` // of all queues, by direction
}

// savedRSS is what the guest has configured of hashes.
type savedRSS struct {
	Types        uint32 `json:"types"`
	Key          []byte `json:"key"`
	Steers       bool   `json:"steers"`
	Table        []byte `json:"table"`
	Unclassified uint8  `json:"unclassified"`
}

// Save returns the device's state in a form that Load takes, in this or in
// another process. No ring may be in use. The steering table is left out: it is
// learned again from the first packets.
func (d *Device) Save() []byte {
	f := d.filter.Load()
	s := savedState{
		Version: stateVersion, MAC: f.mac, MTU: d.cfg.MTU, Pairs: f.pairs, Offloads: f.offloads,
		LinkDown: d.linkDown.Load(), Announce: d.announce.Load(),
		Promisc: f.promisc, AllMulti: f.allMulti, UniOver: f.uniOver, MultiOver: f.multiOver,
		AllUni: f.allUni, NoMulti: f.noMulti, NoUni: f.noUni, NoBcast: f.noBcast,
		Uni: f.uni[:f.nUni], Multi: f.multi[:f.nMulti], VLANs: f.vlans[:], RSS: f.rss.save(),
	}
	for dir := range s.Coal {
		s.Coal[dir] = unpackCoalescing(d.coal[dir].Load())
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic("netdev: a state without a saved form: " + err.Error())
	}
	return b
}

// Load takes a state that Save wrote. It holds from now on, and again when the
// driver's features are set, which a front-end may do later; a reset ends it.
// The error wraps ErrState, or ErrRunning if a ring is attached; the device is
// unchanged then.
func (d *Device) Load(b []byte) error {
	var s savedState
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if err := s.check(len(d.pairs)); err != nil {
		return err
	}
	if d.attached() {
		return fmt.Errorf("state: %w", ErrRunning)
	}
	d.restored = &s
	d.cfg.MTU = s.MTU
	d.linkDown.Store(s.LinkDown)
	d.announce.Store(s.Announce)
	for dir, c := range s.Coal {
		d.setCoalescing(Dir(dir), c)
	}
	d.filter.Store(d.freshFilter())
	return nil
}

func (s *savedState) check(pairs int) error {
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("%w: version %d, want %d", ErrState, s.Version, stateVersion)
	case s.Pairs < 1 || s.Pairs > pairs:
		return fmt.Errorf("%w: %d queue pairs in use, there are %d", ErrState, s.Pairs, pairs)
	case len(s.Uni) > maxMACs || len(s.Multi) > maxMACs:
		return fmt.Errorf("%w: %d and %d addresses, at most %d of a kind", ErrState, len(s.Uni), len(s.Multi), maxMACs)
	case len(s.VLANs) != len(filter{}.vlans):
		return fmt.Errorf("%w: %d words of VLANs, want %d", ErrState, len(s.VLANs), len(filter{}.vlans))
	case s.RSS != nil && !s.RSS.valid(pairs):
		return fmt.Errorf("%w: hashes that no guest can configure", ErrState)
	case s.MTU < MinMTU:
		return fmt.Errorf("%w: MTU %d is below %d", ErrState, s.MTU, MinMTU)
	case s.MAC[0]&1 != 0:
		return fmt.Errorf("%w: MAC %x is a group address", ErrState, s.MAC)
	}
	return nil
}

// freshFilter is the filter for the acknowledged features: that of a reset, or
// what Load brought, as far as the features have it.
func (d *Device) freshFilter() *filter {
	f := newFilter(&d.cfg, d.acked)
	s := d.restored
	if s == nil {
		return f
	}
	f.mac, f.pairs = s.MAC, s.Pairs
	f.offloads &= s.Offloads
	f.promisc, f.allMulti, f.uniOver, f.multiOver = s.Promisc, s.AllMulti, s.UniOver, s.MultiOver
	f.nUni, f.nMulti = copy(f.uni[:], s.Uni), copy(f.multi[:], s.Multi)
	f.allUni, f.noMulti, f.noUni, f.noBcast = s.AllUni, s.NoMulti, s.NoUni, s.NoBcast
	copy(f.vlans[:], s.VLANs)
	if s.RSS != nil && d.acked&(virtio.FeatureRSS|virtio.FeatureHashReport) != 0 {
		f.rss = s.RSS.load()
	}
	return f
}

// save returns r, which may be nil, in its saved form.
func (r *rss) save() *savedRSS {
	if r == nil {
		return nil
	}
	return &savedRSS{Types: uint32(r.types), Key: r.raw, Steers: r.steers,
		Table: r.table[:r.mask+1], Unclassified: r.unclassified}
}

// valid reports whether a guest could have configured it.
func (s *savedRSS) valid(pairs int) bool {
	n := len(s.Table)
	if n < 1 || n > maxIndirection || n&(n-1) != 0 || s.Types&^uint32(frame.HashAll) != 0 || len(s.Key) > frame.ToeplitzKeyMax {
		return false
	}
	for _, q := range s.Table {
		if int(q) >= pairs {
			return false
		}
	}
	return int(s.Unclassified) < pairs
}

func (s *savedRSS) load() *rss {
	r := &rss{types: frame.HashTypes(s.Types), raw: s.Key, steers: s.Steers,
		mask: uint32(len(s.Table) - 1), unclassified: s.Unclassified}
	copy(r.table[:], s.Table)
	r.key.SetKey(s.Key)
	return r
}

// SetMTU changes the MTU that the configuration space says and, if the driver
// acknowledged FeatureMTU, that the rings keep to. The error wraps ErrConfig, or
// ErrRunning if a ring is attached and the MTU is another one.
func (d *Device) SetMTU(mtu uint64) error {
	switch {
	case mtu < MinMTU || mtu > 65535:
		return fmt.Errorf("%w: MTU %d is not in %d..65535", ErrConfig, mtu, MinMTU)
	case uint16(mtu) == d.cfg.MTU:
		return nil
	case d.attached():
		return fmt.Errorf("MTU %d: %w", mtu, ErrRunning)
	}
	d.cfg.MTU = uint16(mtu)
	f := *d.filter.Load()
	if f.mtu > 0 {
		f.mtu = int(mtu)
	}
	d.filter.Store(&f)
	return nil
}

// SetMAC changes the station address, as a driver without VERSION_1 and a
// front-end that brings the state of a migrated guest do by writing to the
// configuration space. The error wraps ErrConfig.
func (d *Device) SetMAC(mac [6]byte) error {
	if mac[0]&1 != 0 {
		return fmt.Errorf("%w: MAC %x is a group address", ErrConfig, mac)
	}
	f := *d.filter.Load()
	f.mac = mac
	d.filter.Store(&f)
	return nil
}
