//go:build !linux

package vfs

// MountWatch reports changes of a directory of a mount; not on this system.
type MountWatch struct{}

func (m *mount) watchDir(_, prefix string) (*MountWatch, error) {
	return nil, pathError("watch", prefix, ENOTSUP)
}

// Close stops the watch.
func (*MountWatch) Close() error { return nil }

// Next waits for changes.
func (*MountWatch) Next() ([]HostChange, error) { return nil, ENOTSUP }
