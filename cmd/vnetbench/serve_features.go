package main

import (
	"fmt"

	"github.com/vnetbench/vnetbench/virtio"
	"github.com/vnetbench/vnetbench/virtio/netdev"
	"github.com/vnetbench/vnetbench/vmtest"
)

// offer are the flags that change what the device offers.
type offer struct {
	Offer    []string `placeholder:"FEATURE" help:"Offer a feature that is not offered otherwise, such as HASH_REPORT or RSS. May be repeated, or a comma list."`
	Withhold []string `placeholder:"FEATURE" help:"Do not offer a feature, such as MRG_RXBUF. May be repeated, or a comma list."`
}

// apply puts the flags into a device's configuration.
func (o *offer) apply(cfg *netdev.Config) error {
	if len(o.Offer)+len(o.Withhold) == 0 {
		return nil
	}
	dev, err := netdev.New(*cfg)
	if err != nil {
		return err
	}
	more, err := features("--offer", o.Offer)
	if err != nil {
		return err
	}
	less, err := features("--withhold", o.Withhold)
	if err != nil {
		return err
	}
	if both := more & less; both != 0 {
		return fmt.Errorf("--offer: %v is withheld as well; give it once", both)
	}
	cfg.Features = (dev.Features() | more) &^ less
	return nil
}

// features reads names of features that the device implements.
func features(flag string, names []string) (all virtio.Features, err error) {
	for _, name := range names {
		f, ok := virtio.ParseFeature(name)
		if !ok || !netdev.AllFeatures.Has(f) {
			return 0, fmt.Errorf("%s: unknown feature %q; the nearest is %q", flag, name, vmtest.Nearest(name, netdev.AllFeatures.Names()))
		}
		all |= f
	}
	return all, nil
}
