package umlguest

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vnetbench/vnetbench/virtio/vtime"
)

// schedule is memory that a guest and the calendar share, through which they say
// most of what the time-travel protocol has messages for (struct
// um_timetravel_schedshm, include/uapi/linux/um_timetravel.h, version 2, v6.12).
// Each guest has one of its own, of which it is the first client and the calendar
// the second, so that no guest can spoil another's. A guest writes while it runs
// and while its device calls it; the calendar reads it when the guest says that it
// waits, and when it kicks.
type schedule struct {
	mem []byte
	fd  int // for the guest, until it has it
}

// Places in the memory, and its clients.
const (
	schedVersion   = 0  // 32 bits
	schedLen       = 4  // 32 bits
	schedFreeUntil = 8  // the guest runs freely before this
	schedNow       = 16 // written by who runs
	schedRunning   = 24 // 16 bits: who runs; beside it, 16 bits: how many clients

	schedHeader    = 4096
	schedClient    = 128 // bytes of each client
	schedCapa      = 0   // 32 bits
	schedFlags     = 4   // 32 bits
	schedRequest   = 8   // when the client wants to run, if its flags say so
	guestClient    = 0
	calendarClient = 1
	schedClients   = 2

	schedSize = schedHeader + schedClients*schedClient
	// capShare is a client that keeps to the memory, flagRequest one with a time
	// in its request.
	capShare    = 1
	flagRequest = 1
	// theVersion of the structure is what 6.12 knows; a guest that
	// knows another goes on with messages.
	theVersion = 2
)

// newSchedule makes the memory. No guest can make it smaller.
func newSchedule() (*schedule, error) {
	fd, err := unix.MemfdCreate("schedule", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	s := &schedule{fd: fd}
	if err = unix.Ftruncate(fd, 2*schedHeader); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err == nil {
		s.mem, err = unix.Mmap(fd, 0, 2*schedHeader, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("memory for a schedule: %w", err)
	}
	s.word32(schedVersion).Store(theVersion)
	s.word32(schedLen).Store(schedSize)
	s.word32(clientAt(calendarClient, schedCapa)).Store(capShare)
	s.runs(calendarClient)
	return s, nil
}

func clientAt(client, field int) int { return schedHeader + client*schedClient + field }

func (s *schedule) word32(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&s.mem[at])) }
func (s *schedule) word64(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&s.mem[at])) }

// runs says which client runs.
func (s *schedule) runs(client uint32) { s.word32(schedRunning).Store(client | schedClients<<16) }

// taken reports whether the guest keeps to the memory. It says so with the answer
// to START.
func (s *schedule) taken() bool {
	return s.word32(clientAt(guestClient, schedCapa)).Load()&capShare != 0
}

// now is the time that the guest wrote before it kicked.
func (s *schedule) now() uint64 { return s.word64(schedNow).Load() }

func (s *schedule) setNow(t vtime.Time) { s.word64(schedNow).Store(uint64(t)) }

func (s *schedule) setFreeUntil(t vtime.Time) { s.word64(schedFreeUntil).Store(uint64(t)) }

func (s *schedule) freeUntil() vtime.Time {
	return message{time: s.word64(schedFreeUntil).Load()}.when()
}

// request is when the guest, which waits, wants to run.
func (s *schedule) request() vtime.Time {
	if s.word32(clientAt(guestClient, schedFlags)).Load()&flagRequest == 0 {
		return vtime.Never
	}
	return message{time: s.word64(clientAt(guestClient, schedRequest)).Load()}.when()
}

// sent closes the descriptor that the guest has now.
func (s *schedule) sent() {
	_ = unix.Close(s.fd)
	s.fd = -1
}

// close gives the memory back.
func (s *schedule) close() {
	if s == nil {
		return
	}
	if s.fd >= 0 {
		s.sent()
	}
	if s.mem != nil {
		_ = unix.Munmap(s.mem)
		s.mem = nil
	}
}
