package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/vnetbench/vnetbench/hostnet/pcap"
	"github.com/vnetbench/vnetbench/vhost"
)

// capture has the device of server i watched, if that is asked for. The function
// ends it, after the server.
func (c *serveCmd) capture(cfg *vhost.Config, i int) (end func(), err error) {
	if c.Pcap == "" {
		return func() {}, nil
	}
	path := c.Pcap
	if len(c.SocketPath) > 1 {
		path = fmt.Sprintf("%s.%d", path, i)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--pcap: %w", err)
	}
	w, err := pcap.NewWriter(f, pcap.Config{Stamp: pcap.WallClock()})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	cfg.Device.Observer = w
	log := cfg.Logger
	return func() {
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			log.Error("capture", "file", path, "error", err)
		}
	}, nil
}
