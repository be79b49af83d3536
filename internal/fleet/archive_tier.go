package fleet

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/archive"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
)

// An archived sandbox is a stopped one whose files are only in the archive storage. The registry decides where they
// are, in one transaction each way: until the state is "archived", the driver has them, and the object is garbage;
// from then on the object has them, and the driver's files are a leftover. Each step can be repeated by another
// process:
//
//	state     goal     files                                 the next process
//	stopped   archive  the driver's; half an object          marks the object as garbage
//	archived  archive  the object; a leftover of the driver  removes the leftover
//	archived           the object
//	starting  restore  the object; half a new sandbox        removes the half, and the state is archived again

// The goals of archiving and of bringing an archived sandbox back.
const (
	goalArchive = "archive"
	goalRestore = "restore"
)

// maxArchivings is how many sandboxes a process archives at once: each needs about 40 MB of memory, and no quota
// limits how many stopped ones an owner archives.
const maxArchivings = 8

// archiveTimeout bounds the archiving of an expired sandbox.
const archiveTimeout = 6 * time.Hour

// The causes of refused and canceled calls.
var (
	errArchiving = fmt.Errorf("%w: the sandbox is being archived", atoll.ErrState)
	errLostTurn  = fmt.Errorf("%w: another process has taken over the sandbox meanwhile", atoll.ErrUnavailable)
)

