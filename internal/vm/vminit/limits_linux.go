package vminit

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// groupRoot is the mount point of the control groups.
const groupRoot = "/sys/fs/cgroup"

// commandsGroup is the group of all commands; each command gets a group in it.
const commandsGroup = groupRoot + "/commands"

// reservedMemory is the memory that is reserved for the guest agent and the kernel if commands may
// use the rest.
const reservedMemory = 48 << 20 // bytes

// makeGroup makes the group of commands, and returns a descriptor of its directory. The descriptor
// stays open as long as this process runs: it is not in an os.File, which would be closed when it
// is collected.
func (l *Limits) makeGroup() (int, error) {
	controllers := []string{"memory", "pids"}
	if l.Nested != nil {
		controllers = append(controllers, "cpu") // otherwise the accounting would only cost time at each task switch
	}
	for _, c := range controllers {
		err := os.WriteFile(groupRoot+"/cgroup.subtree_control", []byte("+"+c), 0)
		if err != nil && (c == "memory" && l.Memory != 0 || c == "pids" && l.PIDs > 0) {
			return 0, fmt.Errorf("%w: the kernel of the VM can't limit %s: %w", atoll.ErrUnsupported, c, err)
		}
	}
	if err := os.Mkdir(commandsGroup, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return 0, err
	}
	if err := l.applyLimits(Limits{}); err != nil {
		return 0, err
	}
	fd, err := unix.Open(commandsGroup, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: commandsGroup, Err: err}
	}
	return fd, nil
}

// applyLimits sets the limits of the group of commands that differ from before.
func (l *Limits) applyLimits(before Limits) error {
	if l.PIDs != before.PIDs {
		most := "max"
		if l.PIDs > 0 {
			most = strconv.Itoa(l.PIDs)
		}
		if err := os.WriteFile(commandsGroup+"/pids.max", []byte(most), 0); err != nil {
			return err
		}
	}
	if l.Memory == before.Memory {
		return nil
	}
	most := "max"
	if l.Memory != 0 {
		n, err := l.commandMemory()
		if err != nil {
			return err
		}
		most = strconv.FormatInt(n, 10)
	}
	return os.WriteFile(commandsGroup+"/memory.max", []byte(most), 0)
}

// commandMemory returns the memory limit of all commands in bytes.
func (l *Limits) commandMemory() (int64, error) {
	if l.Memory > 0 {
		return l.Memory, nil
	}
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	total, err := totalMemory(string(b))
	return max(total-reservedMemory, total/2), err
}

// totalMemory returns the total memory in bytes, from the text of /proc/meminfo.
func totalMemory(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo: no total")
}
