package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// errKilled is the cause of the canceled context of a killed command.
var errKilled = errors.New("killed")

// Exec runs a command to its end; see [atoll.Sandbox].
func (s *Sandbox) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	_, exit, err := s.Run(ctx, "", cmd)
	return exit, err
}

// Run runs a command as Exec does. Until it ends, and for a while after, it is in the process
// table under id; an empty id is generated. The caller's writers get the output as it comes; slow
// writers slow down the command. Other clients can attach; they see the output of a command
// without writers only if an id was given. The command accepts signals other than KILL only if it
// has a given id, a terminal, or signals of its caller. A command killed through the table is a
// result, not an error.
func (s *Sandbox) Run(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, atoll.Exit, error) {
	m := s.secretMask(cmd.Env)
	command := m.redactCommand(&cmd)
	noted := s.startAudit("exec", command)
	p, exit, err := s.runProcess(ctx, id, cmd, nil, m, command)
	err = m.redactError(s.wrapError("exec", err))
	noted(err)
	if p == nil {
		return atoll.Process{}, exit, err
	}
	return p.describe(), exit, err
}

// CanResume reports whether another process can take over the sandbox's commands; see
// [atoll.CommandResumer].
func (s *Sandbox) CanResume() bool { return s.Has((*atoll.CommandResumer)(nil)) }

// ResumeExec continues a command that a caller has left, or whose server has ended; see
// [atoll.CommandResumer]. The id of the command is also its id in the process table; its text is for
// the history.
func (s *Sandbox) ResumeExec(ctx context.Context, cmd atoll.Cmd, from atoll.Resumption) (atoll.Exit, error) {
	m := s.secretMask(cmd.Env)
	command := m.redactCommand(&cmd)
	noted := s.startAudit("resume exec", command)
	err := s.checkAccess("exec", rulesFor("exec").scope)
	if err == nil {
		err = s.leaveProcess(ctx, cmd.ID)
	}
	if err == nil {
		err = s.waitForInner(ctx)
	}
	var exit atoll.Exit
	if err == nil {
		_, exit, err = s.runProcess(ctx, cmd.ID, cmd, &from, m, command)
	}
	err = m.redactError(s.wrapError("exec", err))
	noted(err)
	return exit, err
}

// Times that a driver's cluster or engine, which may be restarted, has to open a sandbox with a command that
// goes on.
const (
	openPatience = 2 * time.Minute
	openWaitMin  = 50 * time.Millisecond // between two attempts; doubles
	openWaitMax  = 2 * time.Second
)

// waitForInner waits until the driver has opened the sandbox. It tries again while its cluster or engine may
// only be out of reach.
func (s *Sandbox) waitForInner(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	for wait := openWaitMin; ; wait = min(2*wait, openWaitMax) {
		_, err := s.b.openInner(limited)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil, errors.Is(err, errNotHere), !mayBeInterrupted(err):
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-limited.Done():
			t.Stop()
		}
	}
}

// mayBeInterrupted reports whether an error may come from a cluster or an engine that is being restarted.
func mayBeInterrupted(err error) bool {
	return errors.Is(err, atoll.ErrUnavailable) || errors.Is(err, atoll.ErrTimeout) || errors.Is(err, atoll.ErrDenied)
}

// leaveProcess makes a caller of this process that has a command, and whose connection may be lost
// without a sign, leave it to another.
func (s *Sandbox) leaveProcess(ctx context.Context, id string) error {
	p := s.f.processes.find(s.b.id, id)
	switch {
	case p == nil:
		return nil
	case !p.leavable:
		return fmt.Errorf("%w: process %s ends with its caller: it was started without an id for its continuation", atoll.ErrState, id)
	}
	if cancel := p.cancel.Load(); cancel != nil {
		(*cancel)(atoll.ErrLeft)
	}
	if err := p.waitEnded(ctx); err != nil {
		return err
	}
	s.f.processes.removeProcess(p) // it may also have ended while its caller was gone
	return nil
}

