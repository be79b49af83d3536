package fleet

import (
	"archive/tar"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Where a driver mounts nothing of this host, workspaces are carried: their files
// are copied into the sandbox before its first command, and those that it may
// write are copied back before it stops or goes. Until then they are the
// sandbox's: nobody else writes them.

// carriage says where the files of a workspace are, as a sandbox has it.
type carriage int

// The carriages.
const (
	byDriver carriage = iota // it is mounted, not carried
	atHome                   // on the shelf; the sandbox has none that count
	onTheWay                 // on the shelf, and being copied into the sandbox, which is to own them
	away                     // in the sandbox: the shelf has what they were
)

// How long a sandbox that is to be destroyed is kept for files that can't be
// brought home, though it is there.
const (
	patience      = 24 * time.Hour
	patienceWrong = time.Hour // for what is wrong with the files: too many, too large
)

// carries reports whether workspaces are carried into the sandboxes of a driver.
func carries(ft *atoll.Features) bool { return !ft.Mounts && ft.Programs }

// load is a workspace that a sandbox has a copy of.
type load struct {
	place
	target   string
	readOnly bool
	carriage carriage
	moved    time.Time // zero: never
	failing  time.Time // zero: it does not
}

// loads returns what is carried for a sandbox.
func loads(ctx context.Context, q querier, sandbox string) ([]load, error) {
	rows, err := q.QueryContext(ctx, `select app, user, workspace, target, read_only, carried, moved, failing from mounts
		where sandbox = ? and carried <> 0 order by target`, sandbox)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []load
	for rows.Next() {
		var l load
		var moved, failing int64
		if err := rows.Scan(&l.owner.App, &l.owner.User, &l.name, &l.target, &l.readOnly, &l.carriage, &moved, &failing); err != nil {
			return nil, err
		}
		l.moved, l.failing = when(moved), when(failing)
		list = append(list, l)
	}
	return list, rows.Err()
}

// holder returns the sandbox, by name or else id, that keeps another from having
// a workspace; empty: none does. Files that one may write are in one place only.
func holderOf(ctx context.Context, q querier, p place, sandbox string, m atoll.WorkspaceMount, carried bool) (string, error) {
	if carried && m.ReadOnly {
		return "", nil // a copy bothers nobody
	}
	which := "m.carried in (2, 3)"
	if carried {
		which = "(m.carried in (2, 3) or m.carried = 0)" // a directory that is mounted can't be replaced
	}
	var name string
	err := q.QueryRowContext(ctx, `select case s.name when '' then s.id else s.name end from mounts m join sandboxes s on s.id = m.sandbox
		where m.app = ? and m.user = ? and m.workspace = ? and (m.sandbox <> ? or m.target <> ?) and s.state <> 'destroyed' and `+which+` limit 1`,
		p.owner.App, p.owner.User, p.name, sandbox, m.At()).Scan(&name)
	return name, ignore(err, sql.ErrNoRows)
}

// reserveFor refuses a workspace that another sandbox has and this one can't have
// at the same time, and notes how this one has it.
func (f *Fleet) reserveFor(ctx context.Context, tx *sql.Tx, p place, sandbox string, m atoll.WorkspaceMount, carried bool) error {
	other, err := holderOf(ctx, tx, p, sandbox, m, carried)
	if err != nil {
		return err
	}
	if other != "" {
		return fmt.Errorf("%w: sandbox %s works on its files; stop or destroy that first, or ask for it read-only", atoll.ErrState, other)
	}
	how := byDriver
	switch {
	case carried && m.ReadOnly:
		how = atHome
	case carried:
		how = onTheWay
	}
	_, err = tx.ExecContext(ctx, "update mounts set carried = ? where sandbox = ? and target = ? and carried <> ?", how, sandbox, m.At(), away)
	return err
}

// relock is reserveFor for a sandbox that is started again.
func (f *Fleet) relock(ctx context.Context, tx *sql.Tx, r *row) error {
	if len(r.cfg.Workspaces) == 0 {
		return nil
	}
	list, err := loads(ctx, tx, r.id)
	for _, l := range list {
		m := atoll.WorkspaceMount{Workspace: l.name, Target: l.target, ReadOnly: l.readOnly}
		if err := f.reserveFor(ctx, tx, l.place, r.id, m, true); err != nil {
			return fmt.Errorf("workspace %s: %w", l.name, err)
		}
	}
	return err
}

// loaded notes that a sandbox works on what was brought in.
func (f *Fleet) loaded(ctx context.Context, tx *sql.Tx, r *row) error {
	return f.recarry(ctx, tx, r, onTheWay, away)
}

// unloaded notes that a sandbox does not work on what was being brought in.
func (f *Fleet) unloaded(ctx context.Context, tx *sql.Tx, r *row) error {
	return f.recarry(ctx, tx, r, onTheWay, atHome)
}

func (f *Fleet) recarry(ctx context.Context, tx *sql.Tx, r *row, from, to carriage) error {
	if len(r.cfg.Workspaces) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "update mounts set carried = ?, moved = ? where sandbox = ? and carried = ?", to, stamp(f.now()), r.id, from)
	return err
}

