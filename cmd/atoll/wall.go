package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/spell"
)

// wall is what stands around a project's sandbox.
type wall struct {
	driver   string
	features atoll.Features
}

// walls are drivers in the order in which they are taken where none is named: the
// stronger first, but for emulated machines, which are slow.
var walls = []string{"microvm", "namespace", "docker", "kubernetes"}

// wallOf chooses what builds a project's sandbox: what is named, or the first
// that runs real programs here.
func (a *app) wallOf(ctx context.Context) (wall, error) {
	away, err := a.elsewhere()
	if err != nil {
		return wall{}, err
	}
	probe := a.probeHere
	if away {
		if probe, err = a.probesThere(ctx); err != nil {
			return wall{}, err
		}
	}
	if name := get[string](a.config, "driver"); name != "" {
		ft, err := probe(ctx, name)
		if err == nil && !worksFor(ft) {
			err = fmt.Errorf("%w: it runs no real programs, and a project needs git; leave it out for the best that is here", atoll.ErrUnsupported)
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			err = fmt.Errorf("driver %s: %w", name, err)
		}
		return wall{name, ft}, err
	}
	var emulated *wall
	var why []string
	for _, name := range walls {
		ft, err := probe(ctx, name)
		switch {
		case ctx.Err() != nil:
			return wall{}, context.Cause(ctx)
		case err != nil:
			why = append(why, name+": "+oneLine(err.Error()))
		case !worksFor(ft):
		case ft.Isolation == "emulated":
			emulated = &wall{name, ft}
		default:
			return wall{name, ft}, nil
		}
	}
	if emulated != nil {
		return *emulated, nil
	}
	return wall{}, fmt.Errorf("%w: nothing here can build a sandbox that runs real programs; 'atoll doctor' says how to get one\n  %s", atoll.ErrUnavailable, strings.Join(why, "\n  "))
}

// worksFor reports whether a project can be in a driver's sandboxes.
func worksFor(ft atoll.Features) bool { return ft.Programs && ft.Persist && ft.Terminal }

// probeHere asks a driver of this machine what it does.
func (a *app) probeHere(ctx context.Context, name string) (atoll.Features, error) {
	var names []string
	for _, d := range a.all() {
		if d.Name() == name {
			ctx, cancel := context.WithTimeoutCause(ctx, examination, fmt.Errorf("%w: driver %s has not answered for %v", atoll.ErrTimeout, name, examination))
			defer cancel()
			return d.Probe(ctx)
		}
		names = append(names, d.Name())
	}
	return atoll.Features{}, fmt.Errorf("%w: driver %q%s; there is: %s", atoll.ErrNotFound, name, spell.Hint(name, names), strings.Join(names, ", "))
}

// probesThere asks the server that commands go to what its drivers do.
func (a *app) probesThere(ctx context.Context) (func(context.Context, string) (atoll.Features, error), error) {
	c, err := a.client(ctx)
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx)
	return func(_ context.Context, name string) (atoll.Features, error) {
		i := slices.IndexFunc(info.Drivers, func(d atoll.DriverInfo) bool { return d.Name == name })
		switch {
		case i < 0:
			return atoll.Features{}, fmt.Errorf("%w: the server has no driver %q", atoll.ErrNotFound, name)
		case info.Drivers[i].Features == nil:
			return atoll.Features{}, errors.Join(atoll.ErrUnavailable, errors.New(info.Drivers[i].Error))
		}
		return *info.Drivers[i].Features, nil
	}, err
}

// wallText says what stands around a sandbox, in a few words.
func wallText(driver, isolation string) string {
	switch isolation {
	case "machine":
		return "a machine of its own (" + driver + ")"
	case "emulated":
		return "an emulated machine (" + driver + "): slow, and a weaker wall, since KVM is not usable here"
	case "namespace":
		return "Linux namespaces of this kernel (" + driver + ")"
	case "container":
		return "a container (" + driver + ")"
	}
	return isolation + " (" + driver + ")"
}
