package namespace

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// addMounts plans the directories of the host that a sandbox was given. With the privileges for it,
// the owner of such a directory appears inside as the sandbox's user, and files that this user
// creates belong to the owner.
func (d *Driver) addMounts(ctx context.Context, p *plan, list []atoll.Mount) error {
	for _, m := range list {
		s := jail.Step{Action: jail.BindTree, Path: m.Target[1:], ReadOnly: m.ReadOnly, Recursive: true}
		src, err := d.mountSource(ctx, p, m.Source, s)
		if err != nil {
			return fmt.Errorf("mount of %s: %w", m.Source, err)
		}
		s.Source = src
		p.addStep(s)
	}
	return nil
}

func (d *Driver) mountSource(ctx context.Context, p *plan, source string, s jail.Step) (jail.Source, error) {
	src, err := p.openDir(source, s)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", atoll.ErrNotFound, err)
	}
	if errors.Is(err, unix.ENOTDIR) {
		err = fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	if err != nil || !p.root {
		return src, err
	}
	mount := p.files[src.File]
	var st unix.Stat_t
	if err := unix.Fstat(int(mount.Fd()), &st); err != nil {
		return src, os.NewSyscallError("fstat", err)
	}
	spawner, err := d.startSpawner(ctx)
	if err != nil {
		return src, err
	}
	ns, err := spawner.NewUserNamespace(ctx, ownerMap(int(st.Uid), p.base), ownerMap(int(st.Gid), p.base))
	if err != nil {
		return src, err
	}
	defer ns.Close()
	if err := jail.MapOwners(mount, ns); err != nil {
		return src, fmt.Errorf("%w: %w", atoll.ErrUnsupported, err)
	}
	return src, nil
}

// ownerMap maps the owner of a mounted directory to the sandbox's user, and the other users of the
// sandbox to themselves.
func ownerMap(owner, base int) []jail.IDs {
	return []jail.IDs{
		{Inside: owner, Outside: base + guest.UserID, Count: 1},
		{Inside: base, Outside: base, Count: guest.UserID},
		{Inside: base + guest.UserID + 1, Outside: base + guest.UserID + 1, Count: perID - guest.UserID - 1},
	}
}
