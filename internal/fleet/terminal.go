package fleet

import (
	"context"
	"database/sql"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// OpenTerminal starts a command on a terminal that stays, or a shell. It does
// not keep the sandbox in use: those who are attached do.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	if err := s.mayChoose("open terminal"); err != nil {
		return atoll.Terminal{}, err
	}
	m := s.mask(spec.Env)
	cmd := s.b.lend(atoll.Cmd{Args: spec.Args, Env: spec.Env})
	noted := s.audited("open terminal", m.command(&cmd))
	spec.Env = cmd.Env
	var t atoll.Terminal
	err := with(ctx, s, "open terminal", func(ctx context.Context, d atoll.Terminals) (err error) {
		if t, err = d.OpenTerminal(ctx, spec); err != nil {
			return err
		}
		t.Command = m.text(t.Command)
		return s.terminalEvent(ctx, "terminal.opened", t.Name, map[string]string{"command": clip(t.Command, 1<<10)})
	})
	err = m.error(err)
	noted(err)
	return t, err
}

// terminalEvent says what happened to a terminal.
func (s *Sandbox) terminalEvent(ctx context.Context, what, name string, data map[string]string) error {
	r := s.b.known()
	if data == nil {
		data = make(map[string]string)
	}
	data["terminal"] = name
	return s.f.store.write(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		return s.f.emit(ctx, tx, atoll.Event{Type: what, Owner: r.owner, Object: r.id, Name: r.name, Data: data})
	})
}

// ListTerminals returns the terminals, oldest first.
func (s *Sandbox) ListTerminals(ctx context.Context) (list []atoll.Terminal, err error) {
	m := s.mask(nil)
	err = with(ctx, s, "list terminals", func(ctx context.Context, d atoll.Terminals) (err error) {
		list, err = d.ListTerminals(ctx)
		list = slices.DeleteFunc(list, func(t atoll.Terminal) bool { return !s.a.caller.shows(t.Name) })
		for i := range list {
			list[i].Command = m.text(list[i].Command)
		}
		return err
	})
	return list, err
}

// CloseTerminal ends what runs on a terminal and forgets it.
func (s *Sandbox) CloseTerminal(ctx context.Context, name string) error {
	if err := s.mayChoose("close terminal"); err != nil {
		return err
	}
	noted := s.audited("close terminal", name)
	err := with(ctx, s, "close terminal", func(ctx context.Context, d atoll.Terminals) error {
		if err := d.CloseTerminal(ctx, name); err != nil {
			return err
		}
		return s.terminalEvent(ctx, "terminal.closed", name, nil)
	})
	noted(err)
	return err
}

// AttachTerminal shows a terminal; see [atoll.TerminalUser]. What it shows is
// the owner's own: no secrets are hidden in it. Watching it needs only
// [atoll.ScopeRead].
func (s *Sandbox) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (exit atoll.Exit, err error) {
	op := "attach terminal"
	if a.ReadOnly {
		op = "watch terminal"
	}
	if err := s.mayShow(op, name); err != nil {
		return exit, err
	}
	noted := s.audited(op, name)
	err = with(ctx, s, op, func(ctx context.Context, d atoll.TerminalUser) (err error) {
		exit, err = d.AttachTerminal(ctx, name, a)
		return err
	})
	noted(err)
	return exit, err
}

// ReadTerminal returns a terminal's screen.
func (s *Sandbox) ReadTerminal(ctx context.Context, name string) (screen atoll.Screen, err error) {
	if err := s.mayShow("read terminal", name); err != nil {
		return screen, err
	}
	err = with(ctx, s, "read terminal", func(ctx context.Context, d atoll.TerminalUser) (err error) {
		screen, err = d.ReadTerminal(ctx, name)
		return err
	})
	return screen, err
}

// SendTerminal types on a terminal. What is typed is noted nowhere: it may be a
// password.
func (s *Sandbox) SendTerminal(ctx context.Context, name string, input []byte) error {
	if err := s.mayShow("send to terminal", name); err != nil {
		return err
	}
	noted := s.audited("send to terminal", name)
	err := with(ctx, s, "send to terminal", func(ctx context.Context, d atoll.TerminalUser) error {
		return d.SendTerminal(ctx, name, input)
	})
	noted(err)
	return err
}
