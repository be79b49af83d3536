package namespace

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
	"golang.org/x/sys/unix"
)

// addLimit adds a resource limit of each process. A lower limit of this process remains, since the
// kernel does not let it be raised.
func (p *plan) addLimit(resource int, v int64) {
	have := unix.Rlimit{Max: unix.RLIM_INFINITY}
	_ = unix.Getrlimit(resource, &have) // the kernel knows all of these
	most := min(uint64(v), have.Max)
	p.setup.Limits = append(p.setup.Limits, jail.Limit{Resource: resource, Soft: most, Hard: most})
}

// addProcessLimits limits each process where no control group limits the sandbox. This does not
// replace limits.memory, which checkSpec refuses there: memfds and shared memory are not counted.
func (p *plan) addProcessLimits(t *cgroup.Tree, l atoll.Resources) error {
	if l.PIDs >= 0 && !t.Has(cgroup.PIDs) {
		others, err := p.foreignTasks()
		if err != nil {
			return err
		}
		p.addLimit(unix.RLIMIT_NPROC, int64(orDefault(l.PIDs, DefaultPIDs)+guestPIDs+others))
	}
	if l.Memory >= 0 && !t.Has(cgroup.Memory) {
		p.addLimit(unix.RLIMIT_DATA, orDefault(l.Memory, DefaultMemory)+guestMemory)
	}
	return nil
}

func orDefault[T int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// foreignTasks returns how many tasks of the host the kernel counts as the sandbox's own: those of
// its creator, before Linux 5.14 counted each user namespace separately.
func (p *plan) foreignTasks() (int, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return 0, os.NewSyscallError("uname", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("version of the kernel: %w", err)
	}
	if p.root || major > 5 || major == 5 && minor >= 14 {
		return 0, nil
	}
	return countTasks(os.Getuid())
}

// countTasks returns the number of threads of a user.
func countTasks(uid int) (n int, err error) {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it has exited
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(st.Uid) != uid {
			continue
		}
		threads, err := os.ReadDir("/proc/" + e.Name() + "/task")
		if err == nil { // else it has exited
			n += len(threads)
		}
	}
	return n, nil
}
