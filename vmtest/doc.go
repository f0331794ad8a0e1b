// Package vmtest describes one experiment and its outcome, whatever guest runs
// it: a Scenario says what to run, a Plan spans the runs of one command, a
// Guest runs a Scenario, and a Result lays the runs side by side. The guests
// are in the packages below: simguest (simulated, virtual time) and qemuguest
// (a real Linux under QEMU, real time). This package itself starts no guest and
// opens no file but the scenario that it is asked to read.
package vmtest
