package inside

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// slack is by how much the timers of Go's watching thread may be late.
const slack = 2 * time.Millisecond

// calm makes this process cost an emulated processor less. Go's runtime has a
// thread that sleeps for 20 µs again and again while anything runs, which is half
// of what a short command takes there: it may sleep longer. And what waits in the
// kernel, as for the end of a child, must not keep all others waiting until that
// thread has seen it, so there is more than one to run them.
//
// That thread is the first that the runtime starts. Were it another, some of its
// timers would be late, no more.
func calm() {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2))
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
