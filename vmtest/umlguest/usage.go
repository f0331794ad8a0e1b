package umlguest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a run took of this machine, in its time and not in the guest's.
type Usage struct {
	// Wall is how long the run took, from before the guests' boot to their end.
	Wall time.Duration
	// Guests is the CPU time of the guests' processes.
	Guests time.Duration
	// Calendar is the CPU time of the thread that runs the calendar, the devices
	// and the link.
	Calendar time.Duration
}

// Ratio is the CPU time of the guests and the calendar by that of the guests: 1 if
// all that is between them were free.
func (u Usage) Ratio() float64 { return float64(u.Guests+u.Calendar) / float64(u.Guests) }

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var ru unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// usage is the CPU time of a kernel and of the processes in it: as wait(2) has it
// for one that has ended by itself, else as /proc has it.
func (m *machine) usage() time.Duration {
	select {
	case <-m.ended:
		if ps := m.cmd.ProcessState; ps != nil {
			return ps.UserTime() + ps.SystemTime()
		}
		return 0
	default:
		return processTime(m.cmd.Process.Pid)
	}
}

// processTime is the CPU time of a process and of those below it.
func processTime(pid int) time.Duration {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
	if err != nil {
		return 0
	}
	ns, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseInt(ns, 10, 64)
	sum := time.Duration(n) + reapedTime(dir)
	children, _ := os.ReadFile(filepath.Join(dir, "task", strconv.Itoa(pid), "children"))
	for child := range strings.FieldsSeq(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			sum += processTime(id)
		}
	}
	return sum
}

// reapedTime is the CPU time of the processes that one has waited for.
func reapedTime(dir string) time.Duration {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const cutime, cstime, ticksPerSecond = 13, 14, 100 // proc(5), counted from the state
	if len(words) <= cstime {
		return 0
	}
	u, _ := strconv.ParseInt(words[cutime], 10, 64)
	s, _ := strconv.ParseInt(words[cstime], 10, 64)
	return time.Duration(u+s) * time.Second / ticksPerSecond
}

// add counts one attempt at a scenario, before its guests are ended.
func (u *Usage) add(w *world, wall, calendar time.Duration) {
	u.Wall += wall
	u.Calendar += calendar
	for _, c := range w.cal.clients {
		if c.vm != nil {
			u.Guests += c.vm.usage()
		}
	}
}
