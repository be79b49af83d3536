package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/vt"
)

// OpenTerminal starts a command on a terminal that stays; it ends with the
// sandbox, when that is stopped, or with this process.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	t, err := s.terminals.OpenTerminal(ctx, spec)
	return t, s.fail("open terminal", err)
}

// ListTerminals returns the terminals, oldest first.
func (s *Sandbox) ListTerminals(ctx context.Context) ([]atoll.Terminal, error) {
	if err := s.refuseLocked(false); err != nil {
		return nil, s.fail("list terminals", err)
	}
	list, err := s.terminals.ListTerminals(ctx)
	return list, s.fail("list terminals", err)
}

// CloseTerminal ends what runs on a terminal and forgets it.
func (s *Sandbox) CloseTerminal(ctx context.Context, name string) error {
	if err := s.refuseLocked(false); err != nil {
		return s.fail("close terminal", err)
	}
	return s.fail("close terminal", s.terminals.CloseTerminal(ctx, name))
}

// AttachTerminal shows a terminal; see atoll.TerminalUser.
func (s *Sandbox) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	if err := s.refuseLocked(false); err != nil {
		return atoll.Exit{}, s.fail("attach", err)
	}
	exit, err := s.terminals.AttachTerminal(ctx, name, a)
	return exit, s.fail("attach", err)
}

// ReadTerminal returns a terminal's screen.
func (s *Sandbox) ReadTerminal(ctx context.Context, name string) (atoll.Screen, error) {
	if err := s.refuseLocked(false); err != nil {
		return atoll.Screen{}, s.fail("read terminal", err)
	}
	screen, err := s.terminals.ReadTerminal(ctx, name)
	return screen, s.fail("read terminal", err)
}

// SendTerminal types.
func (s *Sandbox) SendTerminal(ctx context.Context, name string, input []byte) error {
	if err := s.refuseLocked(false); err != nil {
		return s.fail("send", err)
	}
	return s.fail("send", s.terminals.SendTerminal(ctx, name, input))
}

// errClosed is why a terminal's command ends.
var errClosed = errors.New("its terminal was closed")

// startTerminal runs a command on a terminal: an operation until it ends.
func (s *Sandbox) startTerminal(ctx context.Context, spec *atoll.TerminalSpec, t *vt.Shared) (vt.Program, error) {
	if spec.User != "" && spec.User != "root" {
		return nil, fmt.Errorf("user %s: %w by the virtual driver, which has only root", spec.User, atoll.ErrUnsupported)
	}
	if len(spec.Args) == 0 {
		spec.Args = []string{"bash"}
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	ctx, op, err := s.begin(life, true)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r, w := io.Pipe()
	p := &onTerminal{keys: w, sizes: make(chan atoll.Size, 1), cancel: op.cancel}
	cmd := atoll.Cmd{
		Args: spec.Args, Dir: spec.Dir, Env: append([]string{"TERM=xterm-256color", "COLORTERM=truecolor"}, spec.Env...),
		Stdin: r, Stdout: t, TTY: &atoll.TTY{Size: spec.Size, Resize: p.sizes},
	}
	files, _, _ := s.parts()
	if cmd.Dir != "" {
		if info, err := files.Stat(cmd.Dir); err != nil || !info.IsDir() {
			op.end()
			cancel(nil)
			return nil, fmt.Errorf("dir %s: %w", cmd.Dir, errors.Join(err, atoll.ErrInvalid))
		}
	}
	go func() {
		exit, err := s.execProcess(ctx, cmd)
		if err != nil {
			exit.Code, exit.Signal = 128+9, "KILL"
		}
		_ = r.Close()                          // who types hears of it
		_ = s.save(context.WithoutCancel(ctx)) // the next command's save says what is wrong
		op.end()
		cancel(nil)
		t.End(exit)
	}()
	return p, nil
}

// onTerminal is a command on a terminal.
type onTerminal struct {
	keys   io.Writer
	sizes  chan atoll.Size
	cancel context.CancelCauseFunc
}

// Write types.
func (p *onTerminal) Write(b []byte) (int, error) { return p.keys.Write(b) }

// Resize passes on the newest size.
func (p *onTerminal) Resize(size atoll.Size) {
	for {
		select {
		case p.sizes <- size:
			return
		default:
		}
		select {
		case <-p.sizes: // one that it has not seen yet
		default:
		}
	}
}

// Kill ends the command.
func (p *onTerminal) Kill() { p.cancel(errClosed) }
