package fleet

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/archive"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
)

// errIsArchived makes a start bring the sandbox back.
var errIsArchived = fmt.Errorf("%w: it is archived; start it first", atoll.ErrState)

// unarchiveHeld brings an archived sandbox back: it runs when unarchiveHeld returns. If that fails, it stays archived. The
// caller holds the turn.
func (f *Fleet) unarchiveHeld(ctx context.Context, b *handle) error {
	if f.opts.Archive.Store == nil {
		return errNoArchiveStorage
	}
	if err := b.checkArchivable(); err != nil {
		return err
	}
	if err := f.CheckSpace(); err != nil {
		return err
	}
	r, mounts, o, err := f.beginRestore(ctx, b)
	if err != nil || r.state == atoll.Running {
		return err
	}
	f.reachStep("restore begun")
	ctx, end := b.beginCancelable(ctx)
	defer end()
	err = f.destroyLeftover(ctx, b)
	b.setInner(nil)
	if err == nil {
		err = f.unpackArchive(ctx, b, &r, mounts, &o)
	}
	f.reachStep("restore unpacked")
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = f.commitRestore(ctx, b)
	}
	if err != nil {
		_, serr := f.reconcileHeld(ctx, b.id, err)
		return errors.Join(timeoutError(causeOf(ctx, err)), serr)
	}
	f.reachStep("restore committed")
	f.log.Info("sandbox brought back from its archive", "id", b.id, "bytes", o.bytes)
	f.sweepNow(ctx, b.id)
	return nil
}

// beginRestore records that this process brings a sandbox back, within the quota of its owner.
func (f *Fleet) beginRestore(ctx context.Context, b *handle) (r row, mounts []atoll.Mount, o archivedObject, err error) {
	err = f.changeExclusive(ctx, b.id, func(tx *sql.Tx, now *row) (err error) {
		switch {
		case now.state == atoll.Running && now.goal == "":
			r = *now
			return nil
		case now.state == atoll.Destroyed || now.goal == goalDestroy:
			return errDestroyed
		case now.state != atoll.Archived:
			return transitionError(now.state, atoll.Running, "start it again")
		}
		if o, err = f.keptObject(ctx, tx, now.id); err != nil {
			return err
		}
		if err := f.checkUnarchiveQuota(ctx, tx, now, &o); err != nil {
			return err
		}
		if err := f.reserveCopies(ctx, tx, now); err != nil {
			return err
		}
		if ft, ok := b.driver.cachedFeatures(); len(now.cfg.Workspaces) > 0 && (!ok || !copiesWorkspaces(&ft)) {
			if mounts, err = f.mountsOf(ctx, tx, now.owner, &now.cfg); err != nil {
				return err
			}
		}
		now.holder, now.goal = f.member.ID(), goalRestore
		err = f.transitionTo(ctx, tx, now, atoll.Starting)
		r = *now
		return err
	})
	return r, mounts, o, err
}

// checkUnarchiveQuota refuses to bring a sandbox back beyond the owner's quota.
func (f *Fleet) checkUnarchiveQuota(ctx context.Context, tx *sql.Tx, r *row, o *archivedObject) error {
	if err := f.checkRestart(ctx, tx, r); err != nil {
		return err
	}
	q, err := f.quotaOf(ctx, tx, r.owner)
	if err != nil || q.Disk < 0 || r.cfg.Limits.Disk <= 0 {
		return err
	}
	u, err := f.sandboxUsage(ctx, tx, r.owner)
	if err != nil {
		return err
	}
	_, bytes, err := f.workspaceUsage(ctx, tx, r.owner)
	if err != nil {
		return err
	}
	kept, err := keptDiskBytes(ctx, tx, r.owner)
	if err != nil {
		return err
	}
	limit := r.cfg.Limits.Disk
	return fitLimit("disk", q.Disk, u.Disk+bytes+kept-o.bytes, 0, &limit)
}

// unpackArchive creates the driver's sandbox from an object. Nothing of an object is used that is not what was stored.
func (f *Fleet) unpackArchive(ctx context.Context, b *handle, r *row, mounts []atoll.Mount, o *archivedObject) error {
	unpacker, ok := b.driver.impl.(atoll.FileUnpacker)
	if !ok {
		return unsupported
	}
	rc, err := f.opts.Archive.Store.Get(ctx, o.key)
	if errors.Is(err, atoll.ErrNotFound) { // not of the sandbox
		return fmt.Errorf("%w: the object with its files is missing from the archive storage: %v", atoll.ErrUnavailable, err) //nolint:errorlint // the sandbox exists
	}
	if err != nil {
		return err
	}
	defer rc.Close()
	opener, err := objectstore.NewOpener(&digestReader{r: rc, sum: sha256.New(), want: o}, o.secret, o.place())
	if err != nil {
		return err
	}
	in, err := archive.NewReader(opener)
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Manifest.Sandbox != r.id || in.Manifest.Config.Driver != r.driver {
		return fmt.Errorf("%w: the object in the archive storage is that of sandbox %.64q of driver %.64q", atoll.ErrState, in.Manifest.Sandbox, in.Manifest.Config.Driver)
	}
	spec, err := f.driverSpec(ctx, r, mounts)
	if err != nil {
		return err
	}
	spec.Timeouts.Create = -1 // it takes as long as the storage sends
	spec.Progress = f.progressReporter(ctx, r)
	files := in.Manifest.Files
	rest := archive.Filter(in, archive.Limits{}, nil)
	defer rest.Close()
	files.ReadCloser = rest
	sb, err := unpacker.CreatePacked(ctx, spec, &files)
	if err != nil {
		return err
	}
	b.setInner(sb)
	return f.prepareStarted(ctx, b, sb)
}

// digestReader reads an object, and ends with an error if it is not the one that was stored.
type digestReader struct {
	r    io.Reader
	sum  hash.Hash
	n    int64
	want *archivedObject
}

// Read reads the object.
func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.sum.Write(p[:n])
	d.n += int64(n)
	if err == io.EOF { //nolint:errorlint // io.Reader's contract: EOF itself is the end
		if got := hex.EncodeToString(d.sum.Sum(nil)); got != d.want.digest || d.n != d.want.bytes {
			return n, fmt.Errorf("%w: the object in the archive storage was changed or damaged: it has %d bytes and the digest %s, not %d and %s", atoll.ErrState, d.n, got, d.want.bytes, d.want.digest)
		}
	}
	return n, err
}

// commitRestore records that the sandbox runs again, and that its object is garbage.
func (f *Fleet) commitRestore(ctx context.Context, b *handle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	_, err := f.changeRow(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if r.holder != f.member.ID() || r.goal != goalRestore {
			return errLostTurn
		}
		r.holder, r.goal = "", ""
		r.started, r.active = f.now(), f.now()
		if err := errors.Join(f.recordCopiedIn(ctx, tx, r), dropObjects(ctx, tx, r.id, objectKept)); err != nil {
			return err
		}
		return f.transitionTo(ctx, tx, r, atoll.Running)
	})
	return err
}

// unarchiveForCall brings an archived sandbox back for a call that uses it, if its caller may start it.
func (s *Sandbox) unarchiveForCall(ctx context.Context, d callRules) error {
	r := s.b.cachedRow()
	if r.state != atoll.Archived || d.passive {
		return nil
	}
	if !s.a.caller.Allows(atoll.ScopeRun) {
		return errIsArchived
	}
	return s.Start(ctx)
}
