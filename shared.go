package atoll

import "context"

// SharedDriver is implemented by drivers whose sandboxes do not belong to one host: every server
// of a fleet that has such a driver can open them.
type SharedDriver interface {
	Driver

	// Shared reports whether this is so. It does not change.
	Shared() bool
}

// IsShared reports whether the sandboxes of a driver can be opened on every server of a fleet.
func IsShared(d Driver) bool {
	s, ok := d.(SharedDriver)
	return ok && s.Shared()
}

// OwnerOpener is implemented by drivers that separate the sandboxes of different owners: that keep them
// in different places, of which some may not answer, or isolate those of some owners more.
type OwnerOpener interface {
	Driver

	// OpenOwned is Open for a sandbox whose owner is known. It depends on the owner's place only:
	// a sandbox that is missing there and in the other places that answer is ErrNotFound.
	OpenOwned(ctx context.Context, id string, owner Owner) (Sandbox, error)
}

// IsolationNamer is implemented by drivers that isolate some sandboxes in another way than their Features say.
type IsolationNamer interface {
	Driver

	// NameIsolation returns the kind of isolation of an owner's sandboxes with a runtime; empty: the driver's own.
	NameIsolation(runtime string, owner Owner) string
}

// PartialListError is the error of a Driver.List that returns only a part of the sandboxes, because
// some of the places where they can be do not answer.
type PartialListError struct {
	Err error

	// IsMissing reports whether the sandboxes of an owner are not in the list.
	IsMissing func(Owner) bool
}

func (e *PartialListError) Error() string { return e.Err.Error() }

// Unwrap returns the errors of the places.
func (e *PartialListError) Unwrap() error { return e.Err }

// StateWatcher is implemented by drivers that notice when a sandbox ends or is removed by something
// other than atoll.
type StateWatcher interface {
	Driver

	// WatchStates calls f with the id of each sandbox whose state may have changed, one call at a
	// time, until ctx is done. Calls may be unnecessary. It returns nil when ctx is done, and an
	// error if it can't watch.
	WatchStates(ctx context.Context, f func(id string)) error
}

// StatusReader is implemented by drivers that find the status of some of their sandboxes faster than
// List finds that of all.
type StatusReader interface {
	Driver

	// ReadStatuses returns the statuses of those of the given sandboxes that exist, in any order.
	ReadStatuses(ctx context.Context, ids []string) ([]Status, error)
}
