package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// Where a driver can't mount directories of this host, workspaces are copied: their files are
// copied into the sandbox before its first command, and writable ones are copied back before it is
// stopped or destroyed. In between, the sandbox has the valid copy, and no other call writes the
// workspace.

// copyState is the state of a workspace in a sandbox.
type copyState int

// The copy states, as stored in the column carried.
const (
	mounted   copyState = iota // it is mounted, not copied
	inStore                    // the store has the valid files
	copyingIn                  // the store has the valid files; they are being copied into the sandbox
	inSandbox                  // the sandbox has the valid files; the store has the state before
)

// How long the destruction of a running sandbox is delayed while its files can't be copied back.
const (
	fetchPatience        = 24 * time.Hour
	fetchPatienceInvalid = time.Hour // if the files are invalid: too many or too large
)

// copiesWorkspaces reports whether workspaces are copied into the sandboxes of a driver.
func copiesWorkspaces(ft *atoll.Features) bool { return !ft.Mounts && ft.Programs }

// workspaceCopy is a copied workspace of a sandbox.
type workspaceCopy struct {
	workspace.Key
	target   string
	readOnly bool
	state    copyState
	moved    time.Time // zero: never
	failing  time.Time // since when copying back fails; zero: it does not
}

// queryCopies returns the copied workspaces of a sandbox.
func queryCopies(ctx context.Context, q registry.Querier, sandbox string) ([]workspaceCopy, error) {
	rows, err := q.QueryContext(ctx, `select app, user, workspace, target, read_only, carried, moved, failing from mounts
		where sandbox = ? and carried <> 0 order by target`, sandbox)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []workspaceCopy
	for rows.Next() {
		var l workspaceCopy
		var moved, failing int64
		if err := rows.Scan(&l.Owner.App, &l.Owner.User, &l.Name, &l.target, &l.readOnly, &l.state, &moved, &failing); err != nil {
			return nil, err
		}
		l.moved, l.failing = registry.Time(moved), registry.Time(failing)
		list = append(list, l)
	}
	return list, rows.Err()
}

// conflictingSandbox returns the sandbox, by name or else id, whose use of a workspace excludes
// another; empty: none. Writable files have one valid copy only.
func conflictingSandbox(ctx context.Context, q registry.Querier, p workspace.Key, sandbox string, m atoll.WorkspaceMount, copied bool) (string, error) {
	if copied && m.ReadOnly {
		return "", nil // a read-only copy conflicts with nothing
	}
	which := "m.carried in (2, 3)"
	if copied {
		which = "(m.carried in (2, 3) or m.carried = 0)" // a mounted directory can't be replaced
	}
	var name string
	err := q.QueryRowContext(ctx, `select case s.name when '' then s.id else s.name end from mounts m join sandboxes s on s.id = m.sandbox
		where m.app = ? and m.user = ? and m.workspace = ? and (m.sandbox <> ? or m.target <> ?) and s.state <> 'destroyed' and `+which+` limit 1`,
		p.Owner.App, p.Owner.User, p.Name, sandbox, m.At()).Scan(&name)
	return name, ignoreError(err, sql.ErrNoRows)
}

// reserveCopy refuses a workspace that another sandbox uses exclusively, and records how this
// sandbox has it.
func (f *Fleet) reserveCopy(ctx context.Context, tx *sql.Tx, p workspace.Key, sandbox string, m atoll.WorkspaceMount, copied bool) error {
	other, err := conflictingSandbox(ctx, tx, p, sandbox, m, copied)
	if err != nil {
		return err
	}
	if other != "" {
		return fmt.Errorf("%w: sandbox %s uses its files; stop or destroy that first, or mount it read-only", atoll.ErrState, other)
	}
	how := mounted
	switch {
	case copied && m.ReadOnly:
		how = inStore
	case copied:
		how = copyingIn
	}
	_, err = tx.ExecContext(ctx, "update mounts set carried = ? where sandbox = ? and target = ? and carried <> ?", how, sandbox, m.At(), inSandbox)
	return err
}

