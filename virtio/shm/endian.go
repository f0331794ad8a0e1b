//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64 || wasm

package shm

// hostIsLittleEndian is defined for little-endian hosts only: the rings of
// VERSION_1 are little-endian, and this package reads them in host order. On a
// big-endian host access.go does not compile for want of it.
const hostIsLittleEndian = true