// runProcess runs a command, or continues one if from is not nil.
func (s *Sandbox) runProcess(ctx context.Context, id string, cmd atoll.Cmd, from *atoll.Resumption, m *mask, command string) (*process, atoll.Exit, error) {
	ctx, done, err := s.beginCall(ctx, "exec")
	if err != nil {
		return nil, atoll.Exit{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	audience := callerOnly
	if id != "" {
		audience = othersToo
	}
	p := &process{id: id, sandbox: s.b.id, owner: s.b.cachedRow().owner, command: command, mask: m, tty: cmd.TTY != nil, internal: cmd.Internal, leavable: cmd.ID != ""}
	p.cancel.Store(&cancel)
	if err := s.f.processes.add(p); err != nil {
		done(err)
		return nil, atoll.Exit{}, err
	}
	if id != "" || cmd.TTY != nil || cmd.Signals != nil {
		p.connectControls(&cmd, s.driverFeatures())
	}
	t := attachTaps(&cmd, &p.out, m, audience)
	exit, err := s.execProcess(ctx, p, &cmd, from, t)
	done(err)
	return p, exit, err
}

// execProcess runs the command of a process and records how it ended.
func (s *Sandbox) execProcess(ctx context.Context, p *process, cmd *atoll.Cmd, from *atoll.Resumption, t *outputTaps) (atoll.Exit, error) {
	exit, err := s.execInner(ctx, cmd, from)
	if errors.Is(err, atoll.ErrLeft) {
		s.f.processes.recordEnd(p, exit, err)
		s.f.processes.removeProcess(p) // whoever takes it over adds it again
		return exit, err
	}
	if err != nil && errors.Is(context.Cause(ctx), errKilled) {
		exit.Code, exit.Signal, err = 128+9, "KILL", nil
	}
	err = causeOf(ctx, err)
	t.fillExit(&exit, &p.out)
	if !errors.Is(err, atoll.ErrUnsupported) { // an unsupported command never ran
		s.recordCommand(p, cmd, t, exit, err)
	}
	s.f.processes.recordEnd(p, exit, p.mask.redactError(err))
	return exit, err
}

// execInner has the driver run a command, or continue one.
func (s *Sandbox) execInner(ctx context.Context, cmd *atoll.Cmd, from *atoll.Resumption) (atoll.Exit, error) {
	if from == nil {
		full, err := s.b.addEnv(ctx, s.f, *cmd)
		if err != nil {
			return atoll.Exit{}, err
		}
		return s.innerSandbox().Exec(ctx, full)
	}
	r, err := innerAs[atoll.CommandResumer](s)
	if err != nil {
		return atoll.Exit{}, err
	}
	return r.ResumeExec(ctx, *cmd, *from)
}

// StartProcess starts a command that goes on without attached clients. Its output is kept in a
// ring buffer of 1 MiB. An empty id is generated. If cmd.Stdin is nil, attached clients write its
// input until one of them closes it. The timeout is that of the sandbox, unless cmd.Timeout is
// negative. The command ends with the sandbox and with this process, unless the driver keeps it.
func (s *Sandbox) StartProcess(ctx context.Context, id string, cmd atoll.Cmd) (atoll.Process, error) {
	m := s.secretMask(cmd.Env)
	command := m.redactCommand(&cmd)
	noted := s.startAudit("start process", command)
	p, err := s.startDetached(ctx, id, cmd, m, command)
	err = m.redactError(s.wrapError("exec", err))
	noted(err)
	if err != nil {
		return atoll.Process{}, err
	}
	return p.describe(), nil
}

func (s *Sandbox) startDetached(ctx context.Context, id string, cmd atoll.Cmd, m *mask, command string) (*process, error) {
	if err := errors.Join(context.Cause(ctx), cmd.Check()); err != nil {
		return nil, err
	}
	ctx, done, err := s.beginCall(context.WithoutCancel(ctx), "exec")
	if err != nil {
		return nil, err
	}
	if err := checkSupport(&cmd, s.driverFeatures()); err != nil {
		done(err)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{
		id: id, sandbox: s.b.id, owner: s.b.cachedRow().owner, command: command, mask: m, tty: cmd.TTY != nil, internal: cmd.Internal, detached: true, driverKept: s.hasDetacher(),
	}
	p.cancel.Store(&cancel)
	if err = s.f.processes.add(p); err == nil {
		if p.driverKept {
			err = s.detachProcess(ctx, p, &cmd)
		} else {
			err = s.emitProcessEvent(ctx, p, "process.started", nil)
		}
		if err != nil {
			s.f.processes.removeProcess(p)
		}
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), errKilled) { // a client that lists the processes may have killed it
			err = fmt.Errorf("%w: it was killed before it began: %w", atoll.ErrState, err)
		}
		err = causeOf(ctx, err)
		cancel(nil)
		done(err)
		return nil, err
	}
	if cmd.Stdin == nil {
		p.in = newInput()
		cmd.Stdin = p.in
	}
	p.connectControls(&cmd, s.driverFeatures())
	t := attachTaps(&cmd, &p.out, m, othersAlone)
	s.f.processes.wg.Go(func() {
		defer cancel(nil)
		if p.driverKept {
			s.followDetached(ctx, p, &cmd, t)
			done(nil)
			return
		}
		exit, err := s.execProcess(ctx, p, &cmd, nil, t)
		if err := s.emitProcessEvent(context.WithoutCancel(ctx), p, "process.exited", exitData(p, exit, err)); err != nil {
			s.f.log.Error("emit process event", "sandbox", s.b.id, "process", p.id, "err", err)
		}
		done(err)
	})
	return p, nil
}

// exitData returns the data of the event of a process that has ended.
func exitData(p *process, exit atoll.Exit, err error) map[string]string {
	data := map[string]string{"code": strconv.Itoa(exit.Code)}
	if exit.Signal != "" {
		data["signal"] = exit.Signal
	}
	if err != nil {
		data["error"] = p.mask.redact(err.Error())
	}
	return data
}

// checkSupport refuses a command that needs what the driver does not support, before it is
// detached.
func checkSupport(cmd *atoll.Cmd, ft atoll.Features) error {
	var errs []error
	for _, k := range []struct {
		asked, has bool
		what       string
	}{
		{cmd.TTY != nil, ft.TTY, "a terminal"},
		{cmd.Signals != nil, ft.Signals, "signals"},
		{cmd.Session, ft.Session, "a session"},
		{cmd.User != "" && cmd.User != "root", ft.Users, "user " + cmd.User},
	} {
		if k.asked && !k.has {
			errs = append(errs, fmt.Errorf("%s: %w by this driver", k.what, atoll.ErrUnsupported))
		}
	}
	return errors.Join(errs...)
}

// Processes returns the running commands and those that ended lately, oldest first, without those of atoll itself.
func (s *Sandbox) Processes(ctx context.Context) ([]atoll.Process, error) {
	list, err := s.AllProcesses(ctx)
	return slices.DeleteFunc(list, func(p atoll.Process) bool { return p.Internal }), err
}

// AllProcesses returns what Processes returns, with the commands of atoll itself.
func (s *Sandbox) AllProcesses(ctx context.Context) ([]atoll.Process, error) {
	if err := s.checkAccess("list processes", atoll.ScopeRead); err != nil {
		return nil, err
	}
	if err := s.checkExists(); err != nil {
		return nil, s.wrapError("list processes", err)
	}
	list := s.f.processes.list(s.b.id)
	infos := make([]atoll.Process, len(list))
	for i, p := range list {
		infos[i] = p.describe()
	}
	if !s.hasDetacher() {
		return infos, nil
	}
	kept, err := s.keptProcesses(ctx)
	if err != nil {
		return nil, s.wrapError("list processes", err)
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
	p, err := s.findProcess(ctx, "process", id, atoll.ScopeRead)
	if err != nil {
		return atoll.Process{}, err
	}
	return p.describe(), nil
}

// findProcess returns a process of the sandbox to a caller with the scope.
func (s *Sandbox) findProcess(ctx context.Context, op, id string, scope atoll.Scope) (*process, error) {
	if err := s.checkAccess(op, scope); err != nil {
		return nil, err
	}
	p := s.f.processes.find(s.b.id, id)
	if p == nil {
		var err error
		if p, err = s.rejoinDetached(ctx, id); err != nil {
			return nil, s.wrapError(op, err)
		}
	}
	if p == nil {
		return nil, s.wrapError(op, errNoProcess)
	}
	return p, nil
}

// Attachment configures a client's connection to a process.
type Attachment struct {
	Offset int64 // where the output begins; dropped output is skipped and reported to Lost; negative: only new output
	Stdout io.Writer
	Stderr io.Writer
	Stdin  io.Reader         // nil: none is written. Its end closes the process's stdin.
	Resize <-chan atoll.Size // nil: no resizing
	OnLost func(bytes int64) // nil: not reported
}

// Attach connects to a process until it ends, and returns its exit, or until ctx is done: then the
// process goes on. Any number of clients may be attached. A slow client misses output, which Lost
// reports, rather than slow the process down. Secrets are not hidden in the output: it is the
// owner's own.
//
// Attach does not wait for a pending Read of Stdin when it returns; the data of that Read is
// dropped. An error of Stdin other than io.EOF leaves the process's stdin open for others.
func (s *Sandbox) Attach(ctx context.Context, id string, a Attachment) (atoll.Exit, error) {
	scope := atoll.ScopeRead
	if a.Stdin != nil || a.Resize != nil {
		scope = atoll.ScopeRun
	}
	p, err := s.findProcess(ctx, "attach", id, scope)
	if err != nil {
		return atoll.Exit{}, err
	}
	total, _ := p.out.countWritten()
	switch {
	case a.Stdin != nil && p.in == nil:
		err = fmt.Errorf("%w: process %s has a standard input of its own: attach without one", atoll.ErrInvalid, id)
	case a.Offset > total:
		err = fmt.Errorf("%w: offset %d: process %s has written %d bytes so far", atoll.ErrInvalid, a.Offset, id, total)
	case a.Offset < 0:
		a.Offset = total
	}
	if err != nil {
		return atoll.Exit{}, s.wrapError("attach", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if a.Stdin != nil {
		go p.copyInput(ctx, a.Stdin)
	}
	if a.Resize != nil && p.resize != nil {
		resized := make(chan struct{})
		defer func() { cancel(); <-resized }()
		go func() {
			defer close(resized)
			relayValues(ctx.Done(), p.done, a.Resize, p.resize)
		}()
	}
	if err := p.copyOutput(ctx, a); err != nil {
		return atoll.Exit{}, s.wrapError("attach", err)
	}
	return p.waitExit()
}

// Signal sends a signal to a process, such as INT, TERM or KILL. KILL ends all its descendants, on
// every driver.
func (s *Sandbox) Signal(ctx context.Context, id, signal string) error {
	noted := s.startAudit("signal", id+" "+truncate(signal, 16))
	p, err := s.findProcess(ctx, "signal", id, atoll.ScopeRun)
	if err == nil {
		err = s.wrapError("signal", p.sendSignal(ctx, signal))
	}
	if err == nil && p.driverKept && signal != "KILL" {
		err = p.waitDelivered(ctx)
	}
	noted(err)
	return err
}

// waitDelivered waits until the last signal was delivered to a command that the driver keeps: the
// sender may exit right after.
func (p *process) waitDelivered(ctx context.Context) error {
	select {
	case p.signals <- "": // an empty value is accepted after the signal before it was delivered: see atoll.Detacher
		return nil
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signals are the names of the signals that may be sent.
var signals = []string{
	"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "SYS",
}

// sendSignal sends a signal. After KILL it waits for the end of the process.
func (p *process) sendSignal(ctx context.Context, signal string) error {
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
	case signal == "KILL" && !p.driverKept:
		p.kill()
		sent = nil
	case p.signals == nil:
		return fmt.Errorf("%w: process %s accepts no signal but KILL", atoll.ErrUnsupported, p.id)
	}
	select {
	case sent <- signal:
		if signal == "KILL" {
			return p.waitEnded(ctx)
		}
		return nil
	case <-p.done:
		if signal == "KILL" {
			return nil
		}
		return fmt.Errorf("%w: process %s has ended", atoll.ErrState, p.id)
	case <-ctx.Done():
		return timeoutError(context.Cause(ctx))
	}
}

// waitEnded waits until the process has ended.
func (p *process) waitEnded(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return timeoutError(context.Cause(ctx))
	}
}

// driverFeatures returns the cached features of the sandbox's driver.
func (s *Sandbox) driverFeatures() atoll.Features {
	if s.b.driver == nil {
		return atoll.Features{}
	}
	ft, _ := s.b.driver.cachedFeatures()
	return ft
}

// relayValues sends the values of one channel to another until from, end or gone is closed.
func relayValues[T any](end, gone <-chan struct{}, from <-chan T, to chan<- T) {
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
