package fleet

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// StartedProcess is a command that [Sandbox.StartAttached] has started.
type StartedProcess struct {
	atoll.Process

	p *process
}

// Done returns a channel that is closed when the command has ended and its output was written.
func (s *StartedProcess) Done() <-chan struct{} { return s.p.done }

// Exit waits for the end of the command and returns how it ended.
func (s *StartedProcess) Exit() (atoll.Exit, error) { return s.p.waitExit() }

// Kill ends the command with all its descendants.
func (s *StartedProcess) Kill() { s.p.kill() }

// StartAttached starts a command with its first client: cmd.Stdout and cmd.Stderr get its whole
// output and slow it down while ctx is not done. After that the command goes on without this
// client; others can attach to it as to one of [Sandbox.StartProcess], and write its standard input
// if cmd.Stdin is nil. It ends with the sandbox and with this process of atoll. Writers that fail
// are not written to again.
func (s *Sandbox) StartAttached(ctx context.Context, id string, cmd atoll.Cmd) (*StartedProcess, error) {
	m := s.secretMask(cmd.Env)
	command := m.redactCommand(&cmd)
	noted := s.startAudit("start process", command)
	p, err := s.startAttached(ctx, id, cmd, m, command)
	err = m.redactError(s.wrapError("exec", err))
	noted(err)
	if err != nil {
		return nil, err
	}
	return &StartedProcess{p.describe(), p}, nil
}

func (s *Sandbox) startAttached(client context.Context, id string, cmd atoll.Cmd, m *mask, command string) (*process, error) {
	if err := errors.Join(context.Cause(client), cmd.Check()); err != nil {
		return nil, err
	}
	ctx, done, err := s.beginCall(context.WithoutCancel(client), "exec")
	if err != nil {
		return nil, err
	}
	if err := checkSupport(&cmd, s.driverFeatures()); err != nil {
		done(err)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p := &process{id: id, sandbox: s.b.id, owner: s.b.cachedRow().owner, command: command, args: m.redactArgs(cmd.Args), mask: m, tty: cmd.TTY != nil, detached: true}
	p.cancel.Store(&cancel)
	if cmd.Stdin == nil {
		p.in = newInput()
		cmd.Stdin = p.in
	}
	if err := s.f.processes.add(p); err != nil {
		cancel(nil)
		done(err)
		return nil, err
	}
	for _, w := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		if *w != nil {
			*w = &clientWriter{client: client, to: *w}
		}
	}
	p.connectControls(&cmd, s.driverFeatures())
	t := attachTaps(&cmd, &p.out, m, othersAlone)
	s.f.processes.wg.Go(func() {
		defer cancel(nil)
		_, err := s.execProcess(ctx, p, &cmd, nil, t)
		done(err)
	})
	return p, nil
}

// clientWriter writes to a client until it is gone, and drops the rest. A command writes to it from one
// goroutine.
type clientWriter struct {
	client context.Context //nolint:containedctx // of the client, not of the calls
	to     io.Writer
	gone   bool
}

// Write writes to the client. It never fails: the command goes on without the client.
func (w *clientWriter) Write(b []byte) (int, error) {
	if !w.gone && w.client.Err() == nil {
		_, err := w.to.Write(b)
		w.gone = err != nil
	}
	return len(b), nil
}

// ProcessByNumber returns the command whose [atoll.Process.Number] is n.
func (s *Sandbox) ProcessByNumber(ctx context.Context, n int) (atoll.Process, error) {
	for _, p := range s.f.processes.list(s.b.id) { // the usual case needs no list of the driver's
		if d := p.describe(); d.Number() == n {
			return d, s.checkAccess("process", atoll.ScopeRead)
		}
	}
	list, err := s.Processes(ctx)
	if err != nil {
		return atoll.Process{}, err
	}
	for _, p := range list {
		if p.Number() == n {
			return p, nil
		}
	}
	return atoll.Process{}, s.wrapError("process", errNoProcess)
}

// WriteInput writes to the standard input of a process that clients write to.
func (s *Sandbox) WriteInput(ctx context.Context, id string, b []byte) error {
	p, err := s.findInput(ctx, "write input", id)
	if err != nil {
		return err
	}
	return s.wrapError("write input", p.in.write(ctx, b))
}

// CloseInput ends the standard input of a process that clients write to.
func (s *Sandbox) CloseInput(ctx context.Context, id string) error {
	p, err := s.findInput(ctx, "close input", id)
	if err != nil {
		return err
	}
	p.in.close()
	return nil
}

// findInput returns a process that runs and whose standard input clients write.
func (s *Sandbox) findInput(ctx context.Context, op, id string) (*process, error) {
	p, err := s.findProcess(ctx, op, id, atoll.ScopeRun)
	switch {
	case err != nil:
		return nil, err
	case p.in == nil:
		return nil, s.wrapError(op, errOwnInput)
	}
	select {
	case <-p.done:
		return nil, s.wrapError(op, errNoProcess)
	default:
		return p, nil
	}
}

// Resize changes the size of the terminal of a process.
func (s *Sandbox) Resize(ctx context.Context, id string, size atoll.Size) error {
	p, err := s.findProcess(ctx, "resize", id, atoll.ScopeRun)
	if err != nil {
		return err
	}
	if p.resize == nil {
		return s.wrapError("resize", errNoTerminal)
	}
	select {
	case p.resize <- size:
		return nil
	case <-p.done:
		return s.wrapError("resize", errNoProcess)
	case <-ctx.Done():
		return s.wrapError("resize", timeoutError(context.Cause(ctx)))
	}
}

// redactArgs returns arguments without secrets.
func (m *mask) redactArgs(args []string) []string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = strings.ToValidUTF8(m.redact(a), "\uFFFD")
	}
	return list
}
