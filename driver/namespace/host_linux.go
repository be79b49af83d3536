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
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// host is what a driver needs of its machine; the fields are guarded by the
// driver's mu.
type host struct {
	spawner *jail.Spawner
	boot    string // of the running kernel
	tree    *cgroup.Tree
}

// root tells whether this process may give sandboxes users of their own.
func root() bool { return os.Geteuid() == 0 }

// Probe says what works on this machine.
func (d *Driver) Probe(ctx context.Context) (atoll.Features, error) {
	f, err := d.probe(ctx)
	if err != nil {
		return atoll.Features{}, &atoll.Error{Op: "probe", Err: err}
	}
	return f, nil
}

func (d *Driver) probe(ctx context.Context) (atoll.Features, error) {
	f := atoll.Features{
		Isolation: isolation, Programs: true, Persist: true, Files: true, Stop: true, Mounts: true, Dial: true, Listen: true, Users: root(),
		Snapshot: true, Fork: true, Stats: true, TTY: true, Signals: true, Watch: true, Detach: true, Terminal: true, Notices: true, Gate: true, Images: true,
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen}, Runtimes: d.runtimes(),
		Lacks: map[string]string{
			"MountLimitIsQuota": "a mount is the host's own directory, whose file system has no limit of its own for it",
		},
		Notes: []string{"programs share the host's kernel: a strong wall, but none against a fault of the kernel itself"},
	}
	if why := diskMissing(); why != "" {
		f.Lacks["FullDiskIsQuota"] = why
	}
	if d.Dir == "" {
		return f, fmt.Errorf("%w: the driver has no directory", atoll.ErrInvalid)
	}
	t, err := d.groups()
	if err != nil {
		return f, err
	}
	f.CPULimit, f.Pause = t.Has(cgroup.CPU), t.Has(cgroup.Nest)
	if !t.Has(cgroup.Memory) {
		f.Notes = append(f.Notes, "limits of memory hold for each process, not for all together: "+t.Missing()[cgroup.Memory])
	}
	if !t.Has(cgroup.PIDs) {
		f.Notes = append(f.Notes, fmt.Sprintf("limits of processes, %d if nothing else is asked for, hold for each user of a sandbox; before Linux 5.14, who makes a sandbox without root shares them with it: %s", DefaultPIDs, t.Missing()[cgroup.PIDs]))
	}
	if note := groupNote(); note != "" {
		f.Notes = append(f.Notes, note)
	}
	if !f.Pause {
		f.Notes = append(f.Notes, "snapshots of a running sandbox are taken while its programs go on: "+t.Missing()[cgroup.Nest])
	}
	_, err = d.spawn(ctx)
	return f, err
}

// spawn returns the spawner, started if there is none.
func (d *Driver) spawn(context.Context) (*jail.Spawner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.spawner != nil {
		return d.host.spawner, nil
	}
	guest, err := d.Helpers.Find("atoll-guest")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return nil, err
	}
	d.host.spawner, err = jail.NewSpawner(guest)
	return d.host.spawner, err
}

// Close ends what the driver runs beside itself; sandboxes live on.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.spawner == nil {
		return nil
	}
	err := d.host.spawner.Close()
	d.host.spawner = nil
	return err
}

// bootID tells this run of the kernel from others.
func (d *Driver) bootID() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.boot == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return "", err
		}
		d.host.boot = strings.TrimSpace(string(b))
	}
	return d.host.boot, nil
}

// The user numbers of the host that sandboxes get: each a range of its own, in a
// part that nothing else hands out.
const (
	firstID = 0x70000000
	perID   = 1 << 16
	ranges  = 4000
)

// takeIDs takes a free range of user numbers for a sandbox, and returns the
// first.
func (d *Driver) takeIDs(id string) (int, error) {
	dir := filepath.Join(d.Dir, "ids")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	start := int(random() % ranges)
	for i := range ranges {
		n := (start + i) % ranges
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(n)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		_, err = f.WriteString(id)
		return firstID + n*perID, errors.Join(err, f.Close())
	}
	return 0, fmt.Errorf("%w: %d sandboxes have all ranges of user numbers", atoll.ErrQuota, ranges)
}

// freeIDs gives a range back.
func (d *Driver) freeIDs(base int) error {
	if base == 0 {
		return nil
	}
	err := os.Remove(filepath.Join(d.Dir, "ids", fmt.Sprint((base-firstID)/perID)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func random() uint32 {
	var b [4]byte
	_, _ = unix.Getrandom(b[:], 0) // a worse choice is still a choice
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}
