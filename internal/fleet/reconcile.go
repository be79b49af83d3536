package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// errDied is the failure of a state change whose process died.
var errDied = fmt.Errorf("%w: the process that was changing it died", atoll.ErrUnavailable)

// maxLooks is how often a sandbox is looked at that others change at the same time.
const maxLooks = 10

// errChanged is the error of a look at a sandbox that is older than its row.
var errChanged = fmt.Errorf("%w: it was changed meanwhile", atoll.ErrUnavailable)

// The reasons recorded by reconciliation.
const (
	reasonVanished = "vanished" // the driver does not have it any more
	reasonDied     = "died"     // with the process whose memory it lived in
	reasonUnclear  = "unclear"  // the driver fails to report its state
)

// reconcileHeld updates a row after a failed state change: half created and half destroyed
// sandboxes are removed, others get the state that the driver reports. The caller holds the turn.
func (f *Fleet) reconcileHeld(ctx context.Context, id string, failure error) (row, error) {
	r, err := f.reconcileNow(ctx, id, failure)
	for looks := 1; errors.Is(err, errChanged) && looks < maxLooks; looks++ {
		r, err = f.reconcileNow(ctx, id, failure)
	}
	if f.registry.Postgres != nil && errors.Is(err, atoll.ErrUnavailable) {
		f.registry.Postgres.MarkTroubled() // reconcileOwn tries again when the registry answers
	}
	return r, err
}

func (f *Fleet) reconcileNow(ctx context.Context, id string, failure error) (row, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundTimeout)
	defer cancel()
	r, err := f.loadRow(ctx, id)
	if err != nil || r.state == atoll.Destroyed {
		return r, err
	}
	if r.holder != "" && r.holder != f.member.ID() {
		alive, err := f.member.IsAlive(r.holder)
		if err != nil {
			return r, err
		}
		if alive {
			return r, errHeld
		}
	}
	seen := r
	b := f.ensureHandle(r)
	if b.driver == nil {
		return r, fmt.Errorf("%w: driver %q is not set up", errNotHere, r.driver)
	}
	if r.goal == goalCreate || r.goal == goalDestroy {
		err := f.saveAndDestroyInner(ctx, b)
		if errors.Is(err, errNotHere) {
			return r, err
		}
		return f.changeRow(ctx, id, func(tx *sql.Tx, r *row) error {
			r.holder = ""
			if err != nil {
				r.goal = goalDestroy
				return f.recordFailure(ctx, tx, r, err)
			}
			if r.goal == goalCreate {
				r.reason, r.message = goalCreate, f.errorText(r, failure)
			}
			r.goal, r.process = "", ""
			return f.recordGone(ctx, tx, r)
		})
	}
	if r.state == atoll.Archived || r.goal == goalRestore {
		return f.reconcileArchive(ctx, b, r, failure)
	}
	to, reason, message, err := f.observeState(ctx, b)
	if errors.Is(err, errNotHere) {
		return r, err
	}
	if err != nil {
		now := b.cachedRow()
		to, reason, message = atoll.Failed, reasonUnclear, f.errorText(&now, errors.Join(failure, err))
	}
	return f.changeRow(ctx, id, func(tx *sql.Tx, r *row) error {
		if r.state == atoll.Destroyed {
			return nil
		}
		if r.revision != seen.revision && seen.holder != f.member.ID() {
			return errChanged // another process may have begun to change it, or be done
		}
		if r.goal == goalArchive {
			if err := dropObjects(ctx, tx, r.id, objectWriting); err != nil {
				return err
			}
			if to == atoll.Stopped {
				reason, message = goalArchive, f.errorText(r, failure)
			}
		}
		r.holder, r.goal = "", ""
		r.reason, r.message = reason, message
		if to != atoll.Running {
			if err := f.recordNotCopied(ctx, tx, r); err != nil {
				return err
			}
		}
		if r.state == to {
			return f.saveRow(ctx, tx, r)
		}
		return f.recordObserved(ctx, tx, r, to)
	})
}

// observeState returns the state that the driver reports, and for a failed sandbox the reason. An error
// means that the driver fails to report it.
func (f *Fleet) observeState(ctx context.Context, b *handle) (to atoll.State, reason, message string, err error) {
	b.setInner(nil) // open it again
	sb, err := b.openInner(ctx)
	var st atoll.Status
	if err == nil {
		st, err = settledStatus(ctx, sb)
	}
	switch {
	case errors.Is(err, atoll.ErrNotFound) && !errors.Is(err, errNotHere):
		return atoll.Failed, reasonVanished, "driver " + b.cachedRow().driver + " does not have it any more", nil
	case err != nil:
		return "", "", "", err
	}
	to, reason, message = stateFromStatus(st)
	return to, reason, message, nil
}

