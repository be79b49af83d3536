package namespace

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// host is the state of a driver on this host. The driver's mu guards the fields.
type host struct {
	spawner *jail.Spawner
	boot    string // of the running kernel
	filter  []byte // see commandFilter
	cgroups cgroup.Prober

	building   sync.Mutex    // guards the fields below
	template   *template     // nil: not built yet
	templateOf *jail.Spawner // which has the template
}

// isRoot reports whether this process can give sandboxes users of their own.
func isRoot() bool { return os.Geteuid() == 0 }

// Probe reports what works on this host.
func (d *Driver) Probe(ctx context.Context) (atoll.Features, error) {
	f, err := d.probeFeatures(ctx)
	if err != nil {
		return atoll.Features{}, &atoll.Error{Op: "probe", Err: err}
	}
	return f, nil
}

func (d *Driver) probeFeatures(ctx context.Context) (atoll.Features, error) {
	f := atoll.Features{
		Isolation: isolation, Programs: true, Persist: true, Files: true, Stop: true, Mounts: true, Dial: true, Listen: true, Users: isRoot(),
		Snapshot: true, Fork: true, Stats: true, TTY: true, Signals: true, Watch: true, Detach: true, Terminal: true, Notices: true, Egress: true, Images: true, HostRoot: true,
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT, atoll.NetworkOpen}, Runtimes: d.extraRuntimes(),
		Lacks: map[string]string{
			"MountLimitIsQuota": "a mount is the host's own directory, whose file system has no limit of its own for it",
		},
		Notes: []string{"programs share the host's kernel: strong isolation, but not against a bug of the kernel itself"},
	}
	if why := whyNoDisks(); why != "" {
		f.Lacks["FullDiskIsQuota"] = why
	}
	if d.Dir == "" {
		return f, fmt.Errorf("%w: the driver has no directory", atoll.ErrInvalid)
	}
	t, err := d.cgroups()
	if err != nil {
		return f, err
	}
	f.CPULimit, f.Pause = t.Has(cgroup.CPU), t.Has(cgroup.Nesting)
	if !t.Has(cgroup.Memory) {
		f.Notes = append(f.Notes, fmt.Sprintf("limits.memory is refused; each process may have %d bytes of data, shared memory is not limited: %s", int64(DefaultMemory), t.Missing()[cgroup.Memory]))
		f.Lacks["MemoryBombIsContained"] = "limits.memory needs a control group: " + t.Missing()[cgroup.Memory]
	}
	if !t.Has(cgroup.PIDs) {
		f.Notes = append(f.Notes, fmt.Sprintf("limits of processes, %d if nothing else is asked for, hold for each user of a sandbox; before Linux 5.14, the user that creates a sandbox without root shares them with it: %s", DefaultPIDs, t.Missing()[cgroup.PIDs]))
	}
	if note := makerGroupsNote(); note != "" {
		f.Notes = append(f.Notes, note)
	}
	if !f.Pause {
		f.Notes = append(f.Notes, "snapshots of a running sandbox are taken while its programs go on: "+t.Missing()[cgroup.Nesting])
	}
	_, err = d.startSpawner(ctx)
	return f, err
}

// startSpawner returns the spawner, which it starts if there is none.
func (d *Driver) startSpawner(context.Context) (*jail.Spawner, error) {
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

// Close ends the processes that serve the driver; sandboxes continue.
func (d *Driver) Close() error {
	d.host.building.Lock()
	d.forgetTemplate()
	d.host.building.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.host.spawner == nil {
		return nil
	}
	err := d.host.spawner.Close()
	d.host.spawner = nil
	return err
}
