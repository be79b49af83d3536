package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

var (
	_ atoll.Terminals        = (*Sandbox)(nil)
	_ atoll.TerminalAttacher = (*Sandbox)(nil)
)

// terminalWindow is the window for terminal output in bytes: small,
// so that a slow viewer sees the current screen.
const terminalWindow = 128 << 10

// OpenTerminal starts a command, or a shell, on a persistent terminal.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	k := s.newCall("open terminal", "", "/terminals")
	var t atoll.Terminal
	if err := spec.Check(); err != nil {
		return t, k.wrapError(err)
	}
	err := s.c.postJSON(ctx, k, spec, &t)
	return t, err
}

// ListTerminals returns the terminals, oldest first.
func (s *Sandbox) ListTerminals(ctx context.Context) ([]atoll.Terminal, error) {
	return getList[atoll.Terminal](ctx, s.c, s.newCall("list terminals", "", "/terminals"))
}

// terminalCall returns a call to one of a terminal's paths.
func (s *Sandbox) terminalCall(op, method, name, path string) (call, error) {
	k := s.newCall(op, method, "/terminals/"+escapeSegment(name)+path)
	if atoll.CheckName(name) != nil {
		return k, k.wrapError(fmt.Errorf("terminal %q: %w", name, atoll.ErrNotFound))
	}
	return k, nil
}

// CloseTerminal ends the command of a terminal and removes the terminal.
func (s *Sandbox) CloseTerminal(ctx context.Context, name string) error {
	k, err := s.terminalCall("close terminal", http.MethodDelete, name, "")
	if err != nil {
		return err
	}
	return s.c.getJSON(ctx, k, nil)
}

// ReadTerminal returns a terminal's screen as text.
func (s *Sandbox) ReadTerminal(ctx context.Context, name string) (atoll.Screen, error) {
	var screen atoll.Screen
	k, err := s.terminalCall("read terminal", "", name, "/screen")
	if err == nil {
		err = s.c.getJSON(ctx, k, &screen)
	}
	return screen, err
}

// SendTerminal sends input to a terminal.
func (s *Sandbox) SendTerminal(ctx context.Context, name string, input []byte) error {
	k, err := s.terminalCall("send to terminal", "", name, "/input")
	if err != nil {
		return err
	}
	return s.c.postJSON(ctx, k, wire.Input{Input: input}, nil)
}

// AttachTerminal connects to a terminal until its command has exited or ctx is done.
func (s *Sandbox) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	k, err := s.terminalCall("attach", "", name, "/attach")
	if err != nil {
		return atoll.Exit{}, err
	}
	if ctx.Err() != nil {
		return atoll.Exit{}, k.wrapError(contextError(ctx))
	}
	if a.Stdout == nil {
		return atoll.Exit{}, k.wrapError(fmt.Errorf("%w: an attachment without Stdout", atoll.ErrInvalid))
	}
	if a.ReadOnly {
		a.Stdin = nil
	}
	k.query = url.Values{"window": {strconv.Itoa(terminalWindow)}}
	for name, n := range map[string]uint16{"rows": a.Rows, "cols": a.Cols} {
		if n > 0 {
			k.query.Set(name, strconv.Itoa(int(n)))
		}
	}
	setFlag(k.query, "read_only", a.ReadOnly)
	setFlag(k.query, "history", a.History)
	setFlag(k.query, "sized", a.OnResize != nil)
	conn, err := s.c.openWebSocket(ctx, k, wire.ExecProtocol)
	if err != nil {
		return atoll.Exit{}, err
	}
	st := newStream(s.c, k, conn, atoll.Cmd{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: io.Discard})
	st.resize, st.sized, st.window, st.attached = a.Resize, a.OnResize, terminalWindow, true
	return st.runCommand(ctx, nil)
}
