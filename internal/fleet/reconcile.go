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

// errDied is why a sandbox has to be settled that nobody failed to move.
var errDied = fmt.Errorf("%w: the process that was moving it died", atoll.ErrUnavailable)

// The reasons that reconciliation gives.
const (
	reasonVanished = "vanished" // its driver does not have it any more
	reasonDied     = "died"     // with the process that it lived in
	reasonUnclear  = "unclear"  // its driver can't say how it is
)

// settle brings a row whose move has failed to what is true: half made and half
// destroyed ones go, of others the driver says how they are. The caller has the
// turn.
func (f *Fleet) settle(ctx context.Context, id string, failure error) (row, error) {
	r, err := f.settleNow(ctx, id, failure)
	if f.store.shared != nil && errors.Is(err, atoll.ErrUnavailable) {
		f.store.shared.troubled.Store(true) // it is tried again when the registry is heard
	}
	return r, err
}

func (f *Fleet) settleNow(ctx context.Context, id string, failure error) (row, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endurance)
	defer cancel()
	r, err := f.loadRow(ctx, id)
	if err != nil || r.state == atoll.Destroyed {
		return r, err
	}
	if r.holder != "" && r.holder != f.instance.id {
		if alive, err := f.instance.alive(r.holder); alive || err != nil {
			return r, errors.Join(errHeld, err)
		}
	}
	b := f.enter(r)
	if b.bay == nil {
		return r, fmt.Errorf("%w: driver %q is not set up", errNotHere, r.driver)
	}
	if r.goal == goalCreate || r.goal == goalDestroy {
		err := f.finish(ctx, b)
		if errors.Is(err, errNotHere) {
			return r, err
		}
		return f.change(ctx, id, func(tx *sql.Tx, r *row) error {
			r.holder = ""
			if err != nil {
				r.goal = goalDestroy
				return f.stuck(ctx, tx, r, err)
			}
			if r.goal == goalCreate {
				r.reason, r.message = goalCreate, r.explain(failure)
			}
			r.goal, r.host = "", ""
			return f.gone(ctx, tx, r)
		})
	}
	to, reason, message, err := f.truth(ctx, b, failure)
	if err != nil {
		return r, err
	}
	return f.change(ctx, id, func(tx *sql.Tx, r *row) error {
		if r.state == atoll.Destroyed {
			return nil
		}
		r.holder, r.goal = "", ""
		r.reason, r.message = reason, message
		if to != atoll.Running {
			if err := f.unloaded(ctx, tx, r); err != nil {
				return err
			}
		}
		if r.state == to {
			return f.save(ctx, tx, r)
		}
		return f.discover(ctx, tx, r, to)
	})
}

// truth is what the driver says of a sandbox: the state, and for a failed one
// the reason.
func (f *Fleet) truth(ctx context.Context, b *box, failure error) (to atoll.State, reason, message string, err error) {
	b.hold(nil) // ask again
	sb, err := b.inner(ctx)
	var st atoll.Status
	if err == nil {
		st, err = sb.Status(ctx)
	}
	switch {
	case errors.Is(err, errNotHere):
		return "", "", "", err
	case errors.Is(err, atoll.ErrNotFound):
		return atoll.Failed, reasonVanished, "driver " + b.known().driver + " does not have it any more", nil
	case err != nil:
		r := b.known()
		return atoll.Failed, reasonUnclear, r.explain(errors.Join(failure, err)), nil
	}
	to, reason, message = truthOf(st)
	return to, reason, message, nil
}

// truthOf reads a driver's status.
func truthOf(st atoll.Status) (to atoll.State, reason, message string) {
	switch st.State {
	case atoll.Running, atoll.Paused, atoll.Stopped:
		return st.State, "", ""
	}
	reason, message = reasonUnclear, "its driver says that it is "+string(st.State)
	for _, c := range st.Conditions {
		if c.Type == "ready" && c.Message != "" {
			message = c.Message
		}
	}
	return atoll.Failed, reason, message
}