// Times that a sandbox which another process is starting, as its driver reports, has for it.
const (
	settlePatience = 90 * time.Second
	settleWait     = 200 * time.Millisecond // between two looks
)

// settledStatus returns the status of a sandbox once it is not starting: another process of this fleet may be recovering from an
// interrupted act. One that does not end in time keeps that state.
func settledStatus(ctx context.Context, sb atoll.Sandbox) (atoll.Status, error) {
	for begun := time.Now(); ; {
		st, err := sb.Status(ctx)
		if err != nil || st.State != atoll.Starting || time.Since(begun) > settlePatience {
			return st, err
		}
		t := time.NewTimer(settleWait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return st, nil
		}
	}
}

// stateFromStatus returns the state that a driver's status means.
func stateFromStatus(st atoll.Status) (to atoll.State, reason, message string) {
	switch st.State {
	case atoll.Running, atoll.Paused, atoll.Stopped:
		return st.State, "", ""
	}
	reason, message = reasonUnclear, "its driver reports it as "+string(st.State)
	for _, c := range st.Conditions {
		if c.Type == "ready" && c.Message != "" {
			message = c.Message
		}
	}
	return atoll.Failed, reason, message
}

// reconcileRow is reconcileHeld for a row whose turn it acquires first. A row that has changed
// meanwhile, or that another process is changing, is left alone.
func (f *Fleet) reconcileRow(ctx context.Context, r row, failure error) error {
	b := f.ensureHandle(r)
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	now, err := f.loadRow(ctx, r.id)
	if err != nil || now.revision != r.revision {
		return ignoreError(err, atoll.ErrNotFound) // it was changed meanwhile
	}
	_, err = f.reconcileHeld(ctx, r.id, failure)
	return ignoreError(err, errHeld)
}

func ignoreError(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// reconcileDead reconciles what processes that died have left half done, and ends the sandboxes
// that lived in them.
func (f *Fleet) reconcileDead(ctx context.Context) error {
	dead, err := f.member.DeadMembers()
	for _, d := range dead {
		if e := errors.Join(f.reconcileInstance(ctx, d.ID), f.destroyStandalone(ctx, d.ID)); e != nil {
			err = errors.Join(err, e, d.Release())
			continue
		}
		err = errors.Join(err, d.Forget())
	}
	return err
}

// reconcileInstance reconciles the sandboxes that a process was changing or that lived in it.
func (f *Fleet) reconcileInstance(ctx context.Context, id string) error {
	rows, err := f.queryRows(ctx, f.registry.DB, "(holder = ? or host = ?) and state <> 'destroyed'", id, id)
	if err != nil {
		return err
	}
	half := make(map[*driverState]bool) // drivers that may have half created or half removed sandboxes
	for _, r := range rows {
		b := f.findDriver(r.driver)
		if b == nil {
			continue // left to a process with this driver
		}
		if r.holder == id {
			err = errors.Join(err, f.reconcileRow(ctx, r, errDied))
			half[b] = half[b] || r.goal == goalCreate || r.goal == goalDestroy
		}
		if r.process == id {
			err = errors.Join(err, f.endWithProcess(ctx, r.id))
		}
	}
	for b, yes := range half {
		if yes {
			f.logError("sweep", b.triggerCleanup(ctx))
		}
	}
	return err
}

// triggerCleanup lists a driver's sandboxes, which makes it remove half created and half removed
// ones.
func (b *driverState) triggerCleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, driverListTimeout)
	defer cancel()
	_, err := b.impl.List(ctx)
	return err
}

// reconcileStrays reconciles the sandboxes of processes that are not known any more.
func (f *Fleet) reconcileStrays(ctx context.Context) error {
	rows, err := f.queryRows(ctx, f.registry.DB, "(holder <> '' or host <> '') and state <> 'destroyed'")
	if err != nil {
		return err
	}
	dead := make(map[string]bool)
	for _, r := range rows {
		for _, id := range []string{r.holder, r.process} {
			if id == "" || dead[id] {
				continue
			}
			alive, err := f.member.IsAlive(id)
			if err != nil {
				return err
			}
			dead[id] = !alive
		}
	}
	for id, yes := range dead {
		if yes {
			err = errors.Join(err, f.reconcileInstance(ctx, id))
		}
	}
	return err
}

// endWithProcess ends a sandbox that lived in, or was created for, a process that has ended.
func (f *Fleet) endWithProcess(ctx context.Context, id string) error {
	r, err := f.loadRow(ctx, id)
	if err != nil || r.state == atoll.Destroyed {
		return err
	}
	if r.cfg.Lifecycle.Policy == atoll.PolicyOneshot || r.pool != "" || r.process == f.member.ID() {
		return f.expireSandbox(ctx, r, "the process that it was created for has ended", nil)
	}
	_, err = f.changeRow(ctx, id, func(tx *sql.Tx, now *row) error {
		if now.revision != r.revision {
			return nil
		}
		now.process, now.reason, now.message = "", reasonDied, "it lived in the memory of a process that has ended"
		if now.state == atoll.Failed {
			return f.saveRow(ctx, tx, now)
		}
		return f.recordObserved(ctx, tx, now, atoll.Failed)
	})
	return err
}

