package inside

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// slack is by how much the timers of Go's watching thread may be late.
const slack = 4 * time.Millisecond

// This process has a few megabytes in use: it collects what it has no use for when
// that is five times as much, not twice, until there is less room than that. At rest
// it gives all of it back.
const (
	garbage = 400         // percent
	mostOwn = own * 2 / 3 // bytes
)

// calm makes this process cost an emulated processor less. Go's runtime has a
// thread that sleeps for 20 µs again and again while anything runs, which was a
// quarter of what a short command took there: it may sleep longer.
//
// That thread is the first that the runtime starts. Were it another, some of its
// timers would be late, no more.
func calm() {
	debug.SetGCPercent(garbage)
	debug.SetMemoryLimit(mostOwn)
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
		_ = os.WriteFile("/proc/"+strconv.Itoa(slices.Min(tids))+"/timerslack_ns", []byte(strconv.FormatInt(slack.Nanoseconds(), 10)), 0) // it goes without
	}
}

// around is how much of a file is mapped when a program touches a page of it: most of
// the kernel's 64 KiB is unmapped untouched when a short program ends, which in an
// emulated processor costs more than a fault.
const around = 16 << 10 // bytes

// fewerPages sets that, where the kernel lets it be set.
func fewerPages() {
	const dir = "/sys/kernel/debug"
	if unix.Mount("debugfs", dir, "debugfs", noPrograms, "") != nil {
		return
	}
	_ = os.WriteFile(dir+"/fault_around_bytes", []byte(strconv.Itoa(around)), 0) // it goes without
	_ = unix.Unmount(dir, unix.MNT_DETACH)                                       // nobody uses it
}
