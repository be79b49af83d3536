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

// Stats returns what the group uses; 0 for what this host doesn't count.
func (g *Group) Stats() (Stats, error) {
	if len(g.dirs()) == 0 {
		return Stats{}, fmt.Errorf("group %s: %w", g.name, atoll.ErrNotFound)
	}
	var s Stats
	g.memory(&s)
	g.time(&s)
	if dir, _ := g.of("pids"); dir != "" {
		s.PIDs = int(number(dir, "pids.current"))
	} else if dirs := g.dirs(); len(dirs) > 0 {
		s.PIDs = strings.Count(read(dirs[0], "cgroup.procs"), "\n")
	}
	return s, nil
}

// number returns the number in a file, or 0.
func number(dir, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(read(dir, name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func count(dir, name, key string) int64 {
	v, err := field(dir, name, key)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (g *Group) memory(s *Stats) {
	dir, v2 := g.of("memory")
	if dir == "" {
		return
	}
	if v2 {
		s.Memory = max(0, number(dir, "memory.current")-count(dir, "memory.stat", "inactive_file"))
		s.Peak = number(dir, "memory.peak")
	} else {
		s.Memory = max(0, number(dir, "memory.usage_in_bytes")-count(dir, "memory.stat", "total_inactive_file"))
		s.Peak = number(dir, "memory.max_usage_in_bytes")
	}
	s.Killed = g.killed()
}

// killed is how many processes the kernel ended for want of memory.
func (g *Group) killed() int64 {
	dir, v2 := g.of("memory")
	if v2 {
		return count(dir, "memory.events", "oom_kill")
	}
	return count(dir, "memory.oom_control", "oom_kill")
}

// Kills opens the file that tells how many processes the kernel ended for want
// of memory, for a process that may open nothing itself: in it is a line
// "oom_kill N". nil: there is no memory control.
func (g *Group) Kills() (*os.File, error) {
	dir, v2 := g.of("memory")
	switch {
	case dir == "":
		return nil, nil //nolint:nilnil // nothing to open
	case v2:
		return os.Open(filepath.Join(dir, "memory.events"))
	}
	return os.Open(filepath.Join(dir, "memory.oom_control"))
}

func (g *Group) time(s *Stats) {
	if dir := g.unified(); dir != "" && exists(dir, "cpu.stat") { // counted without the controller
		s.CPU = time.Duration(count(dir, "cpu.stat", "usage_usec")) * time.Microsecond
		return
	}
	if base := g.tree.legacy["cpuacct"]; base != "" {
		s.CPU = time.Duration(number(filepath.Join(base, nest, g.name), "cpuacct.usage"))
	}
}

// WaitKilled returns when the kernel has ended more processes of the group for
// want of memory than after, with how many.
func (g *Group) WaitKilled(ctx context.Context, after int64) (int64, error) {
	dir, v2 := g.of("memory")
	if dir == "" {
		return 0, fmt.Errorf("group %s: %w: %s", g.name, atoll.ErrUnsupported, g.tree.missing[Memory])
	}
	var (
		f   *os.File
		err error
	)
	if v2 {
		var w watcher
		w, err = watch(filepath.Join(dir, "memory.events"))
		f = w.File
	} else {
		f, err = legacyEvents(dir)
	}
	if err != nil {
		return 0, fmt.Errorf("group %s: %w", g.name, err)
	}
	defer f.Close()
	buf := make([]byte, 4096)
	for {
		if n := g.killed(); n > after {
			return n, nil
		}
		if err := until(ctx, f, buf); err != nil {
			return 0, fmt.Errorf("group %s: %w", g.name, err)
		}
		if !exists(dir, "") {
			return 0, fmt.Errorf("group %s: %w", g.name, atoll.ErrNotFound)
		}
		if !v2 { // told before the process is counted
			return max(g.killed(), after+1), nil
		}
	}
}

// legacyEvents is an event counter that rises when memory runs out, and when
// the group goes.
func legacyEvents(dir string) (*os.File, error) {
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
