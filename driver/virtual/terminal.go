package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
)

// OpenTerminal starts a command on a persistent terminal. It ends when the sandbox is stopped or
// destroyed, or with this process.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	t, err := s.terminals.OpenTerminal(ctx, spec)
	return t, s.wrapError("open terminal", err)
}

// ListTerminals returns the terminals, oldest first.
func (s *Sandbox) ListTerminals(ctx context.Context) ([]atoll.Terminal, error) {
	if err := s.checkState(false); err != nil {
		return nil, s.wrapError("list terminals", err)
	}
	list, err := s.terminals.ListTerminals(ctx)
	return list, s.wrapError("list terminals", err)
}

// CloseTerminal ends the command on a terminal and removes the terminal.
func (s *Sandbox) CloseTerminal(ctx context.Context, name string) error {
	if err := s.checkState(false); err != nil {
		return s.wrapError("close terminal", err)
	}
	return s.wrapError("close terminal", s.terminals.CloseTerminal(ctx, name))
}

// AttachTerminal connects a caller to a terminal; see atoll.TerminalAttacher.
func (s *Sandbox) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	if err := s.checkState(false); err != nil {
		return atoll.Exit{}, s.wrapError("attach", err)
	}
	exit, err := s.terminals.AttachTerminal(ctx, name, a)
	return exit, s.wrapError("attach", err)
}

// ReadTerminal returns the screen of a terminal.
func (s *Sandbox) ReadTerminal(ctx context.Context, name string) (atoll.Screen, error) {
	if err := s.checkState(false); err != nil {
		return atoll.Screen{}, s.wrapError("read terminal", err)
	}
	screen, err := s.terminals.ReadTerminal(ctx, name)
	return screen, s.wrapError("read terminal", err)
}

// SendTerminal types input on a terminal.
func (s *Sandbox) SendTerminal(ctx context.Context, name string, input []byte) error {
	if err := s.checkState(false); err != nil {
		return s.wrapError("send", err)
	}
	return s.wrapError("send", s.terminals.SendTerminal(ctx, name, input))
}

// errClosed is the cause when a terminal's command is ended by CloseTerminal.
var errClosed = errors.New("its terminal was closed")

// startTerminal runs a command on a terminal as an operation that lasts as long as the command.
func (s *Sandbox) startTerminal(ctx context.Context, spec *atoll.TerminalSpec, t *vt.Terminal) (vt.Program, error) {
	if spec.User != "" && spec.User != "root" {
		return nil, fmt.Errorf("user %s: %w by the virtual driver, which has only root", spec.User, atoll.ErrUnsupported)
	}
	if len(spec.Args) == 0 {
		spec.Args = []string{"bash"}
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	ctx, op, err := s.beginOperation(life, true)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r, w := io.Pipe()
	p := &terminalCommand{keys: w, sizes: make(chan atoll.Size, 1), cancel: op.cancel}
	cmd := atoll.Cmd{
		Args: spec.Args, Dir: spec.Dir, Env: append([]string{"TERM=xterm-256color", "COLORTERM=truecolor"}, spec.Env...),
		Stdin: r, Stdout: t, TTY: &atoll.TTY{Size: spec.Size, Resize: p.sizes},
	}
	files, _, _ := s.currentParts()
	if cmd.Dir != "" {
		if info, err := files.Stat(cmd.Dir); err != nil || !info.IsDir() {
			op.close()
			cancel(nil)
			return nil, fmt.Errorf("dir %s: %w", cmd.Dir, errors.Join(err, atoll.ErrInvalid))
		}
	}
	go func() {
		exit, err := s.execProcess(ctx, cmd)
		if err != nil {
			exit.Code, exit.Signal = 128+9, "KILL"
		}
		_ = r.Close()                          // writes of input fail from now on
		_ = s.save(context.WithoutCancel(ctx)) // the save of the next command reports an error
		op.close()
		cancel(nil)
		t.RecordExit(exit)
	}()
	return p, nil
}

// terminalCommand is a command on a terminal.
type terminalCommand struct {
	keys   io.Writer
	sizes  chan atoll.Size
	cancel context.CancelCauseFunc
}

// Write sends input to the command.
func (p *terminalCommand) Write(b []byte) (int, error) { return p.keys.Write(b) }

// Resize sends the newest size to the command.
func (p *terminalCommand) Resize(size atoll.Size) {
	for {
		select {
		case p.sizes <- size:
			return
		default:
		}
		select {
		case <-p.sizes: // an older one that the command has not read
		default:
		}
	}
}

// Kill ends the command.
func (p *terminalCommand) Kill() { p.cancel(errClosed) }
