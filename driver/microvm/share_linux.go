package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/inside"
	"github.com/atoll-sandbox/atoll/internal/machine"
	"github.com/atoll-sandbox/atoll/internal/virtiofs"
)

// sharesMissing says why directories of the host can't be seen inside, by a
// protocol or by any if that is empty; nil: they can.
func (d *Driver) sharesMissing(ctx context.Context, proto string) error {
	_, err := d.protocol(ctx, proto)
	return err
}

// protocol returns that of mounts: the one that was asked for, or the best if
// that is empty.
func (d *Driver) protocol(ctx context.Context, asked string) (string, error) {
	files, err := d.prepare(ctx, nil)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, p := range protocols(asked) {
		switch err := protocolMissing(p); {
		case err != nil:
			errs = append(errs, err)
		case !files.Has(p):
			errs = append(errs, fmt.Errorf("the kernel of machines (%s) has no %s: name one that has, as Debian's linux-image-amd64", files.Release, p))
		default:
			return p, nil
		}
	}
	return "", fmt.Errorf("mounts: %w by the microvm driver here: %w", atoll.ErrUnsupported, errors.Join(errs...))
}

// protocols are those that are tried for one that was asked for, the best first.
func protocols(asked string) []string {
	if asked != "" {
		return []string{asked}
	}
	return []string{machine.Virtiofs, machine.Plan9}
}

// protocolMissing says what of this host is missing for a protocol; nil: nothing.
func protocolMissing(proto string) error {
	find := virtiofs.Find
	if proto == machine.Plan9 {
		if !root() {
			return nil // QEMU itself, which has the rights of this user
		}
		find = virtiofs.FindProxy
	} else if !root() {
		return errors.New("virtiofs needs atoll to run as root: as another user it can't keep the owners of files apart; use 9p")
	}
	_, err := find()
	return err
}

// shares prepares the mounts of a sandbox. done is called when the machine was
// started, or was not.
func (d *Driver) shares(ctx context.Context, r *record, c *machine.Config) (list []inside.Share, done func(), err error) {
	var conns []*os.File
	done = func() {
		for _, f := range conns {
			_ = f.Close() // it was lent
		}
	}
	if len(r.Spec.Mounts) == 0 {
		return nil, done, nil
	}
	asked := ""
	if r.Spec.Machine != nil {
		asked = r.Spec.Machine.Share
	}
	proto, err := d.protocol(ctx, asked)
	if err != nil {
		return nil, done, err
	}
	for i, m := range r.Spec.Mounts {
		tag := fmt.Sprintf("mount%d", i)
		share := machine.Share{Tag: tag, Proto: proto, ReadOnly: m.ReadOnly}
		if proto == machine.Plan9 && !root() {
			share.Dir = m.Source
		} else {
			if share.Conn, err = d.serve(ctx, r, c, proto, m); err != nil {
				return nil, done, fmt.Errorf("mount of %s: %w", m.Source, err)
			}
			conns = append(conns, share.Conn)
		}
		c.Shares = append(c.Shares, share)
		list = append(list, inside.Share{Tag: tag, Path: m.Target, Proto: proto, ReadOnly: m.ReadOnly})
	}
	return list, done, nil
}

// serve starts what serves one mount.
func (d *Driver) serve(ctx context.Context, r *record, c *machine.Config, proto string, m atoll.Mount) (*os.File, error) {
	s := virtiofs.Share{Helper: c.Helper, Dir: m.Source, ReadOnly: m.ReadOnly, User: userID, Nobody: r.UID}
	if c.Group != nil {
		s.Join = c.Group.Add
	}
	var err error
	if proto == machine.Plan9 {
		s.Program, err = virtiofs.FindProxy()
	} else {
		s.Program, err = virtiofs.Find()
	}
	if err != nil {
		return nil, err
	}
	return virtiofs.Serve(ctx, s)
}
