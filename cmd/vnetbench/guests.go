package main

import (
	"errors"

	"github.com/vnetbench/vnetbench/hostnet/tap"
	"github.com/vnetbench/vnetbench/vhost"
	"github.com/vnetbench/vnetbench/vmtest"
	"github.com/vnetbench/vnetbench/vmtest/qemuguest"
	"github.com/vnetbench/vnetbench/vmtest/simguest"
	"github.com/vnetbench/vnetbench/vmtest/umlguest"
)

// guests returns what makes guests of the kind asked for.
func (c *runCmd) guests() (func() vmtest.Guest, error) {
	if c.QEMU != "" && c.Guest != "qemu" {
		return nil, errors.New("--qemu: no other guest runs in QEMU; add --guest qemu")
	}
	if c.Guest == "sim" {
		if c.GuestProgram != "" {
			return nil, errors.New("--guest-program: the simulated guest runs no binaries; add --guest qemu")
		}
		return func() vmtest.Guest { return simguest.New(simguest.Config{}) }, nil
	}
	if c.Guest == "uml" {
		if c.GuestProgram != "" {
			return nil, errors.New("--guest-program: the sender of a guest in virtual time is its own; add --guest qemu")
		}
		return func() vmtest.Guest { return umlguest.New(umlguest.Config{}) }, nil
	}
	cfg := qemuguest.Config{Program: c.GuestProgram, QEMU: c.QEMU}
	return func() vmtest.Guest { return qemuguest.New(cfg) }, nil
}

// environmentErrors are causes that lie in the machine, not in a run.
var environmentErrors = []error{
	qemuguest.ErrEmulator, qemuguest.ErrKernel, qemuguest.ErrNamespace, qemuguest.ErrGuestProgram,
	umlguest.ErrKernel, umlguest.ErrBuild, umlguest.ErrCompiler, umlguest.ErrStart,
	tap.ErrNoDriver, tap.ErrPermission, tap.ErrBusy, tap.ErrKind, tap.ErrConfig,
	vhost.ErrBusy, vhost.ErrPathTooLong, vhost.ErrNotSocket, vhost.ErrConfig,
}

// statusOf gives errors of the environment the status of usage errors.
func statusOf(err error) error {
	for _, e := range environmentErrors {
		if errors.Is(err, e) {
			return usage(err)
		}
	}
	return err
}
