package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// isolation is the driver of a project's sandbox and its features.
type isolation struct {
	driver   string
	features atoll.Features
}

// driverOrder are drivers in the order in which they are taken where none is named: the
// stronger first, but for emulated machines, which are slow.
var driverOrder = []string{"microvm", "namespace", "docker", "kubernetes"}

// chooseIsolation chooses what builds a project's sandbox: what is named, or the first
// that runs real programs here.
func (a commands) chooseIsolation(ctx context.Context) (isolation, error) {
	away, err := a.IsRemote()
	if err != nil {
		return isolation{}, err
	}
	probe := a.probeHere
	if away {
		if probe, err = a.probesThere(ctx); err != nil {
			return isolation{}, err
		}
	}
	if name := config.Get[string](a.Config, "driver"); name != "" {
		ft, err := probe(ctx, name)
		if err == nil && !worksFor(ft) {
			err = fmt.Errorf("%w: it runs no real programs, and a project needs git; leave it out for the best that is here", atoll.ErrUnsupported)
		}
		if err != nil && !errors.Is(err, atoll.ErrNotFound) {
			err = fmt.Errorf("driver %s: %w", name, err)
		}
		return isolation{name, ft}, err
	}
	var emulated *isolation
	var why []string
	for _, name := range driverOrder {
		ft, err := probe(ctx, name)
		switch {
		case ctx.Err() != nil:
			return isolation{}, context.Cause(ctx)
		case err != nil:
			why = append(why, name+": "+output.OneLine(err.Error()))
		case !worksFor(ft):
		case ft.Isolation == "emulated":
			emulated = &isolation{name, ft}
		default:
			return isolation{name, ft}, nil
		}
	}
	if emulated != nil {
		return *emulated, nil
	}
	return isolation{}, fmt.Errorf("%w: nothing here can build a sandbox that runs real programs; 'atoll doctor' says how to get one\n  %s", atoll.ErrUnavailable, strings.Join(why, "\n  "))
}

// worksFor reports whether a project can be in a driver's sandboxes.
func worksFor(ft atoll.Features) bool { return ft.Programs && ft.Persist && ft.Terminal }

// probeHere asks a driver of this machine what it does.
func (a commands) probeHere(ctx context.Context, name string) (atoll.Features, error) {
	var names []string
	for _, d := range a.Drivers() {
		if d.Name() == name {
			ctx, cancel := context.WithTimeoutCause(ctx, app.ProbeTimeout, fmt.Errorf("%w: driver %s has not answered for %v", atoll.ErrTimeout, name, app.ProbeTimeout))
			defer cancel()
			return d.Probe(ctx)
		}
		names = append(names, d.Name())
	}
	return atoll.Features{}, fmt.Errorf("%w: driver %q%s; there is: %s", atoll.ErrNotFound, name, suggest.Hint(name, names), strings.Join(names, ", "))
}

// probesThere asks the server that commands go to what its drivers do.
func (a commands) probesThere(ctx context.Context) (func(context.Context, string) (atoll.Features, error), error) {
	c, err := a.Client(ctx)
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

// describeIsolation returns a short description of a driver's isolation.
func describeIsolation(driver, isolation string) string {
	switch isolation {
	case "machine":
		return "a VM (" + driver + ")"
	case "emulated":
		return "an emulated VM (" + driver + "): slow, and weaker isolation, since KVM is not usable here"
	case "namespace":
		return "Linux namespaces of this kernel (" + driver + ")"
	case "container":
		return "a container (" + driver + ")"
	}
	return isolation + " (" + driver + ")"
}
