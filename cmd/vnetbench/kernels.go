package main

import (
	"maps"
	"slices"

	"github.com/vnetbench/vnetbench/guest/driver"
	"github.com/vnetbench/vnetbench/guest/tcp"
	"github.com/vnetbench/vnetbench/vmtest"
)

// kernel is a release as the simulator knows it: the switches of its TCP and of
// its virtio-net driver.
type kernel struct {
	tcp    tcp.Switches
	driver driver.Switches
}

func kernelRelease(name string) (*kernel, error) {
	k, err := tcp.Release(name)
	if err != nil {
		return nil, err
	}
	d, err := driver.Release(name)
	return &kernel{k.Switches, d}, err
}

// switches lists the settings as a scenario writes them.
func (k *kernel) switches() []string {
	var out []string
	for _, name := range tcp.SwitchNames() {
		out = append(out, "tcp."+name+"="+k.tcp.Get(name))
	}
	for _, name := range driver.SwitchNames() {
		out = append(out, "driver."+name+"="+k.driver.Get(name))
	}
	return out
}

// unlike lists the settings that are not those of base; nil: all.
func (k *kernel) unlike(base *kernel) []string {
	if base == nil {
		return k.switches()
	}
	have := base.switches()
	return slices.DeleteFunc(k.switches(), func(s string) bool { return slices.Contains(have, s) })
}

// kernelOf is the scenario's kernel with the switches that the scenario and its
// remedies set, and the sysctls that they set.
func kernelOf(s vmtest.Scenario) (*kernel, []string, error) {
	k, err := kernelRelease(s.Kernel)
	if err != nil {
		return nil, nil, err
	}
	applied, err := s.Applied()
	if err != nil {
		return nil, nil, err
	}
	for name, v := range applied.TCP {
		if err := k.tcp.Set(name, v); err != nil {
			return nil, nil, err
		}
	}
	for name, v := range applied.Driver {
		if err := k.driver.Set(name, v); err != nil {
			return nil, nil, err
		}
	}
	var sysctls []string
	for _, name := range slices.Sorted(maps.Keys(applied.Sysctl)) {
		sysctls = append(sysctls, "sysctl."+name+"="+applied.Sysctl[name])
	}
	return k, sysctls, nil
}
