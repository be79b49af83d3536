package jail

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DetachMount returns a detached mount of a directory or file, with the attributes of a step. It is
// visible nowhere until process 1 attaches it. It needs the privileges of the host's root.
func DetachMount(f *os.File, s Step) (*os.File, error) {
	tree, err := cloneMount(int(f.Fd()), f.Name(), mountAttributes(&s), s.Recursive)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), f.Name()), nil
}

// MapOwners maps the owners of the files in a detached mount by the maps of a user namespace (an
// idmapped mount).
func MapOwners(mount, namespace *os.File) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	if err := unix.MountSetattr(int(mount.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("%s: mapping owners: %w", mount.Name(), os.NewSyscallError("mount_setattr", err))
	}
	return nil
}

// NewUserNamespace returns a user namespace with the given maps, for MapOwners.
func (s *Spawner) NewUserNamespace(ctx context.Context, uids, gids []IDs) (*os.File, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	p, err := s.Start(ctx, StartConfig{UIDs: uids, GIDs: gids, UserNamespaceOnly: true}, null, nil)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.PID))
	return f, errors.Join(err, p.Kill())
}
