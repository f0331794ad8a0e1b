// Command guestprog is process 1 of a QEMU guest. The harness builds it without
// cgo and puts it into the guest's initramfs; it is of no use elsewhere.
package main

import "github.com/vnetbench/vnetbench/vmtest/qemuguest/guest"

func main() { guest.Main() }
