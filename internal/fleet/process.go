package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll"
)

// errKilled is why the context of a command ends that somebody has killed.
var errKilled = errors.New("killed")

// Exec runs a command to its end; see [atoll.Sandbox].
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	_, exit, err := s.Run(ctx, "", cmd)
	return exit, err
}

// Run runs a command as Exec does, visible in the table of processes under id
// (empty: one is made) until it has ended and a while after. The caller's
// writers get the output as it comes and hold up the command if they are slow;
// others who attach see it too, of a command without writers only if an id was
// asked for, and it takes signals other than KILL only if it has an id, a
// terminal or signals of its caller. One that is killed through the table is a
// result, not an error.
func (s *Sandbox) Run(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, atoll.Exit, error) {
	m := s.mask(cmd.Env)
	command := m.command(&cmd)
	noted := s.audited("exec", command)
	p, exit, err := s.run(ctx, id, cmd, m, command)
	err = m.error(s.fail("exec", err))
	noted(err)
	if p == nil {
		return atoll.Process{}, exit, err
	}
	return p.info(), exit, err
}

func (s *Sandbox) run(ctx context.Context, id string, cmd atoll.Cmd, m *mask, command string) (*process, atoll.Exit, error) {
	ctx, done, err := s.use(ctx, "exec")
	if err != nil {
		return nil, atoll.Exit{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	who := callerOnly
	if id != "" {
		who = othersToo
	}
	p := &process{id: id, sandbox: s.b.id, owner: s.b.known().owner, command: command, mask: m, tty: cmd.TTY != nil}
	p.cancel.Store(&cancel)
	if err := s.f.processes.add(p); err != nil {
		done(err)
		return nil, atoll.Exit{}, err
	}
	if id != "" || cmd.TTY != nil || cmd.Signals != nil {
		p.connect(&cmd, s.features())
	}
	t := tapped(&cmd, &p.out, m, who)
	exit, err := s.finish(ctx, p, &cmd, t)
	done(err)
	return p, exit, err
}

// finish runs the command of a process and notes how it ended.
func (s *Sandbox) finish(ctx context.Context, p *process, cmd *atoll.Cmd, t *taps) (atoll.Exit, error) {
	exit, err := s.inner().Exec(ctx, s.b.lend(*cmd))
	if err != nil && errors.Is(context.Cause(ctx), errKilled) {
		exit.Code, exit.Signal, err = 128+9, "KILL", nil
	}
	err = reason(ctx, err)
	t.fill(&exit, &p.out)
	if !errors.Is(err, atoll.ErrUnsupported) { // it was never run
		s.remember(p, cmd, t, exit, err)
	}
	s.f.processes.ended(p, exit, p.mask.error(err))
	return exit, err
}

// StartProcess runs a command that goes on when nobody is attached; its output
// is kept in a ring of 1 MiB. id is asked for, or empty. Stdin of cmd may be nil:
// then what attached clients write is its input until one of them closes it.
// The command's timeout is the sandbox's, as for any other, unless it is
// negative. It ends with the sandbox, and with this process.
func (s *Sandbox) StartProcess(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error) {
	m := s.mask(cmd.Env)
	command := m.command(&cmd)
	noted := s.audited("start process", command)
	p, err := s.start(ctx, id, cmd, m, command)
	err = m.error(s.fail("exec", err))
	noted(err)
	if err != nil {
		return atoll.Process{}, err
	}
	return p.info(), nil
}

func (s *Sandbox) start(ctx context.Context, id string, cmd atoll.Cmd, m *mask, command string) (*process, error) {
	if err := errors.Join(context.Cause(ctx), cmd.Check()); err != nil {
		return nil, err
	}
	ctx, done, err := s.use(context.WithoutCancel(ctx), "exec")
	if err != nil {
		return nil, err
	}
	if err := asksFor(&cmd, s.features()); err != nil {
		done(err)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{
		id: id, sandbox: s.b.id, owner: s.b.known().owner, command: command, mask: m, tty: cmd.TTY != nil, detached: true, far: s.keeps(),
	}
	p.cancel.Store(&cancel)
	if err = s.f.processes.add(p); err == nil {
		if p.far {
			err = s.detach(ctx, p, &cmd)
		} else {
			err = s.tell(ctx, p, "process.started", nil)
		}
		if err != nil {
			s.f.processes.remove(p)
		}
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), errKilled) { // who lists the processes may have seen it
			err = fmt.Errorf("%w: it was killed before it had begun: %w", atoll.ErrState, err)
		}
		err = reason(ctx, err)
		cancel(nil)
		done(err)
		return nil, err
	}
	if cmd.Stdin == nil {
		p.in = newInput()
		cmd.Stdin = p.in
	}
	p.connect(&cmd, s.features())
	t := tapped(&cmd, &p.out, m, othersAlone)
	s.f.processes.wg.Go(func() {
		defer cancel(nil)
		if p.far {
			s.follow(ctx, p, &cmd, t)
			done(nil)
			return
		}
		exit, err := s.finish(ctx, p, &cmd, t)
		if err := s.tell(context.WithoutCancel(ctx), p, "process.exited", endOf(p, exit, err)); err != nil {
			s.f.log.Error("event of a process", "sandbox", s.b.id, "process", p.id, "err", err)
		}
		done(err)
	})
	return p, nil
}

// endOf is how a process has ended, for its event.
func endOf(p *process, exit atoll.Exit, err error) map[string]string {
	data := map[string]string{"code": strconv.Itoa(exit.Code)}
	if exit.Signal != "" {
		data["signal"] = exit.Signal
	}
	if err != nil {
		data["error"] = p.mask.text(err.Error())
	}
	return data
}

// asksFor refuses a command that asks for what the driver has not, while its
// caller is there to hear of it.
func asksFor(cmd *atoll.Cmd, ft atoll.Features) error {
	var errs []error
	for _, k := range []struct {
		asked, has bool
		what       string
	}{
		{cmd.TTY != nil, ft.TTY, "a terminal"}, {cmd.Signals != nil, ft.Signals, "signals"},
		{cmd.Session, ft.Session, "a session"}, {cmd.User != "" && cmd.User != "root", ft.Users, "user " + cmd.User},
	} {
		if k.asked && !k.has {
			errs = append(errs, fmt.Errorf("%s: %w by this driver", k.what, atoll.ErrUnsupported))
		}
	}
	return errors.Join(errs...)
}

// Processes returns the commands under way and those that ended lately, oldest
// first.
func (s *Sandbox) Processes(ctx context.Context) ([]atoll.Process, error) {
	if err := s.need("list processes", atoll.ScopeRead); err != nil {
		return nil, err
	}
	if err := s.gone(); err != nil {
		return nil, s.fail("list processes", err)
	}
	list := s.f.processes.list(s.b.id)
	infos := make([]atoll.Process, len(list))
	for i, p := range list {
		infos[i] = p.info()
	}
	if !s.keeps() {
		return infos, nil
	}
	kept, err := s.kept(ctx)
	if err != nil {
		return nil, s.fail("list processes", err)
	}
	for _, k := range kept {
		if !slices.ContainsFunc(infos, func(p atoll.Process) bool { return p.ID == k.ID }) {
			infos = append(infos, k.Process)
		}
	}
	slices.SortStableFunc(infos, func(a, b atoll.Process) int { return a.Started.Compare(b.Started) })
	return infos, nil
}

// Process returns one command.
func (s *Sandbox) Process(ctx context.Context, id string) (atoll.Process, error) {
	p, err := s.process(ctx, "process", id, atoll.ScopeRead)
	if err != nil {
		return atoll.Process{}, err
	}
	return p.info(), nil
}

// process returns a process of the sandbox to who may do something to it.
func (s *Sandbox) process(ctx context.Context, op, id string, scope atoll.Scope) (*process, error) {
	if err := s.need(op, scope); err != nil {
		return nil, err
	}
	p := s.f.processes.find(s.b.id, id)
	if p == nil {
		var err error
		if p, err = s.rejoin(ctx, id); err != nil {
			return nil, s.fail(op, err)
		}
	}
	if p == nil {
		return nil, s.fail(op, fmt.Errorf("%w: there is no process of this id", atoll.ErrNotFound))
	}
	return p, nil
}

// Attachment is how somebody is connected to a process.
type Attachment struct {
	Offset int64 // of the output to begin with; what is no longer kept is skipped (Lost); negative: only what is new
	Stdout io.Writer
	Stderr io.Writer
	Stdin  io.Reader         // nil: none is written. Its end closes the process's stdin.
	Resize <-chan atoll.Size // nil: none
	Lost   func(bytes int64) // nil: nobody asks
}

// Attach connects to a process until it has ended, whose exit it returns, or ctx
// is done: then the process goes on. Any number may be attached; a slow one
// misses output rather than hold up the process (it is told by Lost). Output is
// shown as it is, with no secrets hidden: it is the owner's own.
//
// Attach does not wait for a Read of Stdin that is under way when it returns;
// what that reads is not written. An error of Stdin other than io.EOF leaves the
// process's stdin open, for others.
func (s *Sandbox) Attach(ctx context.Context, id string, a Attachment) (atoll.Exit, error) {
	scope := atoll.ScopeRead
	if a.Stdin != nil || a.Resize != nil {
		scope = atoll.ScopeRun
	}
	p, err := s.process(ctx, "attach", id, scope)
	if err != nil {
		return atoll.Exit{}, err
	}
	total, _ := p.out.written()
	switch {
	case a.Stdin != nil && p.in == nil:
		err = fmt.Errorf("%w: process %s has a standard input of its own: attach without one", atoll.ErrInvalid, id)
	case a.Offset > total:
		err = fmt.Errorf("%w: offset %d: process %s has written %d bytes so far", atoll.ErrInvalid, a.Offset, id, total)
	case a.Offset < 0:
		a.Offset = total
	}
	if err != nil {
		return atoll.Exit{}, s.fail("attach", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if a.Stdin != nil {
		go p.feed(ctx, a.Stdin)
	}
	if a.Resize != nil && p.resize != nil {
		resized := make(chan struct{})
		defer func() { cancel(); <-resized }()
		go func() {
			defer close(resized)
			relay(ctx.Done(), p.done, a.Resize, p.resize)
		}()
	}
	if err := p.show(ctx, a); err != nil {
		return atoll.Exit{}, s.fail("attach", err)
	}
	return p.outcome()
}

// Signal sends a signal to a process: "INT", "TERM", "KILL"… KILL ends the whole
// tree, on every driver.
func (s *Sandbox) Signal(ctx context.Context, id, signal string) error {
	noted := s.audited("signal", id+" "+clip(signal, 16))
	p, err := s.process(ctx, "signal", id, atoll.ScopeRun)
	if err == nil {
		err = s.fail("signal", p.signal(ctx, signal))
	}
	if err == nil && p.far && signal != "KILL" {
		err = p.arrived(ctx)
	}
	noted(err)
	return err
}

// arrived waits until a signal to a command that the driver keeps is there: who
// has sent it may be gone at once.
func (p *process) arrived(ctx context.Context) error {
	select {
	case p.signals <- "": // no signal, taken when the one before has arrived: see atoll.Detacher
		return nil
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signals are those that may be sent.
var signals = []string{
	"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "SYS",
}

// signal sends a signal and, if it is KILL, waits until the process is gone.
func (p *process) signal(ctx context.Context, signal string) error {
	if !slices.Contains(signals, signal) {
		return fmt.Errorf("%w: signal %q: must be a name such as INT, TERM or KILL", atoll.ErrInvalid, signal)
	}
	select {
	case <-p.done:
		return fmt.Errorf("%w: process %s has ended", atoll.ErrState, p.id)
	default:
	}
	var sent chan<- string = p.signals
	switch {
	case signal == "KILL" && !p.far:
		p.kill()
		sent = nil
	case p.signals == nil:
		return fmt.Errorf("%w: process %s takes no signal but KILL", atoll.ErrUnsupported, p.id)
	}
	select {
	case sent <- signal:
		if signal == "KILL" {
			return p.over(ctx)
		}
		return nil
	case <-p.done:
		if signal == "KILL" {
			return nil
		}
		return fmt.Errorf("%w: process %s has ended", atoll.ErrState, p.id)
	case <-ctx.Done():
		return late(context.Cause(ctx))
	}
}

// over waits until the process has ended.
func (p *process) over(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return late(context.Cause(ctx))
	}
}

// features are what the sandbox's driver does here.
func (s *Sandbox) features() atoll.Features {
	if s.b.bay == nil {
		return atoll.Features{}
	}
	ft, _ := s.b.bay.asked()
	return ft
}

// relay hands on what comes from one channel to another until it is closed or
// one of two others is.
func relay[T any](end, gone <-chan struct{}, from <-chan T, to chan<- T) {
	for {
		var v T
		var ok bool
		select {
		case v, ok = <-from:
			if !ok {
				return
			}
		case <-end:
			return
		case <-gone:
			return
		}
		select {
		case to <- v:
		case <-end:
			return
		case <-gone:
			return
		}
	}
}
