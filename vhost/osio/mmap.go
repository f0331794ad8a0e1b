package osio

import (
	"errors"
	"fmt"
	"reflect"

	"golang.org/x/sys/unix"
)

// Errors of Map about its arguments.
var (
	// ErrEmptyMap says that a mapping of no bytes was asked for.
	ErrEmptyMap = errors.New("mapping of size 0")
	// ErrMapRange says that offset and size do not fit into an address.
	ErrMapRange = errors.New("mapping out of range")
	// ErrShortFile says that the file ends before the mapping does.
	ErrShortFile = errors.New("file is shorter than the mapping")
)

// Memfd returns a new anonymous memory file of the given size in bytes. The
// name is what /proc shows.
func Memfd(name string, size int64) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, opError("memfd_create", err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		Close(fd)
		return -1, opError("ftruncate", err)
	}
	return fd, nil
}

// Mapping is a shared, writable mapping of a part of a file. The file may be
// truncated by another process at any time; an access beyond its end is then a
// SIGBUS, which Guard turns into an error.
type Mapping struct {
	whole []byte // page-aligned, what is unmapped
	part  []byte // what was asked for
}

// Map maps size bytes of fd from offset on. Neither needs to be aligned: the
// mapping begins at the page before, and is rounded up to whole pages of the
// file's own size (2 MiB, say, on hugetlbfs). The descriptor may be closed
// afterwards.
func Map(fd int, offset, size uint64) (*Mapping, error) {
	if size == 0 {
		return nil, ErrEmptyMap
	}
	if offset+size < offset || offset+size > 1<<62 {
		return nil, fmt.Errorf("%w: offset %#x, size %#x", ErrMapRange, offset, size)
	}
	page, err := checkFile(fd, offset+size)
	if err != nil {
		return nil, err
	}
	start := offset &^ (page - 1)
	length := (offset + size - start + page - 1) &^ (page - 1)
	whole, err := unix.Mmap(fd, int64(start), int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, opError("mmap", err)
	}
	// A forked child or a core dump has no use for a guest's memory.
	_ = unix.Madvise(whole, unix.MADV_DONTDUMP)
	pad := offset - start
	return &Mapping{whole: whole, part: whole[pad : pad+size : pad+size]}, nil
}

// checkFile returns the page size of fd's file, after a look at whether a
// regular file reaches to end.
func checkFile(fd int, end uint64) (page uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, opError("fstat", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG && uint64(st.Size) < end {
		return 0, fmt.Errorf("%w: %#x bytes, %#x needed", ErrShortFile, st.Size, end)
	}
	page = uint64(unix.Getpagesize())
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.HUGETLBFS_MAGIC {
		page = uint64(fs.Bsize)
	}
	return page, nil
}

// Bytes is the memory that was asked for. It is valid until Unmap.
func (m *Mapping) Bytes() []byte { return m.part }

// Contains reports whether a byte of the mapping, the rounding included, lies
// at the address addr of this process.
func (m *Mapping) Contains(addr uintptr) bool {
	base := reflect.ValueOf(m.whole).Pointer()
	return addr >= base && addr-base < uintptr(len(m.whole))
}

// Addr is the address of Bytes in this process.
func (m *Mapping) Addr() uint64 { return uint64(reflect.ValueOf(m.part).Pointer()) }

// Unmap removes the mapping. Nothing may use Bytes afterwards. A second call
// does nothing.
func (m *Mapping) Unmap() error {
	whole := m.whole
	if whole == nil {
		return nil
	}
	m.whole, m.part = nil, nil
	return opError("munmap", unix.Munmap(whole))
}
