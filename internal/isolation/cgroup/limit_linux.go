package cgroup

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// period is the accounting period of processor time, in microseconds.
const period = 100_000

// SetLimits replaces the limits.
func (g *Group) SetLimits(l Limits) error {
	for _, set := range []func(Limits) error{g.limitMemory, g.limitCPU, g.limitPIDs} {
		if err := set(l); err != nil {
			return fmt.Errorf("group %s: limit: %w", g.name, err)
		}
	}
	return nil
}

func (g *Group) limitMemory(l Limits) error {
	dir, v2 := g.controllerDir("memory")
	if dir == "" {
		return g.rejectLimit(Memory, l.Memory > 0)
	}
	if v2 {
		value := "max"
		if l.Memory > 0 {
			value = strconv.FormatInt(l.Memory, 10)
			if fileExists(dir, "memory.swap.max") {
				if err := write(dir, "memory.swap.max", "0"); err != nil {
					return err
				}
			}
		}
		return write(dir, "memory.max", value)
	}
	value := "-1"
	if l.Memory > 0 {
		value = strconv.FormatInt(l.Memory, 10)
	}
	const limit, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if !fileExists(dir, both) {
		return write(dir, limit, value)
	}
	// The limit with swap must never be less than the one without: decrease in this order, increase
	// in the other.
	if err := write(dir, limit, value); err == nil {
		return write(dir, both, value)
	}
	if err := write(dir, both, value); err != nil {
		return err
	}
	return write(dir, limit, value)
}

// rejectLimit returns ErrUnsupported if a limit that can't be enforced is wanted.
func (g *Group) rejectLimit(c Control, wanted bool) error {
	if !wanted {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", atoll.ErrUnsupported, c, g.tree.missing[c])
}

func (g *Group) limitCPU(l Limits) error {
	dir, v2 := g.controllerDir("cpu")
	if dir == "" {
		return g.rejectLimit(CPU, l.CPU > 0)
	}
	quota := max(int64(l.CPU*period), 1000) // the kernel's minimum
	if v2 {
		if l.CPU <= 0 {
			return write(dir, "cpu.max", fmt.Sprintf("max %d", period))
		}
		return write(dir, "cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if l.CPU <= 0 {
		quota = -1
	} else if err := write(dir, "cpu.cfs_period_us", strconv.Itoa(period)); err != nil {
		return err
	}
	return write(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
}

func (g *Group) limitPIDs(l Limits) error {
	dir, _ := g.controllerDir("pids")
	if dir == "" {
		return g.rejectLimit(PIDs, l.PIDs > 0)
	}
	value := "max"
	if l.PIDs > 0 {
		value = strconv.Itoa(l.PIDs)
	}
	return write(dir, "pids.max", value)
}

// HostMemory returns the memory of the host in bytes; 0: it is unknown. No limit above it can be
// reached.
func HostMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
