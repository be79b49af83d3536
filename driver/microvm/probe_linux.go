package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/cgroup"
	"github.com/atoll-sandbox/atoll/internal/vm/boot"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
)

// host is the state of a driver on this host. The driver's mu guards the fields.
type host struct {
	cgroups cgroup.Prober
	accel   *acceleration
}

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
		Programs: true, Persist: true, Files: true, Stop: true, Pause: true, Snapshot: true, Fork: true, Dial: true, Listen: true, Stats: true, Images: true,
		Users: true, TTY: true, Signals: true, Watch: true, Detach: true, Terminal: true, Notices: true, Egress: true, Fresh: true, Disks: true,
		Networks: []atoll.NetworkMode{atoll.NetworkNone, atoll.NetworkNAT},
		Lacks: map[string]string{
			"MountLimitIsQuota":        "a mount is the host's own directory, whose file system has no limit of its own for it",
			"WatchReportsMountChanges": "neither virtiofs nor 9p reports changes that others make in a directory of the host to a VM; its own changes are reported",
		},
		Notes: []string{"the limit of disk holds for each disk of a VM separately: its root and its working directory"},
	}
	if d.Dir == "" {
		return f, fmt.Errorf("%w: the driver has no directory", atoll.ErrInvalid)
	}
	if err := d.checkRequirements(); err != nil {
		return f, err
	}
	t, err := d.cgroups()
	if err != nil {
		return f, err
	}
	a := d.detectAcceleration(ctx)
	f.Isolation = isolationName(a.accel)
	if a.slow != "" {
		f.Notes = append(f.Notes, a.slow)
	}
	if !a.nested {
		f.Notes = append(f.Notes, "no nested VMs: "+a.why)
	}
	f.CPULimit = t.Has(cgroup.CPU)
	if d.requireBridge() == nil {
		f.Networks = append(f.Networks, atoll.NetworkBridge)
	}
	if err := d.requireShares(ctx, ""); err != nil {
		f.Notes = append(f.Notes, err.Error())
	} else {
		f.Mounts = true
		f.Lacks["WatchReportsMountChanges"] = "changes that others make in a directory of the host are not reported to a VM"
	}
	return f, nil
}

// checkRequirements reports what VMs need that this host does not have, and how to get it.
func (d *Driver) checkRequirements() error {
	_, qerr := d.findQEMU()
	_, kerr := d.findKernel()
	_, gerr := d.Helpers.Find("atoll-guest")
	err := errors.Join(qerr, kerr, gerr)
	if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", atoll.ErrUnavailable, err)
	}
	return err
}

// findQEMU returns the path of the hypervisor.
func (d *Driver) findQEMU() (string, error) {
	if d.QEMU == "" {
		return hypervisor.FindQEMU()
	}
	if _, err := os.Stat(d.QEMU); err != nil {
		return "", fmt.Errorf("%w: QEMU: %w", atoll.ErrUnavailable, err)
	}
	return d.QEMU, nil
}

// findKernel returns the kernel of VMs.
func (d *Driver) findKernel() (boot.Kernel, error) {
	path, modules := d.Kernel, d.Modules
	if path == "" {
		path = os.Getenv("ATOLL_MACHINE_KERNEL")
	}
	if modules == "" && d.Kernel == "" {
		modules = os.Getenv("ATOLL_MACHINE_MODULES")
	}
	return boot.FindKernel(path, modules)
}

// prepareBootFiles creates the files that VMs boot from, if they don't exist yet.
func (d *Driver) prepareBootFiles(ctx context.Context, tell func(atoll.Progress)) (boot.Files, error) {
	k, err := d.findKernel()
	if err != nil {
		return boot.Files{}, err
	}
	guest, err := d.Helpers.Find("atoll-guest")
	if err != nil {
		return boot.Files{}, err
	}
	return boot.Prepare(ctx, k, boot.Options{Guest: guest}, filepath.Join(d.Dir, "boot"), func(text string) {
		progressFunc(tell)(atoll.Progress{ID: "kernel", Message: text})
	})
}

// progressFunc returns a function that reports progress; it does nothing for nil.
func progressFunc(tell func(atoll.Progress)) func(atoll.Progress) {
	if tell == nil {
		return func(atoll.Progress) {}
	}
	return tell
}

// machineType returns QEMU's machine type of the VMs.
func (d *Driver) machineType() string {
	if d.Type != "" {
		return d.Type
	}
	return hypervisor.Microvm
}

// Close does nothing: no process serves the driver itself. Sandboxes continue.
func (d *Driver) Close() error { return nil }