// expireSandbox destroys a sandbox as the fleet. Once it has the turn, check may refuse; nil: nothing is checked.
func (f *Fleet) expireSandbox(ctx context.Context, r row, why string, check func(*row) error) error {
	b := f.ensureHandle(r)
	release, err := b.acquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.destroyHeldWith(ctx, b, why, check, nil)
}

// reconcileClosing records the last uses and ends the sandboxes that live in this process or were
// created for it.
func (f *Fleet) reconcileClosing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	err := f.saveUses(ctx, true)
	return errors.Join(err, f.reconcileInstance(ctx, f.member.ID()))
}

// Reconcile makes the registry agree with the sandboxes that really exist: it adopts unknown ones,
// removes destroyed ones, and marks those that have vanished. A driver that fails to list its
// sandboxes changes nothing.
func (f *Fleet) Reconcile(ctx context.Context) error {
	ctx, leave, err := f.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer leave()
	errs := []error{f.reconcileDead(ctx), f.reconcileStrays(ctx)}
	for _, b := range f.drivers {
		errs = append(errs, f.reconcileDriver(ctx, b))
	}
	return errors.Join(errs...)
}

// driverListTimeout bounds the listing of one driver: one that waits for a dead engine must not
// delay the others.
const driverListTimeout = 10 * time.Second

// reportFailedProbe logs once that a driver does not work. Only that of the default driver is a
// warning: most machines lack what some other driver needs.
func (f *Fleet) reportFailedProbe(b *driverState, err error) {
	b.mu.Lock()
	reported := b.reported
	b.reported = true
	b.mu.Unlock()
	report := f.log.Debug
	if b.impl.Name() == f.opts.Default {
		report = f.log.Warn
	}
	if !reported {
		report("driver does not work here", "driver", b.impl.Name(), "err", err)
	}
}

// reconcileDriver reconciles the registry with the list of one driver.
func (f *Fleet) reconcileDriver(ctx context.Context, b *driverState) error {
	asking, cancel := context.WithTimeout(ctx, driverListTimeout)
	defer cancel()
	if _, err := b.probe(asking); err != nil {
		f.reportFailedProbe(b, err)
		return nil
	}
	standalone, err := f.standaloneIDs(b.impl.Name()) // including those that end during the listing
	if err != nil {
		return err
	}
	there, isMissing, err := b.list(asking)
	if err != nil {
		f.log.Warn("driver failed to list its sandboxes", "driver", b.impl.Name(), "err", err)
	}
	more, err := f.standaloneIDs(b.impl.Name()) // and those created during it
	if err != nil {
		return err
	}
	there = slices.DeleteFunc(there, func(st atoll.Status) bool { return standalone[st.ID] || more[st.ID] })
	return f.reconcileWithList(ctx, b, there, isMissing)
}

