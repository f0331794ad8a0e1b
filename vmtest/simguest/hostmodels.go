package simguest

import "github.com/vnetbench/vnetbench/vmtest/internal/host"

// HostModels returns the names of the built-in host models and a sentence on
// each, in pairs.
func HostModels() [][2]string { return host.Models() }
