//go:build !linux

package vfs

// MountWatch would tell of changes to a directory of a mount.
type MountWatch struct{}

func (m *mount) watch(_, prefix string) (*MountWatch, error) {
	return nil, pathError("watch", prefix, ENOTSUP)
}

// Close ends the watch.
func (*MountWatch) Close() error { return nil }

// Next waits for changes.
func (*MountWatch) Next() ([]HostChange, error) { return nil, ENOTSUP }
