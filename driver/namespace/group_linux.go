package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cgroup"
)

// The limits of a sandbox whose Spec has 0, where this host can hold them.
const (
	DefaultCPU    = 2       // cores
	DefaultMemory = 1 << 30 // bytes
	DefaultPIDs   = 512     // processes
)

// What the guest needs of a sandbox's limits is added to them.
const (
	guestPIDs   = 32
	guestMemory = 16 << 20
)

// With less than this no program is of use.
const (
	leastPIDs   = 16
	leastMemory = 4 << 20
)

// groups returns where sandboxes get their control groups.
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

// limitsOf returns what a group of a sandbox is held to.
func limitsOf(t *cgroup.Tree, l atoll.Resources) cgroup.Limits {
	pick := func(v, def float64, c cgroup.Control) float64 {
		if v == 0 && t.Has(c) {
			return def
		}
		return max(v, 0)
	}
	g := cgroup.Limits{
		CPU: pick(l.CPU, DefaultCPU, cgroup.CPU), Memory: int64(pick(float64(l.Memory), DefaultMemory, cgroup.Memory)),
		PIDs: int(pick(float64(l.PIDs), DefaultPIDs, cgroup.PIDs)),
	}
	if g.Memory > 0 {
		g.Memory += guestMemory
	}
	if g.PIDs > 0 {
		g.PIDs += guestPIDs
	}
	return g
}

// wanting reports whether a host without a control group can't hold what a spec
// asks for.
func wanting(t *cgroup.Tree, c cgroup.Control, limit int64) bool { return limit > 0 && !t.Has(c) }

// makeGroup makes a sandbox's group; nil where this host has none.
func (d *Driver) makeGroup(ctx context.Context, r *record) (*cgroup.Group, error) {
	t, err := d.groups()
	if err != nil {
		return nil, err
	}
	l := limitsOf(t, r.Spec.Limits)
	// What no group holds is held by limits of processes: see privileges.
	if !t.Has(cgroup.PIDs) {
		l.PIDs = 0
	}
	if !t.Has(cgroup.Memory) {
		l.Memory = 0
	}
	if l == (cgroup.Limits{}) && !t.Has(cgroup.Nest) {
		return nil, nil
	}
	return t.Create(ctx, r.ID, l)
}

// group finds a sandbox's group; nil if it has none.
func (d *Driver) group(r *record) (*cgroup.Group, error) {
	t, err := d.groups()
	if err != nil {
		return nil, err
	}
	g, err := t.Open(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, nil
	}
	return g, err
}

// commands is the directory, in a sandbox's group of version 2, of its commands'
// groups: what is frozen while a sandbox is paused, and the guest is not.
const commands = "commands"

// nest makes the directory for the groups of commands; nil where there is none.
func (d *Driver) nest(r *record, g *cgroup.Group) (*os.File, error) {
	if g == nil {
		return nil, nil
	}
	owner := r.Base
	if owner == 0 {
		owner = -1
	}
	parent, err := g.Dir(owner)
	if errors.Is(err, atoll.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	dir := filepath.Join(parent.Name(), commands)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if owner >= 0 {
		for _, name := range []string{"", "cgroup.procs", "cgroup.threads"} {
			if err := os.Chown(filepath.Join(dir, name), owner, -1); err != nil {
				return nil, err
			}
		}
	}
	return os.Open(dir)
}

// frozen is the freezer of a sandbox's commands.
type frozen struct{ dir string }

// freezer returns that of a sandbox's commands; ErrUnsupported where there is
// none.
func (d *Driver) freezer(r *record) (frozen, error) {
	if r.Spec.Runtime == runtimeRunsc {
		return frozen{}, fmt.Errorf("%w: gVisor's programs are no processes of the host that could be frozen", atoll.ErrUnsupported)
	}
	g, err := d.group(r)
	if err != nil {
		return frozen{}, err
	}
	if g != nil {
		for _, procs := range g.Procs() {
			dir := filepath.Join(filepath.Dir(procs), commands)
			if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err == nil {
				return frozen{dir}, nil
			}
		}
	}
	return frozen{}, fmt.Errorf("%w: this host has no control groups of version 2 in which commands could be frozen", atoll.ErrUnsupported)
}

// freeze stops the commands where they are, and returns when all have stopped.
func (f frozen) freeze(ctx context.Context) error {
	events, err := os.Open(filepath.Join(f.dir, "cgroup.events"))
	if err != nil {
		return err
	}
	defer events.Close()
	if err := os.WriteFile(filepath.Join(f.dir, "cgroup.freeze"), []byte("1"), 0); err != nil {
		return err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	defer unix.Close(wake)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // wakes the poll
	})
	defer func() {
		if !stop() {
			<-done
		}
	}()
	b := make([]byte, 256)
	for {
		n, err := events.ReadAt(b, 0)
		if n == 0 && err != nil {
			return err
		}
		if strings.Contains(string(b[:n]), "frozen 1") {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return errors.Join(cause, f.thaw())
		}
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// thaw lets the commands go on.
func (f frozen) thaw() error {
	return os.WriteFile(filepath.Join(f.dir, "cgroup.freeze"), []byte("0"), 0)
}
