package vminit

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is the tolerance of the timers of Go's monitor thread.
const timerSlack = 4 * time.Millisecond

// This process uses a few megabytes: the garbage collector runs when the heap is five times as
// large, not twice, unless memory gets short. When idle, all of the garbage is returned.
const (
	gcPercent   = 400                    // percent
	memoryLimit = reservedMemory * 2 / 3 // bytes
)

// reduceRuntimeCost makes this process use less of an emulated processor. While anything runs, the
// Go runtime has a thread that sleeps for 20 µs again and again, which took a quarter of the time
// of a short command there: this makes it sleep longer.
//
// It is the first thread that the runtime starts. If it were another one, some timers would only be
// late.
func reduceRuntimeCost() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	var tids []int
	for _, e := range list {
		if tid, err := strconv.Atoi(e.Name()); err == nil && tid != os.Getpid() {
			tids = append(tids, tid)
		}
	}
	if len(tids) > 0 {
		_ = os.WriteFile("/proc/"+strconv.Itoa(slices.Min(tids))+"/timerslack_ns", []byte(strconv.FormatInt(timerSlack.Nanoseconds(), 10)), 0) // it works without, too
	}
}

// faultAround is the number of bytes of a file that are mapped when a program touches one of its
// pages. Of the kernel's default of 64 KiB, most is unmapped unused when a short program exits,
// which costs more on an emulated processor than a page fault.
const faultAround = 16 << 10 // bytes

// reduceFaultAround sets faultAround, if the kernel supports that.
func reduceFaultAround() {
	const dir = "/sys/kernel/debug"
	if unix.Mount("debugfs", dir, "debugfs", noPrograms, "") != nil {
		return
	}
	_ = os.WriteFile(dir+"/fault_around_bytes", []byte(strconv.Itoa(faultAround)), 0) // it works without, too
	_ = unix.Unmount(dir, unix.MNT_DETACH)                                            // it is not used any more
}
