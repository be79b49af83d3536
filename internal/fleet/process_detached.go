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
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// errDetachedLeft ends the attachment to a detached command that goes on, when this process loses
// its connection to it.
var errDetachedLeft = fmt.Errorf("%w: the connection to the command was lost; the command goes on", atoll.ErrUnavailable)

// detachment is the registry's row of a command that the driver keeps.
type detachment struct {
	id, inner string
	command   string // without secrets
	tty       bool
	started   time.Time
}

// hasDetacher reports whether the driver keeps detached commands.
func (s *Sandbox) hasDetacher() bool { return s.Has((*atoll.Detacher)(nil)) }

// detachProcess has the driver start the command of a process and records it. The command goes on
// without this process.
func (s *Sandbox) detachProcess(ctx context.Context, p *process, cmd *atoll.Cmd) error {
	d, err := innerAs[atoll.Detacher](s)
	if err != nil {
		return err
	}
	asked, err := s.b.addEnv(ctx, s.f, *cmd)
	if err != nil {
		return err
	}
	asked.Stdin, asked.Stdout, asked.Stderr, asked.Signals = nil, nil, nil, nil
	if asked.MaxOutput == 0 {
		asked.MaxOutput = ringSize
	}
	s.b.detaching.RLock()
	defer s.b.detaching.RUnlock()
	inner, err := d.Detach(ctx, asked)
	if err != nil {
		return causeOf(ctx, err)
	}
	p.innerID = inner.ID
	r := s.b.cachedRow()
	err = s.f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into detached (sandbox, id, inner, command, tty, started) values (?, ?, ?, ?, ?, ?)",
			s.b.id, p.id, p.innerID, p.command, p.tty, registry.Timestamp(p.started))
		if err != nil {
			return err
		}
		return s.f.events.Emit(ctx, tx, processEvent(&r, p, "process.started", nil))
	})
	if err != nil { // unrecorded, it could not be found again
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callGrace)
		defer cancel()
		kill := make(chan string, 1)
		kill <- "KILL"
		_, kerr := d.Reattach(ctx, p.innerID, atoll.Cmd{Signals: kill})
		return errors.Join(err, kerr)
	}
	return nil
}

// followDetached stays connected to a command that the driver keeps until it ends, and records its
// end. If the connection ends first, the process is only removed from the table.
func (s *Sandbox) followDetached(ctx context.Context, p *process, cmd *atoll.Cmd, t *outputTaps) {
	d, err := innerAs[atoll.Detacher](s)
	var exit atoll.Exit
	if err == nil {
		exit, err = d.Reattach(ctx, p.innerID, atoll.Cmd{Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Signals: cmd.Signals, TTY: cmd.TTY})
	}
	err = causeOf(ctx, err)
	switch {
	case errors.Is(err, atoll.ErrState), errors.Is(err, atoll.ErrNotFound):
		exit.Code, exit.Signal = 128+9, "KILL" // it ended with the sandbox
	case errors.Is(err, atoll.ErrUnavailable), err != nil && ctx.Err() != nil:
		s.f.processes.recordEnd(p, exit, errDetachedLeft)
		s.f.processes.removeProcess(p)
		return
	}
	t.fillExit(&exit, &p.out)
	s.recordExit(context.WithoutCancel(ctx), p, cmd, t, exit, err)
	s.f.processes.recordEnd(p, exit, p.mask.redactError(err))
}

// recordExit records the end of a detached command, unless another process has.
func (s *Sandbox) recordExit(ctx context.Context, p *process, cmd *atoll.Cmd, t *outputTaps, exit atoll.Exit, failure error) {
	r := s.b.cachedRow()
	first := false
	err := s.f.registry.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "update detached set ended = 1 where sandbox = ? and id = ? and ended = 0", s.b.id, p.id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if first = n > 0; err != nil || !first {
			return err
		}
		return s.f.events.Emit(ctx, tx, processEvent(&r, p, "process.exited", exitData(p, exit, failure)))
	})
	if err != nil {
		s.f.log.Error("record end of process", "sandbox", s.b.id, "process", p.id, "err", err)
	}
	if first {
		s.recordCommand(p, cmd, t, exit, failure)
	}
}