// carryIn brings the workspaces of a sandbox into it. What is in their places
// goes, but for files that outlived the sandbox's stop and were not brought home:
// those are newer.
func (f *Fleet) carryIn(ctx context.Context, sb atoll.Sandbox, id string) error {
	list, err := loads(ctx, f.store.db, id)
	for i := range list {
		l := &list[i]
		if l.carriage == away {
			there, err := contentOf(ctx, sb, l.target)
			if err == nil && len(there) > 0 {
				continue
			}
			if err == nil {
				err = f.outdated(ctx, id, l, "its files were gone when it was started again")
			}
			if err != nil {
				return fmt.Errorf("workspace %s: %w", l.name, err)
			}
		}
		if err := f.bring(ctx, sb, l.place, l.target); err != nil {
			return fmt.Errorf("workspace %s at %s: %w", l.name, l.target, err)
		}
	}
	return err
}

// furnishBox brings into a new sandbox what its driver does not mount.
func (f *Fleet) furnishBox(ctx context.Context, sb atoll.Sandbox, r *row, ft *atoll.Features) error {
	if !carries(ft) {
		return nil
	}
	for _, m := range r.bring {
		if err := f.bringDir(ctx, sb, m); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	if len(r.cfg.Workspaces) == 0 {
		return nil
	}
	return f.carryIn(ctx, sb, r.id)
}

// bringDir copies a directory of this host into a sandbox.
func (f *Fleet) bringDir(ctx context.Context, sb atoll.Sandbox, m atoll.Mount) error {
	root, err := os.OpenRoot(m.Source)
	if err != nil {
		return err
	}
	return errors.Join(copyIn(ctx, sb, m.Target, &Files{root: root}), root.Close())
}

// lostAndFound is made by file systems, and belongs to them.
const lostAndFound = "lost+found"

// contentOf lists a directory of a sandbox; one that is not there has none.
func contentOf(ctx context.Context, sb atoll.Sandbox, dir string) ([]string, error) {
	infos, err := atoll.ReadDir(ctx, sb, dir)
	var list []string
	for _, i := range infos {
		if i.Name() != lostAndFound {
			list = append(list, i.Name())
		}
	}
	return list, ignore(err, atoll.ErrNotFound)
}

// bring copies the files of a workspace into a directory of a sandbox, whose own
// go.
func (f *Fleet) bring(ctx context.Context, sb atoll.Sandbox, p place, target string) error {
	if _, err := f.reach(ctx, p); err != nil {
		return err
	}
	root, err := f.shelf.open(p)
	if err != nil {
		return err
	}
	files := &Files{a: f.For(Caller{Owner: p.owner, Scopes: []atoll.Scope{atoll.ScopeRead}}), p: p, root: root, marked: f.now()}
	return errors.Join(copyIn(ctx, sb, target, files), root.Close())
}

// copyIn makes a directory of a sandbox hold the same as a directory of this host.
func copyIn(ctx context.Context, sb atoll.Sandbox, target string, files *Files) error {
	old, err := contentOf(ctx, sb, target)
	if err != nil {
		return err
	}
	for _, n := range old {
		if err := ignore(atoll.Remove(ctx, sb, path.Join(target, n)), atoll.ErrNotFound); err != nil {
			return err
		}
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := files.packContent(ctx, w)
		_ = w.CloseWithError(err) // never fails
		packed <- err
	}()
	err = sb.Import(ctx, target, r)
	_ = r.CloseWithError(io.ErrClosedPipe) // never fails
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return fileReason(target, perr) // what the import failed for
	}
	return err
}

