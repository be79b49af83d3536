package microvm

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// DefaultPIDs is how many processes there may be in a machine that asks for
// nothing else.
const DefaultPIDs = 512

const (
	leastPIDs   = 16        // with less no program is of use
	leastDisk   = 1 << 20   // bytes; likewise
	bootMemory  = 256 << 20 // bytes; with less no machine boots, whatever commands may use of it
	guestMemory = 96 << 20  // bytes of a machine that its kernel and the guest keep from commands
	hostMemory  = 512 << 20 // bytes that a hypervisor may have besides its machine's memory
	mebibyte    = 1 << 20
	mostCPUs    = 255
)

// size is what a machine is made of.
type size struct {
	memory   int64 // of the machine, bytes, whole MiB
	commands int64 // of it, what commands may use together; less than that
	cpus     int
	quota    float64 // of the host's processors; 0: as many as cpus
	pids     int     // 0: no limit
}

// sizeOf returns the size of the machine for some limits.
func (d *Driver) sizeOf(l atoll.Resources) size {
	s := size{memory: l.Memory, pids: l.PIDs}
	if s.memory == 0 {
		s.memory = or(d.Memory, atoll.DefaultMachineMemory)
	}
	asked := s.memory
	s.memory = (max(s.memory, bootMemory) + mebibyte - 1) / mebibyte * mebibyte
	s.commands = min(asked, s.memory-guestMemory)
	s.cpus = int(math.Ceil(l.CPU))
	if l.CPU == 0 {
		s.cpus = or(d.CPUs, atoll.DefaultMachineCPU)
	}
	if l.CPU > 0 && float64(s.cpus) != l.CPU {
		s.quota = l.CPU
	}
	switch {
	case s.pids == 0:
		s.pids = DefaultPIDs
	case s.pids < 0:
		s.pids = 0
	}
	return s
}

func or[T int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// checkLimits reports limits that are wrong, or that no machine here can hold.
func (d *Driver) checkLimits(l atoll.Resources) []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, &atoll.FieldError{Field: "limits." + field, Err: fmt.Errorf("%w: limits."+field+" "+format, append([]any{atoll.ErrInvalid}, a...)...)})
	}
	no := func(field, why string) {
		errs = append(errs, &atoll.FieldError{Field: "limits." + field, Err: fmt.Errorf("limits.%s: %w by the microvm driver here: %s", field, atoll.ErrUnsupported, why)})
	}
	least := or(d.LeastMemory, atoll.MinMachineMemory)
	switch {
	case l.Memory < 0:
		bad("memory", "%d: a machine has some memory: say how much", l.Memory)
	case l.Memory > 0 && l.Memory < least:
		bad("memory", "%d: a machine needs at least %d MiB", l.Memory, least>>20)
	}
	switch {
	case l.CPU < 0:
		bad("cpu", "%v: a machine has some processors: say how many", l.CPU)
	case l.CPU > mostCPUs:
		bad("cpu", "%v: a machine has at most %d processors", l.CPU, mostCPUs)
	}
	if n := l.PIDs; n > 0 && n < leastPIDs {
		bad("pids", "%d: at least %d", n, leastPIDs)
	}
	if n := l.Disk; n > 0 && n < leastDisk {
		bad("disk", "%d: at least %d bytes", n, leastDisk)
	}
	if l.Files > 0 {
		no("files", "a machine's file systems have as many files as their size gives")
	}
	if l.FileSize > 0 {
		no("file_size", "nothing in a machine bounds single files")
	}
	if s := d.sizeOf(l); s.quota > 0 {
		if t, err := d.groups(); err != nil {
			errs = append(errs, err)
		} else if !t.Has(cgroup.CPU) {
			no("cpu", fmt.Sprintf("parts of processors need the host's control groups (whole ones don't): %s", t.Missing()[cgroup.CPU]))
		}
	}
	return errs
}

// groups returns where hypervisors get their control groups.
func (d *Driver) groups() (*cgroup.Tree, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.tree == nil {
		t, err := cgroup.Probe()
		if err != nil {
			return nil, err
		}
		d.host.tree = t
	}
	return d.host.tree, nil
}

// makeGroup makes the group of a sandbox's hypervisor; nil where this host has
// none. That the machine has no more than it asked for does not depend on it.
func (d *Driver) makeGroup(ctx context.Context, r *record, s size) (machine.Group, error) {
	t, err := d.groups()
	if err != nil {
		return nil, err
	}
	var l cgroup.Limits
	if t.Has(cgroup.Memory) {
		l.Memory = s.memory + hostMemory
	}
	if s.quota > 0 {
		l.CPU = s.quota
	}
	if l == (cgroup.Limits{}) {
		return nil, nil //nolint:nilnil // none is needed
	}
	g, err := t.Create(ctx, r.ID, l)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// removeGroup removes the group of a hypervisor that has ended.
func (d *Driver) removeGroup(ctx context.Context, r *record) error {
	t, err := d.groups()
	if err != nil {
		return err
	}
	g, err := t.Open(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return g.Remove(ctx)
}
