package main

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// processorTime is what a process has used of the processors, in user and in system
// mode, with its ended threads. It comes from the process's own clock
// (clock_getcpuclockid), because /proc tells hundredths of a second and a slice is
// half a second.
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED
	var t syscall.Timespec
	clock := int32(^pid<<3 | scheduled)
	if _, _, code := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); code != 0 {
		return 0, fmt.Errorf("reading the clock of process %d: %w", pid, code)
	}
	return time.Duration(t.Nano()), nil
}

// apart makes a process die with this one, and not of a signal from the terminal
// before this one has put an end to it.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pause sleeps to within some 50 µs. time.Sleep is a millisecond late where
// nothing else keeps Go's scheduler awake.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // woken early is early by less than a request
}
