package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Stats returns the resource usage of the group; 0 for values that this host does not count.
func (g *Group) Stats() (Stats, error) {
	if len(g.existingDirs()) == 0 {
		return Stats{}, fmt.Errorf("group %s: %w", g.name, atoll.ErrNotFound)
	}
	var s Stats
	g.readMemory(&s)
	g.readCPUTime(&s)
	if dir, _ := g.controllerDir("pids"); dir != "" {
		s.PIDs = int(readNumber(dir, "pids.current"))
	} else if dirs := g.existingDirs(); len(dirs) > 0 {
		s.PIDs = strings.Count(read(dirs[0], "cgroup.procs"), "\n")
	}
	return s, nil
}

// readNumber returns the number in a file; 0 on an error.
func readNumber(dir, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(read(dir, name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readCount returns the number of a key in a file of lines "key value"; 0 on an error.
func readCount(dir, name, key string) int64 {
	v, err := readKey(dir, name, key)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (g *Group) readMemory(s *Stats) {
	dir, v2 := g.controllerDir("memory")
	if dir == "" {
		return
	}
	if v2 {
		s.Memory = max(0, readNumber(dir, "memory.current")-readCount(dir, "memory.stat", "inactive_file"))
		s.Peak = readNumber(dir, "memory.peak")
	} else {
		s.Memory = max(0, readNumber(dir, "memory.usage_in_bytes")-readCount(dir, "memory.stat", "total_inactive_file"))
		s.Peak = readNumber(dir, "memory.max_usage_in_bytes")
	}
	s.OOMKills = g.countOOMKills()
}

// countOOMKills returns the number of processes that the kernel killed because memory ran out.
func (g *Group) countOOMKills() int64 {
	dir, v2 := g.controllerDir("memory")
	if v2 {
		return readCount(dir, "memory.events", "oom_kill")
	}
	return readCount(dir, "memory.oom_control", "oom_kill")
}

// OpenOOMEvents opens the file that counts the processes that the kernel killed because memory ran out, in
// a line "oom_kill N". It is for a process that can't open files itself. It returns nil without a
// memory control.
func (g *Group) OpenOOMEvents() (*os.File, error) {
	dir, v2 := g.controllerDir("memory")
	switch {
	case dir == "":
		return nil, nil //nolint:nilnil // there is no such file
	case v2:
		return os.Open(filepath.Join(dir, "memory.events"))
	}
	return os.Open(filepath.Join(dir, "memory.oom_control"))
}

func (g *Group) readCPUTime(s *Stats) {
	if dir := g.unifiedDir(); dir != "" && fileExists(dir, "cpu.stat") { // version 2 counts it without the controller
		s.CPU = time.Duration(readCount(dir, "cpu.stat", "usage_usec")) * time.Microsecond
		return
	}
	if base := g.tree.legacy["cpuacct"]; base != "" {
		s.CPU = time.Duration(readNumber(filepath.Join(base, nest, g.name), "cpuacct.usage"))
	}
}

// WaitForOOMKill waits until the kernel has killed more processes of the group than after because
// memory ran out, and returns their number.
func (g *Group) WaitForOOMKill(ctx context.Context, after int64) (int64, error) {
	dir, v2 := g.controllerDir("memory")
	if dir == "" {
		return 0, fmt.Errorf("group %s: %w: %s", g.name, atoll.ErrUnsupported, g.tree.missing[Memory])
	}
	var (
		f   *os.File
		err error
	)
	if v2 {
		var w watcher
		w, err = watchFile(filepath.Join(dir, "memory.events"))
		f = w.File
	} else {
		f, err = openLegacyEvents(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("group %s: %w", g.name, err)
	}
	defer f.Close()
	buf := make([]byte, 4096)
	for {
		if n := g.countOOMKills(); n > after {
			return n, nil
		}
		if err := readWithContext(ctx, f, buf); err != nil {
			return 0, fmt.Errorf("group %s: %w", g.name, err)
		}
		if !fileExists(dir, "") {
			return 0, fmt.Errorf("group %s: %w", g.name, atoll.ErrNotFound)
		}
		if !v2 { // the event precedes the kernel's count
			return max(g.countOOMKills(), after+1), nil
		}
	}
}

// openLegacyEvents returns an eventfd that is signaled when memory runs out, and when the group is
// removed.
func openLegacyEvents(dir string) (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "oom")
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer control.Close()
	if err := write(dir, "cgroup.event_control", fmt.Sprintf("%d %d", fd, control.Fd())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
