// Package simguest composes the simulated guest: TCP senders, queueing
// disciplines, the virtio-net driver and serial CPUs (guest/...), the device
// (virtio/netdev), one host worker for each queue pair, and the network with
// its receivers (hostnet/link), all in virtual time on one event loop. It
// implements vmtest.Guest. Nothing in it depends on the wall clock, on map order
// or on goroutines: a scenario and its seed decide every packet.
package simguest
