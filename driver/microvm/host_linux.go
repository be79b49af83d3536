package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/boot"
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// host is what a driver knows of its machine; the fields are guarded by the
// driver's mu.
type host struct {
	tree  *cgroup.Tree
	accel *acceleration
}

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
		Programs: true, Persist: true, Files: true, Stop: true, Pause: true, Snapshot: true, Fork: true, Dial: true, Listen: true, Stats: true, Images: true,
		Users: true, TTY: true, Signals: true, Watch: true, Detach: true, Terminal: true, Notices: true, Gate: true, Fresh: true, Disks: true,
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT},
		Lacks: map[string]string{
			"MountLimitIsQuota":      "a mount is the host's own directory, whose file system has no limit of its own for it",
			"WatchTellsMountChanges": "neither virtiofs nor 9p tells a machine what others change in a directory of the host; what the machine itself changes is told",
		},
		Notes: []string{"limits of disk hold for each disk of a machine: that of its root, and that of its working directory"},
	}
	if d.Dir == "" {
		return f, fmt.Errorf("%w: the driver has no directory", atoll.ErrInvalid)
	}
	if err := d.missing(); err != nil {
		return f, err
	}
	t, err := d.groups()
	if err != nil {
		return f, err
	}
	a := d.acceleration(ctx)
	f.Isolation = wall(a.accel)
	if a.slow != "" {
		f.Notes = append(f.Notes, a.slow)
	}
	if !a.nested {
		f.Notes = append(f.Notes, "no machines in machines: "+a.why)
	}
	f.CPULimit = t.Has(cgroup.CPU)
	if d.bridgeMissing() == nil {
		f.Networks = append(f.Networks, atoll.NetworkBridge)
	}
	if err := d.sharesMissing(ctx, ""); err != nil {
		f.Notes = append(f.Notes, err.Error())
	} else {
		f.Mounts = true
		f.Lacks["WatchTellsMountChanges"] = "a machine is not told of changes that others make in a directory of the host"
	}
	return f, nil
}

// missing says what machines need and this host has not, and how to get it.
func (d *Driver) missing() error {
	_, qerr := d.qemu()
	_, kerr := d.kernel()
	_, gerr := d.Helpers.Find("atoll-guest")
	err := errors.Join(qerr, kerr, gerr)
	if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	return err
}

// qemu returns the path of the hypervisor.
func (d *Driver) qemu() (string, error) {
	if d.QEMU == "" {
		return machine.FindQEMU()
	}
	if _, err := os.Stat(d.QEMU); err != nil {
		return "", fmt.Errorf("%w: QEMU: %w", atoll.ErrUnavailable, err)
	}
	return d.QEMU, nil
}

// kernel finds what machines boot.
func (d *Driver) kernel() (boot.Kernel, error) {
	path, modules := d.Kernel, d.Modules
	if path == "" {
		path = os.Getenv("ATOLL_MACHINE_KERNEL")
	}
	if modules == "" && d.Kernel == "" {
		modules = os.Getenv("ATOLL_MACHINE_MODULES")
	}
	return boot.Find(path, modules)
}

// prepare makes what machines boot from, if it is not there yet.
func (d *Driver) prepare(ctx context.Context, tell func(atoll.Progress)) (boot.Files, error) {
	k, err := d.kernel()
	if err != nil {
		return boot.Files{}, err
	}
	guest, err := d.Helpers.Find("atoll-guest")
	if err != nil {
		return boot.Files{}, err
	}
	return boot.Prepare(ctx, k, boot.Options{Guest: guest}, filepath.Join(d.Dir, "boot"), func(text string) {
		told(tell)(atoll.Progress{ID: "kernel", Message: text})
	})
}

// told is a listener that may be nil.
func told(tell func(atoll.Progress)) func(atoll.Progress) {
	if tell == nil {
		return func(atoll.Progress) {}
	}
	return tell
}

// kind is the type of the machines.
func (d *Driver) kind() string {
	if d.Type != "" {
		return d.Type
	}
	return machine.Microvm
}

// Close ends what the driver runs beside itself: nothing. Sandboxes live on.
func (d *Driver) Close() error { return nil }
