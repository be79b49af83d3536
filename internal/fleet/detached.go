package fleet

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// errLeft is how a detached command ends for those attached, when it goes on and
// only this process no longer sees it.
var errLeft = fmt.Errorf("%w: the connection to the command has ended; it goes on", atoll.ErrUnavailable)

// detachment is a command that the driver keeps, as the registry knows it.
type detachment struct {
	id, inner string
	command   string // without secrets
	tty       bool
	started   time.Time
}

// keeps reports whether the driver keeps detached commands by itself.
func (s *Sandbox) keeps() bool { return s.Has((*atoll.Detacher)(nil)) }

// detach has the driver start the command of a process, and takes that down: it
// goes on without us.
func (s *Sandbox) detach(ctx context.Context, p *process, cmd *atoll.Cmd) error {
	d, err := able[atoll.Detacher](s)
	if err != nil {
		return err
	}
	asked := s.b.lend(*cmd)
	asked.Stdin, asked.Stdout, asked.Stderr, asked.Signals = nil, nil, nil, nil
	if asked.MaxOutput == 0 {
		asked.MaxOutput = ringSize
	}
	s.b.detaching.RLock()
	defer s.b.detaching.RUnlock()
	inner, err := d.Detach(ctx, asked)
	if err != nil {
		return reason(ctx, err)
	}
	p.inner = inner.ID
	r := s.b.known()
	err = s.f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into detached (sandbox, id, inner, command, tty, started) values (?, ?, ?, ?, ?, ?)",
			s.b.id, p.id, p.inner, p.command, p.tty, stamp(p.started))
		if err != nil {
			return err
		}
		return s.f.emit(ctx, tx, processEvent(&r, p, "process.started", nil))
	})
	if err != nil { // nobody would know of it
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		kill := make(chan string, 1)
		kill <- "KILL"
		_, kerr := d.Reattach(ctx, p.inner, atoll.Cmd{Signals: kill})
		return errors.Join(err, kerr)
	}
	return nil
}

// follow is connected to a command that the driver keeps until it has ended, and
// takes its end down, once of all who see it. A command that goes on is only
// forgotten here.
func (s *Sandbox) follow(ctx context.Context, p *process, cmd *atoll.Cmd, t *taps) {
	d, err := able[atoll.Detacher](s)
	var exit atoll.Exit
	if err == nil {
		exit, err = d.Reattach(ctx, p.inner, atoll.Cmd{Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Signals: cmd.Signals, TTY: cmd.TTY})
	}
	err = reason(ctx, err)
	switch {
	case errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrNotFound):
		exit.Code, exit.Signal = 128+9, "KILL" // it went with the sandbox
	case errors.Is(err, atoll.ErrUnavailable), err != nil && ctx.Err() != nil:
		s.f.processes.ended(p, exit, errLeft)
		s.f.processes.remove(p)
		return
	}
	t.fill(&exit, &p.out)
	s.conclude(context.WithoutCancel(ctx), p, cmd, t, exit, err)
	s.f.processes.ended(p, exit, p.mask.error(err))
}

// conclude takes the end of a detached command down, unless somebody has.
func (s *Sandbox) conclude(ctx context.Context, p *process, cmd *atoll.Cmd, t *taps, exit atoll.Exit, failure error) {
	r := s.b.known()
	first := false
	err := s.f.store.write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "update detached set ended = 1 where sandbox = ? and id = ? and ended = 0", s.b.id, p.id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if first = n > 0; err != nil || !first {
			return err
		}
		return s.f.emit(ctx, tx, processEvent(&r, p, "process.exited", endOf(p, exit, failure)))
	})
	if err != nil {
		s.f.log.Error("end of a process", "sandbox", s.b.id, "process", p.id, "err", err)
	}
	if first {
		s.remember(p, cmd, t, exit, failure)
	}
}