// reserveCopies is reserveCopy for all workspaces of a sandbox that is started again.
func (f *Fleet) reserveCopies(ctx context.Context, tx *sql.Tx, r *row) error {
	if len(r.cfg.Workspaces) == 0 {
		return nil
	}
	list, err := queryCopies(ctx, tx, r.id)
	for _, l := range list {
		m := atoll.WorkspaceMount{Workspace: l.Name, Target: l.target, ReadOnly: l.readOnly}
		if err := f.reserveCopy(ctx, tx, l.Key, r.id, m, true); err != nil {
			return fmt.Errorf("workspace %s: %w", l.Name, err)
		}
	}
	return err
}

// recordCopiedIn records that the sandbox has the valid copies now.
func (f *Fleet) recordCopiedIn(ctx context.Context, tx *sql.Tx, r *row) error {
	return f.changeCopyState(ctx, tx, r, copyingIn, inSandbox)
}

// recordNotCopied records that the store still has the valid files.
func (f *Fleet) recordNotCopied(ctx context.Context, tx *sql.Tx, r *row) error {
	return f.changeCopyState(ctx, tx, r, copyingIn, inStore)
}

func (f *Fleet) changeCopyState(ctx context.Context, tx *sql.Tx, r *row, from, to copyState) error {
	if len(r.cfg.Workspaces) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "update mounts set carried = ?, moved = ? where sandbox = ? and carried = ?", to, registry.Timestamp(f.now()), r.id, from)
	return err
}

// copyWorkspacesIn copies the workspaces of a sandbox into it, replacing the files there, except
// for files that survived a stop and were not copied back: those are newer.
func (f *Fleet) copyWorkspacesIn(ctx context.Context, sb atoll.Sandbox, id string) error {
	list, err := queryCopies(ctx, f.registry.DB, id)
	for i := range list {
		l := &list[i]
		if l.state == inSandbox {
			there, err := listContent(ctx, sb, l.target)
			if err == nil && len(there) > 0 {
				continue
			}
			if err == nil {
				err = f.recordLostChanges(ctx, id, l, "its files were missing when it was started again")
			}
			if err != nil {
				return fmt.Errorf("workspace %s: %w", l.Name, err)
			}
		}
		if err := f.copyWorkspaceIn(ctx, sb, l.Key, l.target); err != nil {
			return fmt.Errorf("workspace %s at %s: %w", l.Name, l.target, err)
		}
	}
	return err
}

// copyIntoNew copies into a new sandbox what its driver does not mount.
func (f *Fleet) copyIntoNew(ctx context.Context, sb atoll.Sandbox, r *row, ft *atoll.Features) error {
	if !copiesWorkspaces(ft) {
		return nil
	}
	for _, m := range r.imports {
		if err := f.copyDirIn(ctx, sb, m); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	if len(r.cfg.Workspaces) == 0 {
		return nil
	}
	return f.copyWorkspacesIn(ctx, sb, r.id)
}

// copyDirIn copies a directory of this host into a sandbox.
func (f *Fleet) copyDirIn(ctx context.Context, sb atoll.Sandbox, m atoll.Mount) error {
	root, err := os.OpenRoot(m.Source)
	if err != nil {
		return err
	}
	return errors.Join(copyTreeIn(ctx, sb, m.Target, &Files{root: root}), root.Close())
}

// lostAndFound is a directory that file systems create.
const lostAndFound = "lost+found"

// listContent lists a directory of a sandbox; a missing one is empty.
func listContent(ctx context.Context, sb atoll.Sandbox, dir string) ([]string, error) {
	infos, err := atoll.ReadDir(ctx, sb, dir)
	var list []string
	for _, i := range infos {
		if i.Name() != lostAndFound {
			list = append(list, i.Name())
		}
	}
	return list, ignoreError(err, atoll.ErrNotFound)
}

// copyWorkspaceIn replaces the content of a directory of a sandbox by the files of a workspace.
func (f *Fleet) copyWorkspaceIn(ctx context.Context, sb atoll.Sandbox, p workspace.Key, target string) error {
	if _, err := f.ensureDirectory(ctx, p); err != nil {
		return err
	}
	root, err := f.workspaces.Open(p)
	if err != nil {
		return err
	}
	files := &Files{a: f.Account(Caller{Owner: p.Owner, Scopes: []atoll.Scope{atoll.ScopeRead}}), key: p, root: root, markedAt: f.now()}
	return errors.Join(copyTreeIn(ctx, sb, target, files), root.Close())
}

// copyTreeIn replaces the content of a directory of a sandbox by that of a directory of this host.
func copyTreeIn(ctx context.Context, sb atoll.Sandbox, target string, files *Files) error {
	old, err := listContent(ctx, sb, target)
	if err != nil {
		return err
	}
	for _, n := range old {
		if err := ignoreError(atoll.Remove(ctx, sb, path.Join(target, n)), atoll.ErrNotFound); err != nil {
			return err
		}
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := workspace.PackContent(ctx, files.root, w, files.useMarker())
		_ = w.CloseWithError(err) // never fails
		packed <- err
	}()
	err = sb.Import(ctx, target, r)
	_ = r.CloseWithError(io.ErrClosedPipe) // never fails
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return workspace.FileError(target, perr) // it is the cause of the import's error
	}
	return err
}

