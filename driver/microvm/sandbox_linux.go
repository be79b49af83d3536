package microvm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/machine"
)

// Sandbox is a machine: a link to its guest, and a directory.
type Sandbox struct {
	*guest.Link

	d  *Driver
	id string
}

var (
	_ atoll.Sandbox        = (*Sandbox)(nil)
	_ atoll.DirFS          = (*Sandbox)(nil)
	_ atoll.Stopper        = (*Sandbox)(nil)
	_ atoll.Fresher        = (*Sandbox)(nil)
	_ atoll.DiskKeeper     = (*Sandbox)(nil)
	_ atoll.Pauser         = (*Sandbox)(nil)
	_ atoll.Snapshotter    = (*Sandbox)(nil)
	_ atoll.SnapshotKeeper = (*Sandbox)(nil)
	_ atoll.Forker         = (*Sandbox)(nil)
	_ atoll.Gated          = (*Sandbox)(nil)
	_ atoll.Meter          = (*Sandbox)(nil)
	_ atoll.Watcher        = (*Sandbox)(nil)
	_ atoll.Detacher       = (*Sandbox)(nil)
	_ atoll.Terminals      = (*Sandbox)(nil)
	_ atoll.Notifier       = (*Sandbox)(nil)
	_ atoll.Dialer         = (*Sandbox)(nil)
	_ atoll.Listener       = (*Sandbox)(nil)
)

func (d *Driver) sandbox(r *record) *Sandbox {
	s := &Sandbox{d: d, id: r.ID}
	spec := r.Spec
	if spec.Dir == "" {
		spec.Dir = atoll.DefaultDir
	}
	s.Link = &guest.Link{
		ID: r.ID, Spec: spec, Before: s.before, Counted: counted(), Options: guest.Options{Greeting: greetingTime, Watch: func(ctx context.Context) error { return d.watch(ctx, r.ID) }},
		Reach:   func(ctx context.Context) (net.Conn, error) { return d.reach(ctx, r.ID) },
		Explain: func(ctx context.Context, err error) error { return d.explain(ctx, r.ID, err) },
	}
	return s
}

// greetingTime is how long a guest may take to greet: an emulated one of many, on
// a busy host, took more than ten seconds.
const greetingTime = time.Minute

// counted are the directories whose files are a sandbox's own.
func counted() []string {
	return []string{"/tmp", "/var", "/home", "/root", "/srv", "/mnt", "/media", atoll.DefaultDir}
}

// before refuses operations on a sandbox that is gone or does not run.
func (s *Sandbox) before(op string) error {
	if (op == "watch" || op == "notices") && s.d.home().Changing(s.id) {
		return nil // they outlive a restore: reach waits for its end
	}
	r, err := s.d.load(s.id)
	if err != nil {
		return err
	}
	switch r.State {
	case atoll.Running:
		return nil
	case atoll.Paused:
		if op != "exec" && op != "detach" && op != "terminal" {
			return nil // the guest is awake
		}
		return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
	}
	return refusal(r)
}

// refusal says why the guest of a machine that does not run is not spoken to.
func refusal(r *record) error {
	if r.State == atoll.Stopped {
		return fmt.Errorf("%w: it is %s", atoll.ErrState, r.State)
	}
	return fmt.Errorf("%w: it is %s", atoll.ErrUnavailable, r.State)
}

// ID returns the sandbox's identifier.
func (s *Sandbox) ID() string { return s.id }

// fail says which operation an error is of.
func (s *Sandbox) fail(op string, err error) error {
	var e *atoll.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &atoll.Error{Op: op, ID: s.id, Err: quota(err)}
}

// Open finds a sandbox.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	r, err := d.load(id)
	if err == nil && r.State == atoll.Starting && r.Started.IsZero() {
		err = atoll.ErrNotFound // not yet, or never
	}
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return d.sandbox(r), nil
}

// halfMade tells of a record that its sandbox has never run.
func halfMade(r *record) bool { return r.State == atoll.Starting && r.Started.IsZero() }

