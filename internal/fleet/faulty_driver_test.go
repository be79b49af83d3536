package fleet

import (
	"context"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// faultyDriver is the virtual driver with injected failures. A hook that is set
// replaces the call and may make it.
type faultyDriver struct {
	*virtual.Driver

	mu      sync.Mutex
	create  func(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error)
	list    func(ctx context.Context) ([]atoll.Status, error)
	destroy func(ctx context.Context, sb *virtual.Sandbox) error
	stop    func(ctx context.Context, sb *virtual.Sandbox) error
	status  func(ctx context.Context, sb *virtual.Sandbox) (atoll.Status, error)
}

// setHooks changes the hooks.
func (d *faultyDriver) setHooks(change func(d *faultyDriver)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *faultyDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	d.mu.Lock()
	hook := d.create
	d.mu.Unlock()
	if hook != nil {
		return hook(ctx, spec)
	}
	return d.wrapSandbox(d.Driver.Create(ctx, spec))
}

func (d *faultyDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return d.wrapSandbox(d.Driver.Open(ctx, id))
}

// OpenOwned is Open: that of the virtual driver would open a sandbox without this driver's changes.
func (d *faultyDriver) OpenOwned(ctx context.Context, id string, _ atoll.Owner) (atoll.Sandbox, error) {
	return d.Open(ctx, id)
}

func (d *faultyDriver) wrapSandbox(sb atoll.Sandbox, err error) (atoll.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return &faultySandbox{sb.(*virtual.Sandbox), d}, nil
}

func (d *faultyDriver) List(ctx context.Context) ([]atoll.Status, error) {
	d.mu.Lock()
	hook := d.list
	d.mu.Unlock()
	if hook != nil {
		return hook(ctx)
	}
	return d.Driver.List(ctx)
}

type faultySandbox struct {
	*virtual.Sandbox
	d *faultyDriver
}

func (s *faultySandbox) Destroy(ctx context.Context) error {
	s.d.mu.Lock()
	hook := s.d.destroy
	s.d.mu.Unlock()
	if hook != nil {
		return hook(ctx, s.Sandbox)
	}
	return s.Sandbox.Destroy(ctx)
}

func (s *faultySandbox) Stop(ctx context.Context) error {
	s.d.mu.Lock()
	hook := s.d.stop
	s.d.mu.Unlock()
	if hook != nil {
		return hook(ctx, s.Sandbox)
	}
	return s.Sandbox.Stop(ctx)
}

func (s *faultySandbox) Status(ctx context.Context) (atoll.Status, error) {
	s.d.mu.Lock()
	hook := s.d.status
	s.d.mu.Unlock()
	if hook != nil {
		return hook(ctx, s.Sandbox)
	}
	return s.Sandbox.Status(ctx)
}

// driverStates returns the states of the driver's sandboxes by ID.
func driverStates(t *testing.T, d atoll.Driver) map[string]atoll.State {
	t.Helper()
	list, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]atoll.State)
	for _, s := range list {
		m[s.ID] = s.State
	}
	return m
}

// mustCreate creates a sandbox.
func mustCreate(t testing.TB, a *Account, cfg atoll.Config) *Sandbox {
	t.Helper()
	sb, err := a.Create(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// readRow returns a sandbox's row in the registry.
func readRow(t testing.TB, f *Fleet, id string) row {
	t.Helper()
	r, err := f.loadRow(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
