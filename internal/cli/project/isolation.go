package project

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// isolation is the driver of a project's sandbox and its features.
type isolation struct {
	driver   string
	features atoll.Features
}

// chooseIsolation chooses the driver of a project's sandbox: the configured one, or the first
// registered one that runs real programs here. An emulated VM, which is slow, is chosen last.
func (a commands) chooseIsolation(ctx context.Context) (isolation, error) {
	drivers, err := a.NewDriverProber(ctx)
	if err != nil {
		return isolation{}, err
	}
	if name := config.Get[string](a.Config, "driver"); name != "" {
		ft, err := drivers.Probe(ctx, name)
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
	for _, name := range drivers.Names {
		ft, err := drivers.Probe(ctx, name)
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
