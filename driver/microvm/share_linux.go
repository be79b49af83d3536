package microvm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/vm/hypervisor"
	"github.com/atoll-sandbox/atoll/internal/vm/virtiofs"
	"github.com/atoll-sandbox/atoll/internal/vm/vminit"
)

// requireShares reports why directories of the host can't be mounted by a protocol, or by any if
// that is empty.
func (d *Driver) requireShares(ctx context.Context, proto string) error {
	_, err := d.chooseProtocol(ctx, proto)
	return err
}

// chooseProtocol returns the protocol of mounts: the one that was asked for, or the best if that is
// empty.
func (d *Driver) chooseProtocol(ctx context.Context, asked string) (string, error) {
	files, err := d.prepareBootFiles(ctx, nil)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, p := range candidateProtocols(asked) {
		switch err := requireProtocol(p); {
		case err != nil:
			errs = append(errs, err)
		case !files.Has(p):
			errs = append(errs, fmt.Errorf("the kernel of VMs (%s) has no %s: name one that has, as Debian's linux-image-amd64", files.Release, p))
		default:
			return p, nil
		}
	}
	return "", fmt.Errorf("mounts: %w by the microvm driver here: %w", atoll.ErrUnsupported, errors.Join(errs...))
}

// candidateProtocols returns the protocols to try, the best first.
func candidateProtocols(asked string) []string {
	if asked != "" {
		return []string{asked}
	}
	return []string{hypervisor.Virtiofs, hypervisor.Plan9}
}

// requireProtocol reports what this host lacks for a protocol.
func requireProtocol(proto string) error {
	find := virtiofs.FindVirtiofsd
	if proto == hypervisor.Plan9 {
		if !isRoot() {
			return nil // QEMU serves it, with the rights of this user
		}
		find = virtiofs.Find9PHelper
	} else if !isRoot() {
		return errors.New("virtiofs needs atoll to run as root: as another user it can't separate the owners of files; use 9p")
	}
	_, err := find()
	return err
}

// addShares adds the mounts of a sandbox to the configuration of its VM.
func (d *Driver) addShares(ctx context.Context, r *record, c *hypervisor.Config) (list []vminit.Share, err error) {
	if len(r.Spec.Mounts) == 0 {
		return nil, nil
	}
	asked := ""
	if r.Spec.VM != nil {
		asked = r.Spec.VM.Share
	}
	proto, err := d.chooseProtocol(ctx, asked)
	if err != nil {
		return nil, err
	}
	for i, m := range r.Spec.Mounts {
		tag := fmt.Sprintf("mount%d", i)
		share := hypervisor.Share{Tag: tag, Proto: proto, ReadOnly: m.ReadOnly}
		if proto == hypervisor.Plan9 && !isRoot() {
			share.Dir = m.Source
		} else {
			share.Serve = func(ctx context.Context) (*os.File, error) {
				f, err := d.serveMount(ctx, r, c, proto, m)
				if err != nil {
					return nil, fmt.Errorf("mount of %s: %w", m.Source, err)
				}
				return f, nil
			}
		}
		c.Shares = append(c.Shares, share)
		list = append(list, vminit.Share{Tag: tag, Path: m.Target, Proto: proto, ReadOnly: m.ReadOnly})
	}
	return list, nil
}

// serveMount starts the server of one mount.
func (d *Driver) serveMount(ctx context.Context, r *record, c *hypervisor.Config, proto string, m atoll.Mount) (*os.File, error) {
	s := virtiofs.Share{Helper: c.Helper, Dir: m.Source, ReadOnly: m.ReadOnly, User: guest.UserID, Nobody: r.UID}
	if c.Group != nil {
		s.JoinCgroup = c.Group.Add
	}
	var err error
	if proto == hypervisor.Plan9 {
		s.Program, err = virtiofs.Find9PHelper()
	} else {
		s.Program, err = virtiofs.FindVirtiofsd()
	}
	if err != nil {
		return nil, err
	}
	return virtiofs.Serve(ctx, s)
}