// Archive moves the files of a stopped sandbox to the archive storage. Its name, settings and secrets stay in the
// registry. Start and calls that use it bring it back. Archiving an archived sandbox is not an error.
func (s *Sandbox) Archive(ctx context.Context) error {
	if err := s.checkAccess("archive", atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.startAudit("archive", "")
	err := s.f.archiveSandbox(ctx, s.b)
	noted(err)
	return s.wrapError("archive", err)
}

// archiveSandbox archives a stopped sandbox.
func (f *Fleet) archiveSandbox(ctx context.Context, b *handle) error {
	if f.opts.Archive.Store == nil {
		return errNoArchiveStorage
	}
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	select { // before the turn: the sandbox stays free while it waits
	case f.archivings <- struct{}{}:
		defer func() { <-f.archivings }()
	case <-ctx.Done():
		return timeoutError(context.Cause(ctx))
	}
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := b.checkReachable(ctx); err != nil {
		return err
	}
	o, done, err := f.beginArchive(ctx, b)
	if done || err != nil {
		return err
	}
	f.reachStep("archive begun")
	ctx, end := b.beginCancelable(ctx)
	defer end()
	defer b.calls.open()
	if err = b.drainCalls(ctx, errArchiving); err == nil {
		err = f.storeArchive(ctx, b, &o)
	}
	f.reachStep("archive stored")
	if err == nil {
		err = f.commitArchive(ctx, b, &o)
	}
	if err != nil {
		_, serr := f.reconcileHeld(ctx, b.id, err)
		if !errors.Is(err, atoll.ErrUnavailable) {
			f.sweepNow(ctx, b.id)
		}
		return errors.Join(timeoutError(causeOf(ctx, err)), serr)
	}
	f.reachStep("archive committed")
	f.log.Info("sandbox archived", "id", b.id, "bytes", o.bytes)
	_, err = f.reconcileHeld(ctx, b.id, nil) // removes the leftover
	f.logError("leftover of an archived sandbox", err)
	return nil
}

// archiveRetry is the time until the archiving of an expired sandbox is tried again.
const archiveRetry = 10 * time.Minute

// archiveExpired archives a sandbox as the fleet. If the storage fails, it stays as it is.
func (f *Fleet) archiveExpired(ctx context.Context, r row) error {
	err := f.archiveSandbox(ctx, f.ensureHandle(r))
	f.recordAudit(atoll.Audit{Owner: fleetOwner, Action: "archive", Object: r.id, Detail: "it has been stopped for long", Outcome: outcomeName(err)})
	if err != nil {
		return errors.Join(err, f.retryLater(ctx, r, archiveRetry))
	}
	return nil
}

// reachStep calls the hook of tests.
func (f *Fleet) reachStep(name string) {
	if f.opts.onArchiveStep != nil {
		f.opts.onArchiveStep(name)
	}
}

// beginArchive records that this process archives a sandbox, and the object that it is about to write.
func (f *Fleet) beginArchive(ctx context.Context, b *handle) (o archivedObject, done bool, err error) {
	err = f.changeExclusive(ctx, b.id, func(tx *sql.Tx, r *row) error {
		switch {
		case r.state == atoll.Archived:
			done = true
			return nil
		case r.state == atoll.Destroyed || r.goal == goalDestroy:
			return errDestroyed
		case r.state != atoll.Stopped:
			return transitionError(r.state, atoll.Archived, "stop it first")
		case r.process != "":
			return fmt.Errorf("%w: it ends with its process", atoll.ErrUnsupported)
		}
		if err := b.checkArchivable(); err != nil {
			return err
		}
		var snapshots int
		if err := tx.QueryRowContext(ctx, "select count(*) from snapshots where sandbox = ?", r.id).Scan(&snapshots); err != nil {
			return err
		}
		if snapshots > 0 {
			return fmt.Errorf("%w: it has %d snapshots, which no archive keeps: remove them first, or fork those that you need", atoll.ErrState, snapshots)
		}
		if o, err = f.insertObject(ctx, tx, r.id); err != nil {
			return err
		}
		r.holder, r.goal = f.member.ID(), goalArchive
		return f.saveRow(ctx, tx, r)
	})
	return o, done, err
}

// checkArchivable refuses to archive sandboxes of a driver that can't bring back all their files.
func (b *handle) checkArchivable() error {
	if b.driver == nil || !b.driver.canArchive() {
		return fmt.Errorf("%w: driver %s can't create a sandbox with all files of another", atoll.ErrUnsupported, b.cachedRow().driver)
	}
	return nil
}

// canArchive reports whether sandboxes of the driver can be archived.
func (b *driverState) canArchive() bool {
	_, ok := b.impl.(atoll.FileUnpacker)
	return ok
}

// checkArchiveTime refuses a lifecycle whose sandbox is to be archived, but can't be. A nil driver is not set up.
func (f *Fleet) checkArchiveTime(b *driverState, l atoll.Lifecycle) error {
	switch {
	case l.Archive <= 0:
		return nil
	case f.opts.Archive.Store == nil:
		return fmt.Errorf("lifecycle.archive: %w", errNoArchiveStorage)
	case b == nil || !b.canArchive():
		return fmt.Errorf("lifecycle.archive: %w by this driver: it can't create a sandbox with all files of another", atoll.ErrUnsupported)
	}
	return nil
}

// setArchiveTime sets when a new sandbox is archived to the server's default, if it can be.
func (f *Fleet) setArchiveTime(r *row, ft *atoll.Features) {
	b := f.findDriver(r.driver)
	if f.opts.Archive.Store != nil && f.opts.Archive.After > 0 && r.pool == "" && r.process == "" && r.cfg.Lifecycle.Archive == 0 &&
		r.cfg.Lifecycle.Policy != atoll.PolicyOneshot && ft.Persist && b != nil && b.canArchive() {
		r.cfg.Lifecycle.Archive = f.opts.Archive.After
	}
}

// storeArchive packs the files of a sandbox and stores them as an object, in a stream: neither files nor object are
// in memory or on the disk of this host.
func (f *Fleet) storeArchive(ctx context.Context, b *handle, o *archivedObject) error {
	if err := f.waitForOthers(ctx); err != nil {
		return err
	}
	if _, err := b.openInner(ctx); err != nil {
		return err
	}
	r := b.cachedRow()
	s := &Sandbox{a: f.Account(Caller{Owner: r.owner}), f: f, b: b}
	files, err := s.packFiles(ctx, &r, "")
	if err != nil {
		return err
	}
	if files.Kind == atoll.PackedDirectory {
		return errors.Join(fmt.Errorf("%w: driver %s packs only the working directory", atoll.ErrUnsupported, r.driver), files.Close())
	}
	m := &atoll.SandboxArchive{Version: atoll.SandboxArchiveVersion, Created: o.created, Sandbox: r.id, Config: atoll.Config{Driver: r.driver}, Files: *files}
	checked := archive.Filter(files, archive.Limits{}, nil) // with the limits of a return
	m.Files.ReadCloser = checked
	pr, pw := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := archive.Write(ctx, pw, m)
		err = errors.Join(err, checked.Close(), files.Close())
		_ = pw.CloseWithError(err) // never fails; nil is the end
		packed <- err
	}()
	sealer, err := objectstore.NewSealer(pr, o.secret, o.place())
	if err == nil {
		sum := sha256.New()
		o.bytes, err = f.opts.Archive.Store.Put(ctx, o.key, io.TeeReader(sealer, sum))
		o.digest = hex.EncodeToString(sum.Sum(nil))
	}
	_ = pr.CloseWithError(err) // ends the packing after an error
	if perr := <-packed; err == nil {
		err = perr
	}
	return err
}

