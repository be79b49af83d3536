package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cgroup"
	"github.com/atoll-sandbox/atoll/internal/gate"
	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// Sandbox is a sandbox of this driver: a link to its guest, and a directory.
type Sandbox struct {
	*guest.Link

	d  *Driver
	id string
}

var (
	_ atoll.Sandbox        = (*Sandbox)(nil)
	_ atoll.DirFS          = (*Sandbox)(nil)
	_ atoll.Stopper        = (*Sandbox)(nil)
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
	_ atoll.Chooser        = (*Sandbox)(nil)
)

// Has reports whether the sandbox has an ability on this host.
func (s *Sandbox) Has(ability any) bool {
	if _, ok := ability.(*atoll.Pauser); ok {
		t, err := s.d.groups()
		return err == nil && t.Has(cgroup.Nest) && s.Spec.Runtime != runtimeRunsc
	}
	return true
}

func (d *Driver) sandbox(r *record) *Sandbox {
	s := &Sandbox{d: d, id: r.ID}
	spec := r.Spec
	if spec.Dir == "" {
		spec.Dir = atoll.DefaultDir
	}
	s.Link = &guest.Link{
		ID: r.ID, Spec: spec, Before: s.before, Counted: counted(),
		Reach: func(ctx context.Context) (net.Conn, error) { return d.reach(ctx, r.ID) },
	}
	if r.Spec.Runtime == runtimeRunsc {
		s.Link.Reach = func(ctx context.Context) (net.Conn, error) { return d.reachRunsc(ctx, r.ID) }
	}
	return s
}

// counted are the directories whose files are a sandbox's own.
func counted() []string {
	return []string{"/tmp", "/var", "/home", "/root", "/run", "/srv", "/mnt", "/media", atoll.DefaultDir}
}

// before refuses operations on a sandbox that is gone or does not run.
func (s *Sandbox) before(op string) error {
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
	case atoll.Stopped:
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
	return &atoll.Error{Op: op, ID: s.id, Err: err}
}

// Open finds a sandbox.
func (d *Driver) Open(_ context.Context, id string) (atoll.Sandbox, error) {
	r, err := d.load(id)
	if err == nil && r.State == atoll.Starting {
		err = atoll.ErrNotFound // not yet, or never
	}
	if err != nil {
		return nil, &atoll.Error{Op: "open", ID: id, Err: err}
	}
	return d.sandbox(r), nil
}

