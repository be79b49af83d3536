package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Lone makes a sandbox that no registry knows, for as long as somebody works
// with it: end destroys it. Should this process die before, any other that uses
// the same home destroys it. That costs a file, where a registry costs several
// waits for the disk.
func Lone(ctx context.Context, home string, d atoll.Driver, spec atoll.Spec) (sb atoll.Sandbox, end func(context.Context) error, err error) {
	in, err := newInstance(home)
	if err != nil {
		return nil, nil, fmt.Errorf("fleet: %w", err)
	}
	if err := in.buryLone(ctx, d); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("fleet: what another atoll left: %w", err), in.end())
	}
	if spec.ID == "" {
		spec.ID = atoll.NewID()
	}
	if _, err = in.lock.WriteString(d.Name() + " " + spec.ID + "\n"); err == nil {
		sb, err = inTime(ctx, spec.Timeouts, func(ctx context.Context) (atoll.Sandbox, error) { return d.Create(ctx, spec) })
	}
	if err != nil {
		return nil, nil, errors.Join(late(reason(ctx, err)), in.end())
	}
	return sb, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
		defer cancel()
		if err := sb.Destroy(ctx); err != nil {
			return errors.Join(err, in.lock.Close()) // its file stays: somebody tries again
		}
		return in.end()
	}, nil
}

// buryLone destroys the sandboxes of a driver that no registry knows and whose
// process died.
func (in *instance) buryLone(ctx context.Context, d atoll.Driver) error {
	dead, err := in.dead()
	for _, r := range dead {
		list, e := loneOf(in.dir, r.id)
		settled := len(list) > 0
		for _, l := range list {
			if l[0] != d.Name() {
				settled = false
				continue
			}
			sb, oerr := d.Open(ctx, l[1])
			if oerr == nil {
				oerr = sb.Destroy(ctx)
			}
			e = errors.Join(e, ignore(oerr, atoll.ErrNotFound))
		}
		if e != nil || !settled {
			err = errors.Join(err, e, r.keep())
			continue
		}
		err = errors.Join(err, r.bury())
	}
	return err
}

// loneOf reads which sandboxes that no registry knows an instance has: the name
// of a driver and an id, on a line each.
func loneOf(dir, id string) ([][2]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, id))
	if err != nil {
		return nil, ignore(err, os.ErrNotExist)
	}
	var list [][2]string
	for line := range strings.Lines(string(b)) {
		driver, sandbox, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if ok && strings.HasSuffix(line, "\n") && atoll.CheckID(sandbox) == nil {
			list = append(list, [2]string{driver, sandbox})
		}
	}
	return list, nil
}

// lone returns the ids of all sandboxes of a driver that no registry knows and
// somebody works with. Those of other hosts' homes nobody knows: with a registry
// that servers share none are made.
func (f *Fleet) lone(driver string) (map[string]bool, error) {
	dir := instancesOf(f.opts.Home)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignore(err, os.ErrNotExist)
	}
	ids := make(map[string]bool)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unborn) {
			continue
		}
		list, err := loneOf(dir, e.Name())
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

// destroyLone destroys what an instance that died had besides the registry.
func (f *Fleet) destroyLone(ctx context.Context, id string) error {
	list, err := loneOf(instancesOf(f.opts.Home), id)
	for _, l := range list {
		b := f.bay(l[0])
		if b == nil {
			err = errors.Join(err, fmt.Errorf("%w: sandbox %s: driver %q is not set up", errNotHere, l[1], l[0]))
			continue
		}
		err = errors.Join(err, f.remove(ctx, b, l[1]))
	}
	return err
}
