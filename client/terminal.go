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
	_ atoll.Terminals    = (*Sandbox)(nil)
	_ atoll.TerminalUser = (*Sandbox)(nil)
)

// terminalWindow is how much of what a terminal shows may be under way: little,
// so that who is slow sees what is there now.
const terminalWindow = 128 << 10

// OpenTerminal starts a command on a terminal that stays, or a shell.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	k := s.call("open terminal", "", "/terminals")
	var t atoll.Terminal
	if err := spec.Check(); err != nil {
		return t, k.fail(err)
	}
	err := s.c.post(ctx, k, spec, &t)
	return t, err
}

// ListTerminals returns the terminals, oldest first.
func (s *Sandbox) ListTerminals(ctx context.Context) ([]atoll.Terminal, error) {
	return list[atoll.Terminal](ctx, s.c, s.call("list terminals", "", "/terminals"))
}

// terminal returns a call to one of a terminal's paths.
func (s *Sandbox) terminal(op, method, name, path string) (call, error) {
	k := s.call(op, method, "/terminals/"+seg(name)+path)
	if atoll.CheckName(name) != nil {
		return k, k.fail(fmt.Errorf("terminal %q: %w", name, atoll.ErrNotFound))
	}
	return k, nil
}

// CloseTerminal ends what runs on a terminal and forgets it.
func (s *Sandbox) CloseTerminal(ctx context.Context, name string) error {
	k, err := s.terminal("close terminal", http.MethodDelete, name, "")
	if err != nil {
		return err
	}
	return s.c.get(ctx, k, nil)
}

// ReadTerminal returns a terminal's screen as text.
func (s *Sandbox) ReadTerminal(ctx context.Context, name string) (atoll.Screen, error) {
	var screen atoll.Screen
	k, err := s.terminal("read terminal", "", name, "/screen")
	if err == nil {
		err = s.c.get(ctx, k, &screen)
	}
	return screen, err
}

// SendTerminal types on a terminal.
func (s *Sandbox) SendTerminal(ctx context.Context, name string, input []byte) error {
	k, err := s.terminal("send to terminal", "", name, "/input")
	if err != nil {
		return err
	}
	return s.c.post(ctx, k, wire.Input{Input: input}, nil)
}

// AttachTerminal shows a terminal until its command has ended, or ctx is done.
func (s *Sandbox) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	k, err := s.terminal("attach", "", name, "/attach")
	if err != nil {
		return atoll.Exit{}, err
	}
	if ctx.Err() != nil {
		return atoll.Exit{}, k.fail(ended(ctx))
	}
	if a.Stdout == nil {
		return atoll.Exit{}, k.fail(fmt.Errorf("%w: an attachment without Stdout", atoll.ErrInvalid))
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
	flag(k.query, "read_only", a.ReadOnly)
	flag(k.query, "history", a.History)
	flag(k.query, "sized", a.Sized != nil)
	conn, err := s.c.upgrade(ctx, k, wire.ExecProtocol)
	if err != nil {
		return atoll.Exit{}, err
	}
	st := newStream(s.c, k, conn, atoll.Cmd{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: io.Discard})
	st.resize, st.sized, st.window, st.attached = a.Resize, a.Sized, terminalWindow, true
	return st.run(ctx, nil)
}
