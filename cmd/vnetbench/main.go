// Command vnetbench measures a multi-queue virtio-net device under a guest's
// TCP: what the guest hands to it, how often each side wakes the other, and what
// that costs. `vnetbench run` needs nothing but this binary.
package main

import "os"

func main() { os.Exit(execute(commandLine(os.Args), os.Stdout, os.Stderr)) }