// rejoin connects this process to a command that the driver keeps and that it
// does not know yet: another process of ours started it, perhaps one that is no
// more. Nil if there is none of that id.
func (s *Sandbox) rejoin(ctx context.Context, id string) (*process, error) {
	if !s.keeps() {
		return nil, nil
	}
	all, err := s.kept(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(k keptProcess) bool { return k.ID == id })
	if i < 0 {
		return nil, nil
	}
	k := all[i]
	ctx, done, err := s.begin(context.WithoutCancel(ctx), demand{scope: atoll.ScopeRead, runs: true, looks: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{
		id: k.ID, sandbox: s.b.id, owner: s.b.known().owner, command: k.Command, mask: s.mask(nil), tty: k.TTY,
		detached: true, far: true, inner: k.inner, started: k.Started, in: newInput(),
	}
	p.cancel.Store(&cancel)
	if err := s.f.processes.add(p); err != nil {
		cancel(nil)
		done(nil)
		return s.f.processes.find(s.b.id, id), nil // another was quicker
	}
	cmd := atoll.Cmd{Stdin: p.in}
	if p.tty {
		cmd.TTY = &atoll.TTY{}
	}
	p.connect(&cmd, s.features())
	t := tapped(&cmd, &p.out, p.mask, othersAlone)
	s.f.processes.wg.Go(func() {
		defer cancel(nil)
		s.follow(ctx, p, &cmd, t)
		done(nil)
	})
	brief, stop := context.WithTimeout(ctx, rejoinTime)
	defer stop()
	p.out.await(brief, min(k.Output, ringSize)) // what is there already
	if !k.Running {
		select { // and what became of it
		case <-p.done:
		case <-brief.Done():
		}
	}
	return p, nil
}

// rejoinTime is how long a command may take to give what it has kept.
const rejoinTime = 5 * time.Second

// keptProcess is a command that the driver keeps, as callers know it.
type keptProcess struct {
	atoll.Process

	inner string
}

// kept returns the commands that the driver keeps, oldest first. A sandbox that
// does not run keeps none.
func (s *Sandbox) kept(ctx context.Context) ([]keptProcess, error) {
	if s.b.known().state != atoll.Running {
		return nil, nil
	}
	known, err := s.f.detachments(ctx, s.b.id)
	if err != nil {
		return nil, err
	}
	var there []atoll.Process
	err = with(ctx, s, "list processes", func(ctx context.Context, d atoll.Detacher) (err error) {
		there, err = d.Detached(ctx)
		return err
	})
	if errors.Is(err, atoll.ErrState) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.f.dropDetachments(ctx, s.b.id, known, there); err != nil {
		return nil, err
	}
	m := s.mask(nil)
	list := make([]keptProcess, 0, len(there))
	for _, p := range there {
		k := keptProcess{Process: p, inner: p.ID}
		k.Sandbox, k.Detached, k.Command = s.b.id, true, m.text(p.Command)
		if d, ok := known[p.ID]; ok {
			k.ID, k.Command = d.id, d.command
		}
		list = append(list, k)
	}
	slices.SortStableFunc(list, func(a, b keptProcess) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// detachments returns what the registry knows of a sandbox's detached commands,
// by the driver's id.
func (f *Fleet) detachments(ctx context.Context, sandbox string) (map[string]detachment, error) {
	rows, err := f.store.db.QueryContext(ctx, "select id, inner, command, tty, started from detached where sandbox = ?", sandbox)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := make(map[string]detachment)
	for rows.Next() {
		var d detachment
		var started int64
		if err := rows.Scan(&d.id, &d.inner, &d.command, &d.tty, &started); err != nil {
			return nil, err
		}
		d.started = when(started)
		m[d.inner] = d
	}
	return m, rows.Err()
}

// dropDetachments forgets what was known of detached commands before the driver
// said which there are, and is not among those.
func (f *Fleet) dropDetachments(ctx context.Context, sandbox string, known map[string]detachment, there []atoll.Process) error {
	var gone []string
	for inner := range known {
		if !slices.ContainsFunc(there, func(p atoll.Process) bool { return p.ID == inner }) {
			gone = append(gone, inner)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return f.store.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from detached where sandbox = ? and inner in "+places(len(gone)), append([]any{sandbox}, values(gone)...)...)
		return err
	})
}

// Detach starts a command that goes on by itself; see [Sandbox.StartProcess].
func (s *Sandbox) Detach(ctx context.Context, cmd atoll.Cmd) (atoll.Process, error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Signals = nil, nil, nil, nil
	return s.StartProcess(ctx, "", cmd)
}

// Reattach connects to a detached command; see [Sandbox.Attach].
func (s *Sandbox) Reattach(ctx context.Context, id string, streams atoll.Cmd) (atoll.Exit, error) {
	a := Attachment{Stdin: streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr}
	if streams.TTY != nil {
		a.Resize = streams.TTY.Resize
	}
	if streams.Signals == nil {
		return s.Attach(ctx, id, a)
	}
	ended, stop := context.WithCancel(ctx)
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		for {
			select {
			case sig, ok := <-streams.Signals:
				if !ok || s.Signal(ended, id, sig) != nil {
					return // how it ended says Attach
				}
			case <-ended.Done():
				return
			}
		}
	}()
	exit, err := s.Attach(ctx, id, a)
	stop()
	<-relayed
	return exit, err
}

// Detached returns the detached commands, oldest first.
func (s *Sandbox) Detached(ctx context.Context) ([]atoll.Process, error) {
	list, err := s.Processes(ctx)
	return slices.DeleteFunc(list, func(p atoll.Process) bool { return !p.Detached }), err
}
