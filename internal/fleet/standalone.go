package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/fleet/member"

	"github.com/atoll-sandbox/atoll"
)

// CreateStandalone creates a standalone sandbox, which no registry records: end destroys it. If this process
// dies first, any other process that uses the same home destroys it. It costs one file, where a
// registry costs several waits for the disk.
func CreateStandalone(ctx context.Context, home string, d atoll.Driver, spec atoll.Spec) (sb atoll.Sandbox, end func(context.Context) error, err error) {
	in, err := member.JoinHome(home)
	if err != nil {
		return nil, nil, fmt.Errorf("fleet: %w", err)
	}
	if err := destroyDeadStandalone(ctx, home, in, d); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fleet: remove what another atoll left: %w", err), in.Leave())
	}
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if err = in.AddNote(d.Name() + " " + spec.ID); err == nil {
		sb, err = withCreateTimeout(ctx, spec.Timeouts, func(ctx context.Context) (atoll.Sandbox, error) { return d.Create(ctx, spec) })
	}
	if err != nil {
		return nil, nil, errors.Join(timeoutError(causeOf(ctx, err)), in.Leave())
	}
	return sb, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			return errors.Join(err, in.Abandon()) // its file stays, so that another process tries again
		}
		return in.Leave()
	}, nil
}

// destroyDeadStandalone destroys the standalone sandboxes of a driver whose processes died.
func destroyDeadStandalone(ctx context.Context, home string, in *member.FileMember, d atoll.Driver) error {
	dead, err := in.DeadMembers()
	for _, r := range dead {
		list, e := standaloneOf(home, r.ID)
		destroyed := len(list) > 0
		for _, l := range list {
			if l[0] != d.Name() {
				destroyed = false
				continue
			}
			sb, oerr := d.Open(ctx, l[1])
			if oerr == nil {
				oerr = sb.Destroy(ctx)
			}
			e = errors.Join(e, ignoreError(oerr, atoll.ErrNotFound))
		}
		if e != nil || !destroyed {
			err = errors.Join(err, e, r.Release())
			continue
		}
		err = errors.Join(err, r.Forget())
	}
	return err
}

// standaloneOf returns the drivers and ids of the standalone sandboxes of a process.
func standaloneOf(home, id string) ([][2]string, error) {
	lines, err := member.Notes(home, id)
	var list [][2]string
	for _, line := range lines {
		driver, sandbox, ok := strings.Cut(line, " ")
		if ok && atoll.CheckID(sandbox) == nil {
			list = append(list, [2]string{driver, sandbox})
		}
	}
	return list, err
}

// standaloneIDs returns the ids of all standalone sandboxes of a driver. Those of other hosts are
// unknown; there are none where servers share a registry.
func (f *Fleet) standaloneIDs(driver string) (map[string]bool, error) {
	processes, err := member.List(f.opts.Home)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]bool)
	for _, id := range processes {
		list, err := standaloneOf(f.opts.Home, id)
		if err != nil {
			return nil, err
		}
		for _, l := range list {
			if l[0] == driver {
				ids[l[1]] = true
			}
		}
	}
	return ids, nil
}

// destroyStandalone destroys the standalone sandboxes of a process that died.
func (f *Fleet) destroyStandalone(ctx context.Context, id string) error {
	list, err := standaloneOf(f.opts.Home, id)
	for _, l := range list {
		b := f.findDriver(l[0])
		if b == nil {
			err = errors.Join(err, fmt.Errorf("%w: sandbox %s: driver %q is not set up", errNotHere, l[1], l[0]))
			continue
		}
		err = errors.Join(err, f.removeLeftover(ctx, b, l[1]))
	}
	return err
}
