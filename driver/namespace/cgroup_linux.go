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
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
)

// The limits of a sandbox whose Spec has 0, if this host can enforce them.
const (
	DefaultCPU    = 2       // cores
	DefaultMemory = 1 << 30 // bytes
	DefaultPIDs   = 512     // processes
)

// The guest needs this much, which is added to the limits of a sandbox.
const (
	guestPIDs   = 32
	guestMemory = 16 << 20
)

// The least limits with which a program can run.
const (
	minPIDs   = 16
	minMemory = 4 << 20
)

// cgroups returns the tree in which sandboxes get their control groups.
func (d *Driver) cgroups() (*cgroup.Tree, error) { return d.host.cgroups.Tree() }

// limitsOf returns the limits of a sandbox's control group.
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

// lacksControl reports whether a spec asks for a limit whose control this host does not have.
func lacksControl(t *cgroup.Tree, c cgroup.Control, limit int64) bool { return limit > 0 && !t.Has(c) }

// makeGroup creates the control group of a sandbox; nil if this host has none.
func (d *Driver) makeGroup(ctx context.Context, r *record) (*cgroup.Group, error) {
	t, err := d.cgroups()
	if err != nil {
		return nil, err
	}
	l := limitsOf(t, r.Spec.Limits)
	// Limits that no group enforces are limits of processes: see addProcessLimits.
	if !t.Has(cgroup.PIDs) {
		l.PIDs = 0
	}
	if !t.Has(cgroup.Memory) {
		l.Memory = 0
	}
	if l == (cgroup.Limits{}) && !t.Has(cgroup.Nesting) {
		return nil, nil
	}
	return t.Create(ctx, r.ID, l)
}

// openGroup returns the control group of a sandbox; nil if it has none.
func (d *Driver) openGroup(r *record) (*cgroup.Group, error) {
	t, err := d.cgroups()
	if err != nil {
		return nil, err
	}
	g, err := t.Open(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		return nil, nil
	}
	return g, err
}

// commands is the name of the directory of the commands' control groups, in a sandbox's group of
// version 2. It is frozen while the sandbox is paused; the guest is not.
const commands = "commands"

// makeCommandsDir creates the directory for the groups of commands; nil if there can be none.
func (d *Driver) makeCommandsDir(r *record, g *cgroup.Group) (*os.File, error) {
	if g == nil {
		return nil, nil
	}
	owner := r.Base
	if owner == 0 {
		owner = -1
	}
	parent, err := g.OpenDir(owner)
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

// freezer freezes the commands of a sandbox.
type freezer struct{ dir string }

// openFreezer returns the freezer of a sandbox's commands; ErrUnsupported if it has none.
func (d *Driver) openFreezer(r *record) (freezer, error) {
	if r.Spec.Runtime == runtimeRunsc {
		return freezer{}, fmt.Errorf("%w: gVisor's programs are no processes of the host that could be frozen", atoll.ErrUnsupported)
	}
	g, err := d.openGroup(r)
	if err != nil {
		return freezer{}, err
	}
	if g != nil {
		for _, procs := range g.ProcsFiles() {
			dir := filepath.Join(filepath.Dir(procs), commands)
			if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err == nil {
				return freezer{dir}, nil
			}
		}
	}
	return freezer{}, fmt.Errorf("%w: this host has no control groups of version 2 in which commands could be frozen", atoll.ErrUnsupported)
}

// freezeCommands freezes the commands and returns when all have stopped.
func (f freezer) freezeCommands(ctx context.Context) error {
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
			return errors.Join(cause, f.thawCommands())
		}
		fds := []unix.PollFd{{Fd: int32(events.Fd()), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
	}
}

// thawCommands lets the commands continue.
func (f freezer) thawCommands() error {
	return os.WriteFile(filepath.Join(f.dir, "cgroup.freeze"), []byte("0"), 0)
}
