package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Sandbox is a sandbox of the fleet. It keeps the fleet's laws: states, quotas,
// owners, history.
type Sandbox struct {
	atoll.Sandbox
}

// Filter says which sandboxes to list. The zero Filter means all that are not
// destroyed.
type Filter struct {
	States    []atoll.State
	Labels    map[string]string
	Name      string
	All       bool // destroyed ones too, as long as they are remembered
	AllOwners bool // needs ScopeAdmin
}

// Change is what can be changed of a sandbox later.
type Change = atoll.Change

// DriverInfo is a driver and what it does on this machine.
type DriverInfo = atoll.DriverInfo

// Create makes a sandbox that is running when Create returns, or leaves nothing
// behind but its row in the state "error" if it was named… and the reason.
func (a *Account) Create(ctx context.Context, cfg atoll.Config) (*Sandbox, error) {
	return nil, atoll.ErrUnsupported
}

// Open finds a sandbox by id, or by the name of one that is not destroyed.
func (a *Account) Open(ctx context.Context, key string) (*Sandbox, error) {
	return nil, atoll.ErrUnsupported
}

// List returns sandboxes, oldest first.
func (a *Account) List(ctx context.Context, filter Filter) ([]atoll.Info, error) {
	return nil, atoll.ErrUnsupported
}

// Update changes the name, labels or lifecycle of a sandbox.
func (a *Account) Update(ctx context.Context, key string, c Change) (atoll.Info, error) {
	return atoll.Info{}, atoll.ErrUnsupported
}

// Snapshots returns the snapshots of all the owner's sandboxes, oldest first.
func (a *Account) Snapshots(ctx context.Context) ([]atoll.SnapshotInfo, error) {
	return nil, atoll.ErrUnsupported
}

// Allowance returns the caller's quota and what of it is used.
func (a *Account) Allowance(ctx context.Context) (atoll.Allowance, error) {
	return atoll.Allowance{}, atoll.ErrUnsupported
}

// SetQuota gives an owner a quota of his own. It needs ScopeAdmin.
func (a *Account) SetQuota(ctx context.Context, o atoll.Owner, q atoll.Quota) error {
	return atoll.ErrUnsupported
}

// Drivers returns all drivers and what they do here.
func (f *Fleet) Drivers(ctx context.Context) []DriverInfo { return nil }

// Info returns all about the sandbox.
func (s *Sandbox) Info(ctx context.Context) (atoll.Info, error) {
	return atoll.Info{}, atoll.ErrUnsupported
}