// waitForOthers waits until other processes have learned that a sandbox is being changed, and have ended their calls.
func (f *Fleet) waitForOthers(ctx context.Context) error {
	t := time.NewTimer(2 * refreshInterval)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// commitArchive records that the object has the files of the sandbox.
func (f *Fleet) commitArchive(ctx context.Context, b *handle, o *archivedObject) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	_, err := f.changeRow(ctx, b.id, func(tx *sql.Tx, r *row) error {
		if r.holder != f.member.ID() || r.goal != goalArchive {
			return errLostTurn
		}
		if err := keepObject(ctx, tx, o); err != nil {
			return err
		}
		r.reason, r.message = "", ""
		since := r.changed
		r.state = atoll.Archived
		if err := f.saveState(ctx, tx, r); err != nil {
			return err
		}
		r.changed = since // the time that it stays stopped goes on
		return f.saveRow(ctx, tx, r)
	})
	return err
}

// reconcileArchive finishes or undoes the archiving or the return of a sandbox that its process did not finish. The
// caller holds the turn.
func (f *Fleet) reconcileArchive(ctx context.Context, b *handle, r row, failure error) (row, error) {
	b.setInner(nil)
	if r.holder != f.member.ID() { // so that no other process brings it back meanwhile
		claimed, err := f.changeRow(ctx, r.id, func(tx *sql.Tx, now *row) error {
			if now.revision != r.revision {
				return errChanged // another process may be bringing it back, or have finished
			}
			now.holder = f.member.ID()
			if now.goal == "" {
				now.goal = goalArchive
			}
			return f.saveRow(ctx, tx, now)
		})
		if err != nil {
			return r, err
		}
		r = claimed
	}
	err := f.reserve.UseHalf(func() error { return f.destroyLeftover(ctx, b) })
	f.reachStep("leftover removed")
	return f.changeRow(ctx, r.id, func(tx *sql.Tx, now *row) error {
		if now.holder != f.member.ID() || now.goal != r.goal {
			return errLostTurn
		}
		now.holder, now.goal = "", ""
		if err != nil {
			now.goal = goalArchive // to be tried again
			f.log.Warn("the leftover of an archived sandbox could not be removed; it is tried again", "id", r.id, "err", err)
		}
		if now.state == atoll.Archived {
			return f.saveRow(ctx, tx, now)
		}
		if failure != nil {
			now.reason, now.message = goalRestore, f.errorText(now, failure)
		}
		if err := f.recordNotCopied(ctx, tx, now); err != nil {
			return err
		}
		return f.recordObserved(ctx, tx, now, atoll.Archived)
	})
}

// destroyLeftover removes what the driver has of a sandbox whose files are in the archive storage. If they are not
// there, it keeps what the driver has: then the registry is an older one, such as that of a backup, or another
// process has brought the sandbox back meanwhile, and these are the only files.
func (f *Fleet) destroyLeftover(ctx context.Context, b *handle) error {
	if _, err := b.openInner(ctx); errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if f.opts.Archive.Store == nil {
		return errNoArchiveStorage
	}
	o, err := f.keptObject(ctx, f.registry.DB, b.id)
	if err != nil {
		return err
	}
	rc, err := f.opts.Archive.Store.Get(ctx, o.key)
	if errors.Is(err, atoll.ErrNotFound) { // not of the sandbox
		return fmt.Errorf("%w: the registry says that it is archived, but the archive storage has no object with its files, and the driver still has it: nothing is removed: %v", atoll.ErrState, err) //nolint:errorlint // the sandbox exists
	}
	if err != nil {
		return err
	}
	_ = rc.Close() // nothing was read
	if err := f.registry.SyncWrites(); err != nil {
		return err
	}
	return b.destroyInner(ctx)
}

// CheckArchiveStorage stores a small object in the archive storage, reads it and removes it. Without a storage it does nothing.
func (f *Fleet) CheckArchiveStorage(ctx context.Context) error {
	s := f.opts.Archive.Store
	if s == nil {
		return nil
	}
	return objectstore.Check(ctx, s)
}
