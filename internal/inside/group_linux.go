package inside

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// groupRoot is where control groups are.
const groupRoot = "/sys/fs/cgroup"

// commands is the group of all commands: each gets one of its own in it.
const commands = groupRoot + "/commands"

// own is how much memory the guest and the kernel keep for themselves, where
// commands may have the rest.
const own = 48 << 20 // bytes

// group makes the group of commands, and returns a descriptor of its directory,
// which lasts as long as this process: no file that is collected closes it.
func (l *Limits) group() (int, error) {
	controllers := []string{"memory", "pids"}
	if l.Nested != nil {
		controllers = append(controllers, "cpu") // elsewhere each switch of tasks would be counted for nobody
	}
	for _, c := range controllers {
		err := os.WriteFile(groupRoot+"/cgroup.subtree_control", []byte("+"+c), 0)
		if err != nil && (c == "memory" && l.Memory != 0 || c == "pids" && l.PIDs > 0) {
			return 0, fmt.Errorf("%w: the kernel of the machine can't limit %s: %w", atoll.ErrUnsupported, c, err)
		}
	}
	if err := os.Mkdir(commands, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return 0, err
	}
	if err := l.set(Limits{}); err != nil {
		return 0, err
	}
	fd, err := unix.Open(commands, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: commands, Err: err}
	}
	return fd, nil
}

// set limits the group of commands, which has the limits of before.
func (l *Limits) set(before Limits) error {
	if l.PIDs != before.PIDs {
		most := "max"
		if l.PIDs > 0 {
			most = strconv.Itoa(l.PIDs)
		}
		if err := os.WriteFile(commands+"/pids.max", []byte(most), 0); err != nil {
			return err
		}
	}
	if l.Memory == before.Memory {
		return nil
	}
	most := "max"
	if l.Memory != 0 {
		n, err := l.memory()
		if err != nil {
			return err
		}
		most = strconv.FormatInt(n, 10)
	}
	return os.WriteFile(commands+"/memory.max", []byte(most), 0)
}

// memory is how much commands may have.
func (l *Limits) memory() (int64, error) {
	if l.Memory > 0 {
		return l.Memory, nil
	}
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	total, err := totalMemory(string(b))
	return max(total-own, total/2), err
}

// totalMemory reads /proc/meminfo.
func totalMemory(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo: no total")
}