// saveAndDestroyInner copies back the workspaces of a sandbox, and destroys the driver's sandbox.
func (f *Fleet) saveAndDestroyInner(ctx context.Context, b *handle) error {
	if err := f.saveWorkspaces(ctx, b, inStore); err != nil {
		return err
	}
	return f.reserve.UseHalf(func() error { return f.destroyInnerKeeping(ctx, b) })
}

// saveWorkspaces copies back the workspaces of a sandbox and sets their copy state. Changes in a
// dead sandbox are lost; an event reports that.
func (f *Fleet) saveWorkspaces(ctx context.Context, b *handle, to copyState) error {
	if len(b.cachedRow().cfg.Workspaces) == 0 {
		return nil
	}
	list, err := queryCopies(ctx, f.registry.DB, b.id)
	if err != nil {
		return err
	}
	var sb atoll.Sandbox
	var errs []error
	for i := range list {
		l := &list[i]
		if l.state != inSandbox {
			continue
		}
		if sb == nil {
			if sb, err = b.openInner(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				return err
			}
		}
		if err == nil {
			err = f.fetchWorkspace(ctx, b, sb, l, to)
		}
		if err != nil {
			err = f.handleFetchFailure(ctx, b, sb, l, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// handleFetchFailure handles a failure to copy back: it returns nil if the files are given up as
// lost.
func (f *Fleet) handleFetchFailure(ctx context.Context, b *handle, sb atoll.Sandbox, l *workspaceCopy, why error) error {
	if sb == nil && errors.Is(why, atoll.ErrNotFound) || sb != nil && isDead(ctx, sb) {
		return f.recordLostChanges(ctx, b.id, l, "it ended before its files were copied back")
	}
	if errors.Is(why, atoll.ErrNotFound) {
		return f.recordLostChanges(ctx, b.id, l, "it has removed "+l.target)
	}
	why = fmt.Errorf("workspace %s at %s: %w", l.Name, l.target, why)
	now, most := f.now(), fetchPatience
	if errors.Is(why, atoll.ErrQuota) || errors.Is(why, atoll.ErrInvalid) {
		most = fetchPatienceInvalid
	}
	if !l.failing.IsZero() && now.Sub(l.failing) > most && !errors.Is(why, atoll.ErrUnavailable) {
		return f.recordLostChanges(ctx, b.id, l, "its files could not be copied back for "+most.String()+": "+oneLine(why))
	}
	if l.failing.IsZero() {
		err := f.registry.Write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "update mounts set failing = ? where sandbox = ? and target = ?", registry.Timestamp(now), b.id, l.target)
			return err
		})
		why = errors.Join(why, err)
	}
	return why
}

// isDead reports whether a sandbox does not run any more, according to its driver.
func isDead(ctx context.Context, sb atoll.Sandbox) bool {
	st, err := sb.Status(ctx)
	return errors.Is(err, atoll.ErrNotFound) || err == nil && st.State != atoll.Running && st.State != atoll.Paused
}

// recordLostChanges records that the changes of a sandbox in a workspace are lost.
func (f *Fleet) recordLostChanges(ctx context.Context, sandbox string, l *workspaceCopy, why string) error {
	f.log.Warn("changes of a workspace are lost", "workspace", l.Name, "sandbox", sandbox, "since", l.moved)
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update mounts set carried = ?, failing = 0 where sandbox = ? and target = ? and carried = ?", inStore, sandbox, l.target, inSandbox)
		if err != nil {
			return err
		}
		return f.events.Emit(ctx, tx, atoll.Event{
			Time: f.now(), Type: "workspace.outdated", Owner: l.Owner, Object: l.Name, Name: l.Name,
			Message: fmt.Sprintf("sandbox %s: %s; it is as it was at %s", sandbox, why, l.moved.Format(time.RFC3339)),
			Data:    map[string]string{"sandbox": sandbox, "target": l.target},
		})
	})
}