// finish brings home what a sandbox has of workspaces, and removes what its
// driver has of it.
func (f *Fleet) finish(ctx context.Context, b *box) error {
	if err := f.carryHome(ctx, b, atHome); err != nil {
		return err
	}
	return f.razeKeeping(ctx, b)
}

// carryHome brings home what a sandbox works on. It works on it no more if to is
// atHome. What a sandbox that has died had and the shelf has not is lost; an event
// says so.
func (f *Fleet) carryHome(ctx context.Context, b *box, to carriage) error {
	if len(b.known().cfg.Workspaces) == 0 {
		return nil
	}
	list, err := loads(ctx, f.store.db, b.id)
	if err != nil {
		return err
	}
	var sb atoll.Sandbox
	var errs []error
	for i := range list {
		l := &list[i]
		if l.carriage != away {
			continue
		}
		if sb == nil {
			if sb, err = b.inner(ctx); err != nil && !errors.Is(err, atoll.ErrNotFound) {
				return err
			}
		}
		if err == nil {
			err = f.fetch(ctx, b, sb, l, to)
		}
		if err != nil {
			err = f.unfetched(ctx, b, sb, l, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unfetched decides what it means that files could not be brought home: nil if
// they never will be.
func (f *Fleet) unfetched(ctx context.Context, b *box, sb atoll.Sandbox, l *load, why error) error {
	if sb == nil && errors.Is(why, atoll.ErrNotFound) || sb != nil && dead(ctx, sb) {
		return f.outdated(ctx, b.id, l, "it ended before its files were brought home")
	}
	if errors.Is(why, atoll.ErrNotFound) {
		return f.outdated(ctx, b.id, l, "it has removed "+l.target)
	}
	why = fmt.Errorf("workspace %s at %s: %w", l.name, l.target, why)
	now, most := f.now(), patience
	if errors.Is(why, atoll.ErrQuota) || errors.Is(why, atoll.ErrInvalid) {
		most = patienceWrong
	}
	if !l.failing.IsZero() && now.Sub(l.failing) > most && !errors.Is(why, atoll.ErrUnavailable) {
		return f.outdated(ctx, b.id, l, "its files could not be brought home for "+most.String()+": "+oneLine(why))
	}
	if l.failing.IsZero() {
		err := f.store.write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "update mounts set failing = ? where sandbox = ? and target = ?", stamp(now), b.id, l.target)
			return err
		})
		why = errors.Join(why, err)
	}
	return why
}

// dead reports whether a sandbox is no more, as its driver says.
func dead(ctx context.Context, sb atoll.Sandbox) bool {
	st, err := sb.Status(ctx)
	return errors.Is(err, atoll.ErrNotFound) || err == nil && st.State != atoll.Running && st.State != atoll.Paused
}

// outdated notes that what a sandbox had changed in a workspace since a while is
// lost.
func (f *Fleet) outdated(ctx context.Context, sandbox string, l *load, why string) error {
	f.log.Warn("changes of a workspace are lost", "workspace", l.name, "sandbox", sandbox, "since", l.moved)
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update mounts set carried = ?, failing = 0 where sandbox = ? and target = ? and carried = ?", atHome, sandbox, l.target, away)
		if err != nil {
			return err
		}
		return f.emit(ctx, tx, atoll.Event{
			Time: f.now(), Type: "workspace.outdated", Owner: l.owner, Object: l.name, Name: l.name,
			Message: fmt.Sprintf("sandbox %s: %s; it is as it was at %s", sandbox, why, l.moved.Format(time.RFC3339)),
			Data:    map[string]string{"sandbox": sandbox, "target": l.target},
		})
	})
}

// fetch copies what a sandbox has of a workspace home, whole or not at all.
func (f *Fleet) fetch(ctx context.Context, b *box, sb atoll.Sandbox, l *load, to carriage) error {
	ctx, cancel := transferTime(ctx, b.known().cfg.Timeouts)
	defer cancel()
	m, err := f.meter(ctx, l.place)
	if err != nil {
		return err
	}
	defer m.end()
	held, err := f.shelf.size(ctx, l.place)
	if err != nil {
		return err
	}
	m.credit(held.bytes) // all that is there will be replaced
	d, err := f.shelf.newDesk(newDir)
	if err != nil {
		return err
	}
	defer f.tidy(ctx, d)
	if err := takeDown(ctx, sb, l.target, d, m); err != nil {
		return err
	}
	if err := f.install(ctx, b.id, l, d, to); err != nil {
		return err
	}
	m.keep()
	return nil
}

