package atoll

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