// fetchWorkspace copies a workspace back from a sandbox, completely or not at all.
func (f *Fleet) fetchWorkspace(ctx context.Context, b *handle, sb atoll.Sandbox, l *workspaceCopy, to copyState) error {
	ctx, cancel := withTransferTimeout(ctx, b.cachedRow().cfg.Timeouts)
	defer cancel()
	m, err := f.newMeter(ctx, l.Key)
	if err != nil {
		return err
	}
	defer m.Close()
	held, err := f.workspaces.Measure(ctx, l.Key)
	if err != nil {
		return err
	}
	m.Credit(held.Bytes) // everything there will be replaced
	d, err := f.workspaces.NewStaging(workspace.IncomingDir)
	if err != nil {
		return err
	}
	defer f.removeStaging(ctx, d)
	if err := workspace.FetchDir(ctx, sb, l.target, d, m); err != nil {
		return err
	}
	if err := f.installWorkspace(ctx, b.id, l, d, to); err != nil {
		return err
	}
	m.Commit()
	return nil
}

// withTransferTimeout applies the transfer timeout of a configuration.
func withTransferTimeout(ctx context.Context, t atoll.Timeouts) (context.Context, context.CancelFunc) {
	d := t.Transfer
	if d == 0 {
		d = atoll.DefaultTransferTimeout
	}
	if d < 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
}

// installWorkspace replaces a workspace by a staged directory, in one step. A process that dies in
// between leaves the old one to be restored.
func (f *Fleet) installWorkspace(ctx context.Context, sandbox string, l *workspaceCopy, d *workspace.Staging, to copyState) error {
	var old *workspace.Staging
	err := f.registry.Write(ctx, func(tx *sql.Tx) error {
		if _, err := queryWorkspace(ctx, tx, l.Key); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "update mounts set carried = ?, moved = ?, failing = 0 where sandbox = ? and target = ?", to, registry.Timestamp(f.now()), sandbox, l.target)
		if err == nil {
			err = f.markUsedIn(ctx, tx, l.Key)
		}
		if err != nil {
			return err
		}
		old, err = f.workspaces.Replace(l.Key, d) // last: only a failing commit can follow, and then it is repeated
		return err
	})
	if old != nil {
		f.removeStaging(ctx, old)
	}
	return err
}

// SaveWorkspaces copies back the workspaces of a sandbox that have been copied in. The sandbox goes on.
func (s *Sandbox) SaveWorkspaces(ctx context.Context) error {
	const op = "save"
	if err := s.checkAccess(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.startAudit(op, "")
	err := s.f.saveRunning(ctx, s.b)
	noted(err)
	return s.wrapError(op, err)
}

func (f *Fleet) saveRunning(ctx context.Context, b *handle) error {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	release, err := b.acquireTurn(ctx) // it is not stopped or destroyed meanwhile
	if err != nil {
		return err
	}
	defer release()
	r, err := f.loadRow(ctx, b.id)
	if err == nil && (r.state != atoll.Running || r.goal != "") {
		err = fmt.Errorf("%w: it is %s; its files are copied back when it is stopped or destroyed", atoll.ErrState, r.state)
	}
	if err != nil {
		return err
	}
	return f.saveWorkspaces(ctx, b, inSandbox)
}