// List returns the sandboxes in the driver's directory. What a process that died
// has left of one is removed.
func (d *Driver) List(context.Context) ([]atoll.Status, error) {
	entries, err := os.ReadDir(d.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, &atoll.Error{Op: "list", Err: err}
	}
	list := []atoll.Status{}
	for _, e := range entries {
		if d.abandoned(e) {
			_ = d.sweepGone(e.Name()) // tried again the next time: it hinders nobody else
			continue
		}
		r, err := d.load(e.Name())
		if errors.Is(err, atoll.ErrNotFound) {
			continue
		}
		if err != nil {
			list = append(list, d.broken(e.Name(), err))
			continue
		}
		if r.State == atoll.Starting {
			_ = d.sweep(r) // likewise
			continue
		}
		list = append(list, d.status(r))
	}
	slices.SortFunc(list, func(a, b atoll.Status) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// broken is the status of a sandbox whose record can't be read.
func (d *Driver) broken(id string, err error) atoll.Status {
	return atoll.Status{
		ID: id, Driver: d.Name(), State: atoll.Failed, Isolation: isolation,
		Conditions: []atoll.Condition{{Type: "ready", Reason: "unreadable", Message: err.Error()}},
	}
}

// sweep removes a sandbox that is half made or half removed, if nobody is at it.
func (d *Driver) sweep(r *record) error {
	held, err := lock(d.dir(r.ID), unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	return d.erase(r)
}

// newPrefix is of directories of sandboxes that are on their way in, for an
// instant.
const newPrefix = ".new-"

// abandoned tells whether a directory is of a sandbox on its way out, or in since
// long.
func (d *Driver) abandoned(e os.DirEntry) bool {
	if strings.HasSuffix(e.Name(), goneSuffix) {
		return true
	}
	info, err := e.Info()
	return err == nil && strings.HasPrefix(e.Name(), newPrefix) && time.Since(info.ModTime()) > endTime
}

// sweepGone removes what is left of a sandbox whose making or removal broke off.
func (d *Driver) sweepGone(name string) error {
	dir := filepath.Join(d.Dir, name)
	held, err := lock(dir, unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := readRecord(dir)
	if errors.Is(err, atoll.ErrNotFound) {
		return removeAll(dir)
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(name, newPrefix) {
		return errors.Join(removeAll(dir), d.freeIDs(r.Base))
	}
	return d.clear(r)
}

// status tells what is true of a sandbox.
func (d *Driver) status(r *record) atoll.Status {
	s := atoll.Status{
		ID: r.ID, Name: r.Spec.Name, Driver: d.Name(), State: r.State, Labels: r.Spec.Labels, Isolation: wall(r), Created: r.Created, Active: r.Created,
	}
	ready := atoll.Condition{Type: "ready", True: r.State == atoll.Running, Reason: string(r.State)}
	if r.State == atoll.Running || r.State == atoll.Paused {
		if f, err := d.process(r); err == nil {
			_ = f.Close() // it was only asked for
		} else {
			s.State = atoll.Failed
			ready = atoll.Condition{Type: "ready", Reason: "died", Message: "process 1 of the sandbox has ended"}
			if boot, berr := d.bootID(); berr == nil && boot != r.Boot {
				s.State = atoll.Stopped
				ready = atoll.Condition{Type: "ready", Reason: "stopped", Message: "the machine was started anew"}
			}
		}
	}
	s.Conditions = []atoll.Condition{ready}
	return s
}

// process returns the pidfd of a sandbox's process 1, or an error that matches
// os.ErrNotExist.
func (d *Driver) process(r *record) (*os.File, error) {
	boot, err := d.bootID()
	if err != nil {
		return nil, err
	}
	if r.PID == 0 || r.Boot != boot {
		return nil, os.ErrNotExist
	}
	return jail.Find(r.PID, r.Start)
}

// Status returns the facts of this moment.
func (s *Sandbox) Status(context.Context) (atoll.Status, error) {
	r, err := s.d.load(s.id)
	if err != nil {
		return atoll.Status{}, s.fail("status", err)
	}
	st := s.d.status(r)
	if st.Active.Before(st.Created) {
		st.Active = time.Now()
	}
	return st, nil
}

// change runs f while no other process changes the sandbox's life. f is given
// the record as it is then.
func (s *Sandbox) change(op string, f func(r *record) error) error {
	held, err := lock(s.d.dir(s.id), 0)
	if errors.Is(err, os.ErrNotExist) {
		err = atoll.ErrNotFound
	}
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

// Destroy removes the sandbox and all it holds.
func (s *Sandbox) Destroy(context.Context) error {
	err := s.change("destroy", s.d.erase)
	s.HangUp()
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	return err
}

// erase removes what there is of a sandbox, so that nobody finds it while its
// processes are ended.
func (d *Driver) erase(r *record) error {
	err := os.Rename(d.dir(r.ID), d.dir(r.ID)+goneSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.clear(r)
}

// goneSuffix is of directories of sandboxes that are on their way out.
const goneSuffix = ".gone"

// clear ends and removes a sandbox that is on its way out.
func (d *Driver) clear(r *record) error {
	dir := d.dir(r.ID) + goneSuffix
	if err := d.end(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if gate.Needed(r.Spec.Network) {
		if err := gate.Open(filepath.Join(dir, gateName)).Ended(ctx); err != nil {
			return err
		}
	}
	return errors.Join(removeAll(dir), d.leaveImage(r), d.freeIDs(r.Base))
}

// end ends process 1, all others with it, and removes their group.
func (d *Driver) end(r *record) error {
	f, err := d.process(r)
	if err == nil {
		err = errors.Join(jail.Kill(f), f.Close())
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	g, err := d.group(r)
	if err != nil || g == nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), endTime, fmt.Errorf("%w: processes of the sandbox don't end", atoll.ErrTimeout))
	defer cancel()
	return g.Remove(ctx)
}

// endTime is how long the processes of a sandbox may take to be gone.
const endTime = time.Minute

// Stop ends all processes of the sandbox; its files stay.
func (s *Sandbox) Stop(context.Context) error {
	err := s.change("stop", func(r *record) error {
		if err := s.d.end(r); err != nil {
			return err
		}
		r.PID, r.State = 0, atoll.Stopped
		return r.save(s.d.dir(s.id))
	})
	s.HangUp()
	return err
}

// Start starts a stopped sandbox.
func (s *Sandbox) Start(ctx context.Context) error {
	return s.change("start", func(r *record) error {
		if f, err := s.d.process(r); err == nil {
			return f.Close()
		}
		if err := s.d.end(r); err != nil { // process 1 may have died, and left its group
			return err
		}
		return s.d.boot(ctx, r)
	})
}