// settleRow is settle for a row that nobody may be moving.
func (f *Fleet) settleRow(ctx context.Context, r row, failure error) error {
	b := f.enter(r)
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	now, err := f.loadRow(ctx, r.id)
	if err != nil || now.turn != r.turn {
		return ignore(err, atoll.ErrNotFound) // somebody else has
	}
	_, err = f.settle(ctx, r.id, failure)
	return err
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// settleDead settles what processes that died have left half done, and
// destroys or gives up what lived in them.
func (f *Fleet) settleDead(ctx context.Context) error {
	dead, err := f.instance.dead()
	for _, d := range dead {
		if e := errors.Join(f.settleOf(ctx, d.id), f.destroyLone(ctx, d.id)); e != nil {
			err = errors.Join(err, e, d.keep())
			continue
		}
		err = errors.Join(err, d.bury())
	}
	return err
}

// settleOf settles what one instance has left.
func (f *Fleet) settleOf(ctx context.Context, id string) error {
	rows, err := allRows(ctx, f.store.db, "(holder = ? or host = ?) and state <> 'destroyed'", id, id)
	if err != nil {
		return err
	}
	half := make(map[*bay]bool) // who may have a part of what was being made or removed
	for _, r := range rows {
		b := f.bay(r.driver)
		if b == nil {
			continue // whoever has this driver will
		}
		if r.holder == id {
			err = errors.Join(err, f.settleRow(ctx, r, errDied))
			half[b] = half[b] || r.goal == goalCreate || r.goal == goalDestroy
		}
		if r.host == id {
			err = errors.Join(err, f.outlived(ctx, r.id))
		}
	}
	for b, yes := range half {
		if yes {
			f.report("sweep", b.sweep(ctx))
		}
	}
	return err
}

// sweep has a driver remove what a process that died has half made or half removed:
// it does so when it lists what is whole.
func (b *bay) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	_, err := b.driver.List(ctx)
	return err
}

// settleStrays settles what is left of instances that have no file any more.
func (f *Fleet) settleStrays(ctx context.Context) error {
	rows, err := allRows(ctx, f.store.db, "(holder <> '' or host <> '') and state <> 'destroyed'")
	if err != nil {
		return err
	}
	dead := make(map[string]bool)
	for _, r := range rows {
		for _, id := range []string{r.holder, r.host} {
			if id == "" || dead[id] {
				continue
			}
			alive, err := f.instance.alive(id)
			if err != nil {
				return err
			}
			dead[id] = !alive
		}
	}
	for id, yes := range dead {
		if yes {
			err = errors.Join(err, f.settleOf(ctx, id))
		}
	}
	return err
}

// outlived ends a sandbox whose host, the process that it lived in or for, is
// no more.
func (f *Fleet) outlived(ctx context.Context, id string) error {
	r, err := f.loadRow(ctx, id)
	if err != nil || r.state == atoll.Destroyed {
		return err
	}
	if r.cfg.Lifecycle.Policy == atoll.PolicyOneshot || r.pool != "" || r.host == f.instance.id {
		return f.expire(ctx, r, "the process that it was made for has ended")
	}
	_, err = f.change(ctx, id, func(tx *sql.Tx, now *row) error {
		if now.turn != r.turn {
			return nil
		}
		now.host, now.reason, now.message = "", reasonDied, "it was kept in the memory of a process that has ended"
		if now.state == atoll.Failed {
			return f.save(ctx, tx, now)
		}
		return f.discover(ctx, tx, now, atoll.Failed)
	})
	return err
}

// expire destroys a sandbox in the fleet's own name.
func (f *Fleet) expire(ctx context.Context, r row, why string) error {
	b := f.enter(r)
	release, err := b.take(ctx)
	if err != nil {
		return err
	}
	defer release()
	return f.demolish(ctx, b, why)
}

// retire settles what this process leaves behind when it closes: what lives in
// its memory, or was made for it, ends with it.
func (f *Fleet) retire(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endurance)
	defer cancel()
	err := f.writeBack(ctx, true)
	return errors.Join(err, f.settleOf(ctx, f.instance.id))
}

// Reconcile compares the registry with what the drivers say really exists, and
// makes it true: it adopts what it did not know, removes what was destroyed,
// and marks what has vanished. A driver that can't be asked changes nothing.
func (f *Fleet) Reconcile(ctx context.Context) error {
	ctx, leave, err := f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	errs := []error{f.settleDead(ctx), f.settleStrays(ctx)}
	for _, b := range f.bays {
		errs = append(errs, f.survey(ctx, b))
	}
	return errors.Join(errs...)
}

// surveyTime is how long a driver may take to say what exists: one that waits
// for an engine that is no more must not keep all others waiting.
const surveyTime = 10 * time.Second