// transferTime bounds a transfer by the time that a configuration has for one.
func transferTime(ctx context.Context, t atoll.Timeouts) (context.Context, context.CancelFunc) {
	d := t.Transfer
	if d == 0 {
		d = atoll.DefaultTransferTimeout
	}
	if d < 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%w after %v", atoll.ErrTimeout, d))
}

// takeDown unpacks what a sandbox has at a path onto a desk, all of it on disk.
func takeDown(ctx context.Context, sb atoll.Sandbox, target string, d *desk, m *meter) (err error) {
	u, err := newUnpacking(d, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.root.Close()) }()
	u.edit = beneathOf(path.Base(target))
	rc, err := sb.Export(ctx, target)
	if err != nil {
		return err
	}
	if err := errors.Join(u.unpack(rc), rc.Close()); err != nil {
		return fileReason(target, err)
	}
	p := placing{unpacking: u, to: u.root, top: true}
	if err := p.finish(); err != nil {
		return err
	}
	return syncTree(u.root)
}

// install puts what is on a desk in the place of a workspace. Others see the old
// or the new; a process that dies in between leaves the old to be put back.
func (f *Fleet) install(ctx context.Context, sandbox string, l *load, d *desk, to carriage) error {
	var old *desk
	err := f.store.write(ctx, func(tx *sql.Tx) error {
		if _, err := lookUp(ctx, tx, l.place); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "update mounts set carried = ?, moved = ?, failing = 0 where sandbox = ? and target = ?", to, stamp(f.now()), sandbox, l.target)
		if err == nil {
			err = f.markUsedIn(ctx, tx, l.place)
		}
		if err != nil {
			return err
		}
		old, err = f.shelf.replace(l.place, d) // last: only a commit that fails comes after, and then it is done again
		return err
	})
	if old != nil {
		f.tidy(ctx, old)
	}
	return err
}

// replace puts the directory "tree" of a desk in the place of a workspace, which
// it returns on a desk.
func (s *shelf) replace(p place, d *desk) (*desk, error) {
	if err := s.asWorkspace(path.Join(d.name, "tree")); err != nil {
		return nil, err
	}
	old, err := s.setAside(p)
	if err != nil {
		return nil, err
	}
	if err := s.root.Rename(path.Join(d.name, "tree"), p.path()); err != nil {
		return nil, errors.Join(err, old.putBack(p), old.leave())
	}
	return old, nil
}

// asWorkspace gives a directory the mode that those of workspaces have; see make.
func (s *shelf) asWorkspace(name string) error {
	if os.Geteuid() != 0 {
		return s.root.Chmod(name, 0o700)
	}
	return s.root.Chmod(name, 0o777)
}

// beneathOf returns what makes the entries of an exported directory those of what
// is in it. Devices are left out.
func beneathOf(base string) func(h *tar.Header) (bool, error) {
	strip := func(name string) (string, error) {
		rest, ok := strings.CutPrefix(name, base)
		if rest == "" || rest == "/" {
			rest = "/."
		}
		if !ok || rest[0] != '/' {
			return "", refuse(name, "it is not beneath "+base)
		}
		return rest[1:], nil
	}
	return func(h *tar.Header) (drop bool, err error) {
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			return true, nil
		}
		if h.Name, err = strip(h.Name); err == nil && h.Typeflag == tar.TypeLink {
			h.Linkname, err = strip(h.Linkname)
		}
		return false, err
	}
}

// Save brings home what the sandbox works on of workspaces that are carried; it
// works on.
func (s *Sandbox) Save(ctx context.Context) error {
	const op = "save"
	if err := s.need(op, atoll.ScopeRun); err != nil {
		return err
	}
	noted := s.audited(op, "")
	err := s.f.bringHome(ctx, s.b)
	noted(err)
	return s.fail(op, err)
}

func (f *Fleet) bringHome(ctx context.Context, b *box) error {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	release, err := b.take(ctx) // it is not stopped or destroyed meanwhile
	if err != nil {
		return err
	}
	defer release()
	r, err := f.loadRow(ctx, b.id)
	if err == nil && (r.state != atoll.Running || r.goal != "") {
		err = fmt.Errorf("%w: it is %s; what it had is brought home when it is stopped or destroyed", atoll.ErrState, r.state)
	}
	if err != nil {
		return err
	}
	return f.carryHome(ctx, b, away)
}
