package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// ProbeTimeout is how long one driver may take to be examined.
const ProbeTimeout = 15 * time.Second

// DriverProber probes the drivers of the fleet that commands use: of this machine or of a server.
type DriverProber struct {
	Names []string // of all drivers, in the order in which they are registered

	probe func(ctx context.Context, name string) (atoll.Features, error)
}

// NewDriverProber returns a prober of the drivers of the server that commands use, or else of
// this machine.
func (a *App) NewDriverProber(ctx context.Context) (*DriverProber, error) {
	remote, err := a.IsRemote()
	if err != nil {
		return nil, err
	}
	if remote {
		return a.probeServer(ctx)
	}
	p := &DriverProber{probe: a.probeLocal}
	for _, d := range a.Drivers() {
		p.Names = append(p.Names, d.Name())
	}
	return p, nil
}

// Probe returns the features of a driver. A driver that does not exist is ErrNotFound.
func (p *DriverProber) Probe(ctx context.Context, name string) (atoll.Features, error) {
	return p.probe(ctx, name)
}

// HasVMs returns a function that probes a driver and reports whether its sandboxes are VMs.
func (a *App) HasVMs(ctx context.Context) func(driver string) (bool, error) {
	return func(driver string) (bool, error) {
		p, err := a.NewDriverProber(ctx)
		if err != nil {
			return false, err
		}
		ft, err := p.Probe(ctx, driver)
		if err != nil {
			return false, fmt.Errorf("driver %s: %w", driver, err)
		}
		return ft.IsVM(), nil
	}
}

// probeLocal probes a driver of this machine.
func (a *App) probeLocal(ctx context.Context, name string) (atoll.Features, error) {
	var names []string
	for _, d := range a.Drivers() {
		if d.Name() == name {
			ctx, cancel := context.WithTimeoutCause(ctx, ProbeTimeout, fmt.Errorf("%w: driver %s has not answered for %v", atoll.ErrTimeout, name, ProbeTimeout))
			defer cancel()
			return d.Probe(ctx)
		}
		names = append(names, d.Name())
	}
	return atoll.Features{}, fmt.Errorf("%w: driver %q%s; there is: %s", atoll.ErrNotFound, name, suggest.Hint(name, names), strings.Join(names, ", "))
}

// probeServer asks the server that commands use for the features of all its drivers.
func (a *App) probeServer(ctx context.Context) (*DriverProber, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	p := &DriverProber{probe: func(_ context.Context, name string) (atoll.Features, error) {
		i := slices.IndexFunc(info.Drivers, func(d atoll.DriverInfo) bool { return d.Name == name })
		switch {
		case i < 0:
			return atoll.Features{}, fmt.Errorf("%w: the server has no driver %q", atoll.ErrNotFound, name)
		case info.Drivers[i].Features == nil:
			return atoll.Features{}, errors.Join(atoll.ErrUnavailable, errors.New(info.Drivers[i].Error))
		}
		return *info.Drivers[i].Features, nil
	}}
	for _, d := range info.Drivers {
		p.Names = append(p.Names, d.Name)
	}
	return p, nil
}