// survey compares the registry with what one driver says really exists.
func (f *Fleet) survey(ctx context.Context, b *bay) error {
	asking, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	if _, err := b.probe(asking); err != nil {
		f.log.Warn("driver can't work here", "driver", b.driver.Name(), "err", err)
		return nil
	}
	lone, err := f.lone(b.driver.Name()) // those that end meanwhile
	if err != nil {
		return err
	}
	there, err := b.driver.List(asking)
	if err != nil {
		f.log.Warn("driver can't say what exists", "driver", b.driver.Name(), "err", err)
		return nil
	}
	more, err := f.lone(b.driver.Name()) // and those that began
	if err != nil {
		return err
	}
	there = slices.DeleteFunc(there, func(st atoll.Status) bool { return lone[st.ID] || more[st.ID] })
	return f.compare(ctx, b, there)
}

// compare makes the registry agree with the list of one driver, which is older
// than what the registry says now.
func (f *Fleet) compare(ctx context.Context, b *bay, there []atoll.Status) error {
	rows, err := allRows(ctx, f.store.db, "driver = ?", b.driver.Name())
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
			errs = append(errs, f.adopt(ctx, b, st))
		case r.state == atoll.Destroyed:
			errs = append(errs, f.remove(ctx, b, st.ID))
		case r.goal == goalDestroy && r.holder == "":
			errs = append(errs, f.expire(ctx, r, ""))
		case r.holder == "" && r.host == "":
			if to, _, _ := truthOf(st); to != r.state {
				errs = append(errs, f.settleRow(ctx, r, nil))
			}
		}
	}
	for _, r := range rows {
		if !listed[r.id] && r.state != atoll.Destroyed && r.holder == "" && r.host == "" {
			errs = append(errs, f.lost(ctx, r))
		}
	}
	return errors.Join(errs...)
}

// lost looks after a sandbox that was not in its driver's list, which may be
// older than the sandbox.
func (f *Fleet) lost(ctx context.Context, r row) error {
	switch {
	case r.goal == goalDestroy:
		return f.expire(ctx, r, "")
	case r.state == atoll.Failed && r.reason == reasonVanished:
		return nil
	}
	return f.settleRow(ctx, r, nil)
}

// remove destroys what a driver has of a sandbox that the registry knows as
// destroyed.
func (f *Fleet) remove(ctx context.Context, b *bay, id string) error {
	sb, err := b.driver.Open(ctx, id)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if err = ignore(err, atoll.ErrNotFound); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	f.log.Info("sandbox removed that was destroyed before", "id", id)
	return nil
}

// adopt takes in a sandbox that the registry did not know, for those who work
// on this machine. Its name is kept if it is free.
func (f *Fleet) adopt(ctx context.Context, b *bay, st atoll.Status) error {
	state, reason, message := truthOf(st)
	now := f.now()
	r := row{
		id: st.ID, owner: atoll.Local, driver: b.driver.Name(), state: state, created: st.Created.UTC(), active: now, changed: now,
		reason: reason, message: message,
	}
	if st.Created.IsZero() {
		r.created = now
	}
	r.cfg.Driver, r.cfg.Labels = r.driver, st.Labels
	r.cfg.Lifecycle.Policy = atoll.PolicyPersistent // nobody said that it may go
	err := f.store.write(ctx, func(tx *sql.Tx) error {
		if _, err := oneRow(ctx, tx, "id = ?", r.id); !errors.Is(err, atoll.ErrNotFound) {
			return err // nil: another process was quicker
		}
		name, err := freeName(ctx, tx, r.owner, st.Name)
		if err != nil {
			return err
		}
		r.name, r.cfg.Name = name, name
		if err := f.insert(ctx, tx, &r); err != nil {
			return err
		}
		return f.emit(ctx, tx, atoll.Event{Time: now, Type: "sandbox.adopted", Owner: r.owner, Object: r.id, Name: r.name})
	})
	if err != nil {
		return fmt.Errorf("adopt %s: %w", st.ID, err)
	}
	f.log.Info("sandbox adopted", "id", st.ID, "driver", r.driver)
	return nil
}

// freeName returns the name, or name-2, name-3… that no sandbox of the owner
// has.
func freeName(ctx context.Context, tx *sql.Tx, o atoll.Owner, name string) (string, error) {
	if name == "" || atoll.CheckName(name) != nil {
		return "", nil
	}
	rows, err := allRows(ctx, tx, "app = ? and user = ? and state <> 'destroyed' and pool = '' and name <> ''", o.App, o.User)
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

// explain is an error's text as the registry keeps it, with no secrets of the
// sandbox.
func (r *row) explain(err error) string { return redactor(r.cfg)(oneLine(err)) }

// oneLine is an error's text on one line, of bounded length.
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
