package microvm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// DefaultPIDs is the limit of processes of a VM whose Spec has 0.
const DefaultPIDs = 512

const (
	minPIDs     = 16        // the least with which a program can run
	minDisk     = 1 << 20   // bytes; likewise
	bootMemory  = 256 << 20 // bytes; the least with which a VM boots
	guestMemory = 96 << 20  // bytes of a VM that its kernel and guest reserve
	hostMemory  = 512 << 20 // bytes of a hypervisor besides the memory of its VM
	mebibyte    = 1 << 20
	maxCPUs     = 255
)

// vmSize is the size of a VM.
type vmSize struct {
	memory   int64 // of the VM, bytes, whole MiB
	commands int64 // bytes of it that commands may use together
	cpus     int
	quota    float64 // of the host's processors; 0: as many as cpus
	pids     int     // 0: no limit
}

// sizeFor returns the size of a VM with some limits.
func (d *Driver) sizeFor(l atoll.Resources) vmSize {
	s := vmSize{memory: l.Memory, pids: l.PIDs}
	if s.memory == 0 {
		s.memory = orDefault(d.Memory, atoll.DefaultVMMemory)
	}
	asked := s.memory
	s.memory = (max(s.memory, bootMemory) + mebibyte - 1) / mebibyte * mebibyte
	s.commands = min(asked, s.memory-guestMemory)
	s.cpus = int(math.Ceil(l.CPU))
	if l.CPU == 0 {
		s.cpus = orDefault(d.CPUs, min(atoll.DefaultVMCPU, runtime.NumCPU()))
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

func orDefault[T int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// checkLimits reports limits that are wrong, or that this driver can't enforce here.
func (d *Driver) checkLimits(l atoll.Resources) []error {
	var errs []error
	bad := func(field, format string, a ...any) {
		errs = append(errs, &atoll.FieldError{Field: "limits." + field, Err: fmt.Errorf("%w: limits."+field+" "+format, append([]any{atoll.ErrInvalid}, a...)...)})
	}
	no := func(field, why string) {
		errs = append(errs, &atoll.FieldError{Field: "limits." + field, Err: fmt.Errorf("limits.%s: %w by the microvm driver here: %s", field, atoll.ErrUnsupported, why)})
	}
	least := orDefault(d.MinMemory, atoll.MinVMMemory)
	switch {
	case l.Memory < 0:
		bad("memory", "%d: a VM needs memory: give a size", l.Memory)
	case l.Memory > 0 && l.Memory < least:
		bad("memory", "%d: a VM needs at least %d MiB", l.Memory, least>>20)
	}
	if total := cgroup.HostMemory(); l.Memory > 0 && total > 0 && l.Memory+hostMemory > total {
		bad("memory", "%d MiB: this host has %d MiB, of which a VM can have %d", l.Memory>>20, total>>20, max(0, total-hostMemory)>>20)
	}
	switch {
	case l.CPU < 0:
		bad("cpu", "%v: a VM needs processors: give a number", l.CPU)
	case l.CPU > maxCPUs:
		bad("cpu", "%v: a VM has at most %d processors", l.CPU, maxCPUs)
	}
	if n := l.PIDs; n > 0 && n < minPIDs {
		bad("pids", "%d: at least %d", n, minPIDs)
	}
	if n := l.Disk; n > 0 && n < minDisk {
		bad("disk", "%d: at least %d bytes", n, minDisk)
	}
	if l.Files > 0 {
		no("files", "the size of a VM's file systems determines their number of files")
	}
	if l.FileSize > 0 {
		no("file_size", "nothing in a VM limits single files")
	}
	if s := d.sizeFor(l); s.quota > 0 {
		if t, err := d.cgroups(); err != nil {
			errs = append(errs, err)
		} else if !t.Has(cgroup.CPU) {
			no("cpu", fmt.Sprintf("parts of processors need the host's control groups (whole ones don't): %s", t.Missing()[cgroup.CPU]))
		}
	}
	return errs
}

// cgroups returns the tree in which hypervisors get their control groups.
func (d *Driver) cgroups() (*cgroup.Tree, error) { return d.host.cgroups.Tree() }

// makeGroup creates the control group of a sandbox's hypervisor; nil if this host has none. The
// limits of the VM itself do not depend on it.
func (d *Driver) makeGroup(ctx context.Context, r *record, s vmSize) (hypervisor.Group, error) {
	t, err := d.cgroups()
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

// removeGroup removes the control group of a hypervisor that has exited.
func (d *Driver) removeGroup(ctx context.Context, r *record) error {
	t, err := d.cgroups()
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