// List returns the sandboxes that are there, and sweeps what processes that died
// have left of others.
func (d *Driver) List(context.Context) ([]atoll.Status, error) {
	var list []atoll.Status
	err := d.home().Each(halfMade, func(id string, r *record, err error) {
		if err != nil {
			list = append(list, d.broken(id, err))
			return
		}
		list = append(list, d.status(r))
	})
	if err != nil {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	_ = d.disks().Sweep() // the next List tries again
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// wall is the word for what is around a machine.
func wall(accel string) string {
	if accel == machine.KVM {
		return isolation
	}
	return emulated
}

// status tells what is true of a sandbox, without asking its machine.
func (d *Driver) status(r *record) atoll.Status {
	s := atoll.Status{
		ID: r.ID, Name: r.Spec.Name, Driver: d.Name(), State: r.State, Labels: r.Spec.Labels, Isolation: wall(r.Accel), Created: r.Created, Active: r.Created,
	}
	ready := atoll.Condition{Type: "ready", True: r.State == atoll.Running, Reason: string(r.State), Since: r.Started}
	switch r.State {
	case atoll.Running, atoll.Paused:
		m, err := d.machine(r.ID)
		if err == nil {
			_ = m.Close() // it was only asked for
		} else {
			s.State, ready = d.ended(r)
		}
	case atoll.Starting: // it has run before: a restart broke off, or goes on
		s.State = atoll.Failed
		ready.Message = "it is being started, or its start broke off: start it again"
	}
	s.Conditions = append([]atoll.Condition{ready}, conditions(r)...)
	return s
}

// ended tells why the machine of a sandbox that should run does not.
func (d *Driver) ended(r *record) (atoll.State, atoll.Condition) {
	c := atoll.Condition{Type: "ready", Reason: "died", Message: "the machine has ended, and nobody saw why"}
	if boot, err := bootID(); err == nil && boot != r.Boot {
		return atoll.Stopped, atoll.Condition{Type: "ready", Reason: "stopped", Message: "the host was started anew"}
	}
	end, err := machine.Ended(d.dir(r.ID))
	if err != nil || end == nil {
		return atoll.Failed, c
	}
	c.Reason, c.Message, c.Since = string(end.Reason), end.Message, end.At
	if end.Reason == machine.ByGuest { // as a computer that is switched off
		return atoll.Stopped, c
	}
	return atoll.Failed, c
}

// conditions tells what else is true of a machine.
func conditions(r *record) []atoll.Condition {
	a := atoll.Condition{Type: "accelerated", True: r.Accel == machine.KVM, Reason: r.Accel, Since: r.Started}
	if !a.True {
		a.Message = "QEMU computes the processors by itself: slow, and a weaker wall than a machine's"
	}
	n := atoll.Condition{Type: "nested", True: r.Nested, Reason: "disabled", Message: r.NestedWhy, Since: r.Started}
	if r.Nested {
		n.Reason = "enabled"
	}
	return []atoll.Condition{a, n}
}

// Status returns the facts of this moment.
func (s *Sandbox) Status(ctx context.Context) (atoll.Status, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return atoll.Status{}, s.fail("status", err)
	}
	st := s.d.status(r)
	if st.Active.Before(st.Created) {
		st.Active = time.Now()
	}
	if st.State != atoll.Running && st.State != atoll.Paused {
		return st, nil
	}
	m, err := s.d.machine(s.id)
	if err != nil {
		return st, nil //nolint:nilerr // it has ended since: the next who asks is told
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	now, err := m.Status(ctx)
	reason, why := "silent", ""
	if err != nil {
		why = "the machine's monitor does not answer: " + err.Error()
	} else if reason, why = unwell(m, now); now.Phase == machine.Stuck {
		st.State = atoll.Failed
	}
	if why != "" {
		st.Conditions[0].True, st.Conditions[0].Reason, st.Conditions[0].Message = false, reason, why
	}
	for _, w := range now.Facts.Weak {
		st.Conditions = append(st.Conditions, atoll.Condition{Type: "jailed", Reason: "weak", Message: w})
	}
	return st, nil
}

// explain adds to the error of a guest that does not answer what its machine's
// monitor knows of that, and what the machine said last.
func (d *Driver) explain(ctx context.Context, id string, err error) error {
	m, merr := d.machine(id)
	if merr != nil {
		return err
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	now, merr := m.Status(ctx)
	if merr != nil {
		return err
	}
	reason, why := unwell(m, now)
	if why == "" {
		return err
	}
	err = fmt.Errorf("%w: %s", err, why)
	if tail := machine.Tail(d.dir(id)); tail != "" && reason != "stuck" {
		err = fmt.Errorf("%w; the end of boot.log:\n%s", err, tail)
	}
	return err
}

// Stats returns what the sandbox uses; its memory is what the machine takes of the
// host's.
func (s *Sandbox) Stats(ctx context.Context) (atoll.Stats, error) {
	st, err := s.Link.Stats(ctx)
	if err != nil {
		return st, err
	}
	m, err := s.d.machine(s.id)
	if err != nil {
		return st, nil //nolint:nilerr // it has ended since
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if now, err := m.Status(ctx); err == nil && now.Facts.Resident > 0 {
		st.MemoryUsed = now.Facts.Resident
	}
	return st, nil
}

// askTime is how long a monitor may take to answer.
const askTime = 5 * time.Second

// change runs f while no other process changes the sandbox's life. f is given
// the record as it is then.
func (s *Sandbox) change(ctx context.Context, op string, f func(r *record) error) error {
	held, err := s.d.home().Lock(ctx, s.id)
	if err != nil {
		return s.fail(op, err)
	}
	defer held.Close()
	r, err := s.d.load(s.id)
	if err == nil {
		err = f(r)
	}
	return s.fail(op, err)
}

// reach connects to the guest of a sandbox, once nobody changes its life.
func (d *Driver) reach(ctx context.Context, id string) (net.Conn, error) {
	held, err := d.home().Share(ctx, id)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	r, err := d.load(id)
	if err == nil && r.State != atoll.Running && r.State != atoll.Paused {
		err = refusal(r)
	}
	if err != nil {
		return nil, err
	}
	return d.connect(ctx, r)
}

// connect connects to the guest of a sandbox as it is now.
func (d *Driver) connect(ctx context.Context, r *record) (net.Conn, error) {
	m, err := d.machine(r.ID)
	if errors.Is(err, atoll.ErrNotFound) {
		if st, ready := d.ended(r); st != r.State {
			return nil, fmt.Errorf("%w: %s; start it", atoll.ErrUnavailable, ready.Message)
		}
	}
	if err != nil {
		return nil, err
	}
	defer m.Close()
	c, err := m.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: the machine does not answer: %w", atoll.ErrUnavailable, err)
	}
	if now, err := m.Phase(ctx); err == nil && (now.Phase == machine.Stuck || now.Phase == machine.Paused) {
		_ = c.Close() // nobody reads what is said there
		_, why := unwell(m, now)
		return nil, fmt.Errorf("%w: %s", atoll.ErrUnavailable, why)
	}
	return c, nil
}