// reconcileWithList reconciles the registry with the list of one driver. The list may be older
// than the rows, and lacks the sandboxes of owners for whom isMissing returns true.
func (f *Fleet) reconcileWithList(ctx context.Context, b *driverState, there []atoll.Status, isMissing func(atoll.Owner) bool) error {
	rows, err := f.queryRows(ctx, f.registry.DB, "driver = ?", b.impl.Name())
	if err != nil {
		return err
	}
	known := make(map[string]row, len(rows))
	for _, r := range rows {
		known[r.id] = r
	}
	var errs []error
	listed := make(map[string]bool, len(there))
	for _, st := range there {
		listed[st.ID] = true
		r, ok := known[st.ID]
		switch {
		case !ok:
			errs = append(errs, f.adoptSandbox(ctx, b, st))
		case r.state == atoll.Destroyed:
			errs = append(errs, f.removeLeftover(ctx, b, st.ID))
		case r.goal == goalDestroy && r.holder == "":
			errs = append(errs, f.expireSandbox(ctx, r, "", nil))
		case r.holder == "" && r.process == "":
			if to, _, _ := stateFromStatus(st); to != r.state {
				errs = append(errs, f.reconcileRow(ctx, r, nil))
			}
		}
	}
	for _, r := range rows {
		if !listed[r.id] && !isMissing(r.owner) && r.state != atoll.Destroyed && r.holder == "" && r.process == "" {
			errs = append(errs, f.reconcileUnlisted(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// reconcileUnlisted reconciles a sandbox that the driver did not list. The list may be older than
// the sandbox.
func (f *Fleet) reconcileUnlisted(ctx context.Context, r row) error {
	switch {
	case r.goal == goalDestroy:
		return f.expireSandbox(ctx, r, "", nil)
	case r.state == atoll.Failed && r.reason == reasonVanished, r.state == atoll.Archived && r.goal == "":
		return nil
	}
	return f.reconcileRow(ctx, r, nil)
}

// removeLeftover destroys a sandbox that the registry records as destroyed.
func (f *Fleet) removeLeftover(ctx context.Context, b *driverState, id string) error {
	sb, err := b.impl.Open(ctx, id)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if err = ignoreError(err, atoll.ErrNotFound); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	f.log.Info("leftover of a destroyed sandbox removed", "id", id)
	return nil
}

// adoptSandbox registers a sandbox that the registry did not know, for the local owner. It keeps
// its name if that is free.
func (f *Fleet) adoptSandbox(ctx context.Context, b *driverState, st atoll.Status) error {
	state, reason, message := stateFromStatus(st)
	now := f.now()
	r := row{
		id: st.ID, owner: atoll.Local, driver: b.impl.Name(), state: state, created: st.Created.UTC(), active: now, changed: now,
		reason: reason, message: message,
	}
	if st.Created.IsZero() {
		r.created = now
	}
	r.cfg.Driver, r.cfg.Labels = r.driver, st.Labels
	r.cfg.Lifecycle.Policy = atoll.PolicyPersistent // it was given no end
	err := f.registry.Write(ctx, func(tx *sql.Tx) error {
		if _, err := f.queryRow(ctx, tx, "id = ?", r.id); !errors.Is(err, atoll.ErrNotFound) {
			return err // nil: another process adopted it
		}
		name, err := f.uniqueName(ctx, tx, r.owner, st.Name)
		if err != nil {
			return err
		}
		r.name, r.cfg.Name = name, name
		if err := f.insertRow(ctx, tx, &r); err != nil {
			return err
		}
		return f.events.Emit(ctx, tx, atoll.Event{Time: now, Type: "sandbox.adopted", Owner: r.owner, Object: r.id, Name: r.name})
	})
	if err != nil {
		return fmt.Errorf("adopt %s: %w", st.ID, err)
	}
	f.log.Info("sandbox adopted", "id", st.ID, "driver", r.driver)
	return nil
}

// uniqueName returns name, or the first of name-2, name-3… that no sandbox of the owner has. A
// name that is not valid gives none.
func (f *Fleet) uniqueName(ctx context.Context, tx *sql.Tx, o atoll.Owner, name string) (string, error) {
	if name == "" || atoll.CheckName(name) != nil {
		return "", nil
	}
	rows, err := f.queryRows(ctx, tx, "app = ? and user = ? and state <> 'destroyed' and pool = '' and name <> ''", o.App, o.User)
	if err != nil {
		return "", err
	}
	taken := func(n string) bool { return slices.ContainsFunc(rows, func(r row) bool { return r.name == n }) }
	try := name
	for n := 2; taken(try); n++ {
		suffix := fmt.Sprintf("-%d", n)
		try = strings.TrimRight(name[:min(len(name), 63-len(suffix))], "-_.") + suffix
	}
	return try, nil
}

// errorText returns the text of an error for the registry, without the sandbox's secrets.
func (f *Fleet) errorText(r *row, err error) string { return f.fullMask(&r.cfg).redact(oneLine(err)) }

// oneLine returns the text of an error in one line of at most 1000 bytes.
func oneLine(err error) string {
	if err == nil {
		return ""
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 1000 {
		text = strings.ToValidUTF8(text[:1000], "") + "…"
	}
	return text
}

// errRegistryLost is the failure of a state change during which the registry was unavailable.
var errRegistryLost = fmt.Errorf("%w: the registry was unavailable during the change", atoll.ErrUnavailable)

// reconcileOwn reconciles the sandboxes that this process holds but is not changing: the registry
// was unavailable when the end of the change was to be recorded.
func (f *Fleet) reconcileOwn(ctx context.Context) error {
	rows, err := f.queryRows(ctx, f.registry.DB, "holder = ? and state <> 'destroyed'", f.member.ID())
	for _, r := range rows {
		b := f.ensureHandle(r)
		select {
		case b.turn <- struct{}{}:
		default:
			f.registry.Postgres.MarkTroubled() // being changed; try again later
			continue
		}
		now, e := f.loadRow(ctx, r.id)
		if e == nil && now.revision == r.revision {
			_, e = f.reconcileHeld(ctx, r.id, errRegistryLost)
		}
		<-b.turn
		err = errors.Join(err, ignoreError(e, atoll.ErrNotFound))
	}
	if errors.Is(err, atoll.ErrUnavailable) {
		f.registry.Postgres.MarkTroubled()
	}
	return err
}