// rejoinDetached connects this process to a command that the driver keeps and that another process
// of the fleet started. It returns nil if there is no command of that id.
func (s *Sandbox) rejoinDetached(ctx context.Context, id string) (*process, error) {
	if !s.hasDetacher() {
		return nil, nil
	}
	all, err := s.keptProcesses(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(k keptProcess) bool { return k.ID == id })
	if i < 0 {
		return nil, nil
	}
	k := all[i]
	ctx, done, err := s.beginWithRules(context.WithoutCancel(ctx), callRules{scope: atoll.ScopeRead, needsRunning: true, passive: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{
		id: k.ID, sandbox: s.b.id, owner: s.b.cachedRow().owner, command: k.Command, mask: s.secretMask(nil), tty: k.TTY,
		detached: true, driverKept: true, innerID: k.inner, started: k.Started, in: newInput(),
	}
	p.cancel.Store(&cancel)
	if err := s.f.processes.add(p); err != nil {
		cancel(nil)
		done(nil)
		return s.f.processes.find(s.b.id, id), nil // a concurrent call added it
	}
	cmd := atoll.Cmd{Stdin: p.in}
	if p.tty {
		cmd.TTY = &atoll.TTY{}
	}
	p.connectControls(&cmd, s.driverFeatures())
	t := attachTaps(&cmd, &p.out, p.mask, othersAlone)
	s.f.processes.wg.Go(func() {
		defer cancel(nil)
		s.followDetached(ctx, p, &cmd, t)
		done(nil)
	})
	brief, stop := context.WithTimeout(ctx, rejoinTimeout)
	defer stop()
	p.out.awaitOutput(brief, min(k.Output, ringSize)) // the output so far
	if !k.Running {
		select { // and the exit
		case <-p.done:
		case <-brief.Done():
		}
	}
	return p, nil
}

// rejoinTimeout bounds the wait for the kept output of a command.
const rejoinTimeout = 5 * time.Second

// keptProcess is a command that the driver keeps, with the fleet's id.
type keptProcess struct {
	atoll.Process

	inner string
}

// keptProcesses returns the commands that the driver keeps, oldest first; none if the sandbox does
// not run.
func (s *Sandbox) keptProcesses(ctx context.Context) ([]keptProcess, error) {
	if s.b.cachedRow().state != atoll.Running {
		return nil, nil
	}
	known, err := s.f.queryDetachments(ctx, s.b.id)
	if err != nil {
		return nil, err
	}
	var there []atoll.Process
	err = callInner(ctx, s, "list processes", func(ctx context.Context, d atoll.Detacher) (err error) {
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
	m := s.secretMask(nil)
	list := make([]keptProcess, 0, len(there))
	for _, p := range there {
		k := keptProcess{Process: p, inner: p.ID}
		k.Sandbox, k.Detached, k.Command = s.b.id, true, m.redact(p.Command)
		if d, ok := known[p.ID]; ok {
			k.ID, k.Command = d.id, d.command
		}
		list = append(list, k)
	}
	slices.SortStableFunc(list, func(a, b keptProcess) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// queryDetachments returns the recorded detached commands of a sandbox by the driver's id.
func (f *Fleet) queryDetachments(ctx context.Context, sandbox string) (map[string]detachment, error) {
	rows, err := f.registry.DB.QueryContext(ctx, "select id, inner, command, tty, started from detached where sandbox = ?", sandbox)
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
		d.started = registry.Time(started)
		m[d.inner] = d
	}
	return m, rows.Err()
}

// dropDetachments deletes the rows in known, read before the driver listed its commands, that are
// not in that list.
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
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from detached where sandbox = ? and inner in "+registry.Placeholders(len(gone)), append([]any{sandbox}, registry.Args(gone)...)...)
		return err
	})
}

// Detach starts a detached command; see [Sandbox.StartProcess].
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
					return // Attach reports how it ended
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
