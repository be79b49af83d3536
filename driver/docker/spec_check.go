package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// check reports everything that is wrong with a spec or that this engine does not support.
func (d *Driver) check(e *engine, spec *atoll.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	var errs []error
	no := func(what, format string, a ...any) {
		errs = append(errs, fmt.Errorf("%s: %w by this engine: %s", what, atoll.ErrUnsupported, fmt.Sprintf(format, a...)))
	}
	if r := spec.Runtime; r != "" && r != e.info.DefaultRuntime && !slices.Contains(e.extraRuntimes(), r) {
		no("runtime "+r, "it has %v; others are added to its daemon.json", append([]string{e.info.DefaultRuntime}, e.extraRuntimes()...))
	}
	if d.ReadOnly && e.remote {
		no("a read-only root", "the guest can't be copied into such a container; use an engine on this host")
	}
	if spec.VM != nil {
		no("machine", "a container is not a VM")
	}
	if spec.Pod != nil {
		no("pod", "it does not run in a cluster")
	}
	if n := spec.Limits.CPU; n > float64(e.info.NCPU) && e.info.NCPU > 0 {
		no("limits.cpu", "%v of the %d processors that it has", n, e.info.NCPU)
	}
	if spec.Limits.Disk > 0 && !e.limitsDisk() {
		no("limits.disk", "its storage driver %s has none; overlay2 on xfs with pquota, btrfs and zfs do", e.info.Driver)
	}
	if spec.Limits.Files > 0 {
		no("limits.files", "no storage driver counts them")
	}
	if !slices.Contains(d.featuresOf(e).Networks, networkMode(spec)) {
		no("network mode "+string(networkMode(spec)), "see Features.Networks")
	}
	errs = append(errs, e.checkRules(spec), e.checkMounts(spec.Mounts, no))
	return errors.Join(errs...)
}

func networkMode(spec *atoll.Spec) atoll.NetworkMode {
	if spec.Network.Mode == "" {
		return atoll.NetworkNone
	}
	return spec.Network.Mode
}

// checkMounts reports mounts that can't be made. The engine checks the source again when it mounts
// it.
func (e *engine) checkMounts(mounts []atoll.Mount, no func(what, format string, a ...any)) error {
	var errs []error
	for _, m := range mounts {
		if e.remote {
			no("mount "+m.Source, "it is not on this host; copy files in instead")
			continue
		}
		if m.Limit > 0 {
			no("limit of mount "+m.Source, "a directory of the host has none; give it a file system of its own")
		}
		info, err := os.Stat(m.Source)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("mount %s: %w", m.Source, atoll.ErrNotFound))
		case err != nil:
			errs = append(errs, fmt.Errorf("mount %s: %w", m.Source, err))
		case !info.IsDir():
			errs = append(errs, fmt.Errorf("mount %s: %w: it is not a directory", m.Source, atoll.ErrInvalid))
		}
	}
	return errors.Join(errs...)
}
