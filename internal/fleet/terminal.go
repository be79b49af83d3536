package fleet

import (
	"context"
	"database/sql"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// OpenTerminal starts a persistent terminal with a command or a shell. Only attached clients keep
// the sandbox in use.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	if err := s.checkTerminalChange("open terminal"); err != nil {
		return atoll.Terminal{}, err
	}
	m := s.secretMask(spec.Env)
	cmd := atoll.Cmd{Args: spec.Args, Env: spec.Env}
	noted := s.startAudit("open terminal", m.redactCommand(&cmd))
	var t atoll.Terminal
	err := callInner(ctx, s, "open terminal", func(ctx context.Context, d atoll.Terminals) (err error) {
		if cmd, err = s.b.addEnv(ctx, s.f, cmd); err != nil {
			return err
		}
		spec.Env = cmd.Env
		if t, err = d.OpenTerminal(ctx, spec); err != nil {
			return err
		}
		t.Command = m.redact(t.Command)
		return s.terminalEvent(ctx, "terminal.opened", t.Name, map[string]string{"command": truncate(t.Command, 1<<10)})
	})
	err = m.redactError(err)
	noted(err)
	return t, err
}

// terminalEvent emits an event about a terminal.
func (s *Sandbox) terminalEvent(ctx context.Context, what, name string, data map[string]string) error {
	r := s.b.cachedRow()
	ctx = context.WithoutCancel(ctx)
	if data == nil {
		data = make(map[string]string)
	}
	data["terminal"] = name
	return s.f.registry.Write(ctx, func(tx *sql.Tx) error {
		return s.f.events.Emit(ctx, tx, atoll.Event{Type: what, Owner: r.owner, Object: r.id, Name: r.name, Data: data})
	})
}

// ListTerminals returns the terminals, oldest first.
func (s *Sandbox) ListTerminals(ctx context.Context) (list []atoll.Terminal, err error) {
	m := s.secretMask(nil)
	err = callInner(ctx, s, "list terminals", func(ctx context.Context, d atoll.Terminals) (err error) {
		list, err = d.ListTerminals(ctx)
		list = slices.DeleteFunc(list, func(t atoll.Terminal) bool { return !s.a.caller.canSee(t.Name) })
		for i := range list {
			list[i].Command = m.redact(list[i].Command)
			if s.a.caller.Link != nil {
				list[i].Viewers = nil // names of the owner's tokens are not for whom the owner has given a link
			}
		}
		return err
	})
	return list, err
}

// CloseTerminal ends the program of a terminal and removes it.
func (s *Sandbox) CloseTerminal(ctx context.Context, name string) error {
	if err := s.checkTerminalChange("close terminal"); err != nil {
		return err
	}
	noted := s.startAudit("close terminal", name)
	err := callInner(ctx, s, "close terminal", func(ctx context.Context, d atoll.Terminals) error {
		if err := d.CloseTerminal(ctx, name); err != nil {
			return err
		}
		return s.terminalEvent(ctx, "terminal.closed", name, nil)
	})
	noted(err)
	return err
}

// AttachTerminal attaches to a terminal; see [atoll.TerminalAttacher]. Secrets are not hidden in its
// output: it is the owner's own. Watching needs only [atoll.ScopeRead].
func (s *Sandbox) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (exit atoll.Exit, err error) {
	op := "attach terminal"
	if a.ReadOnly {
		op = "watch terminal"
	}
	if err := s.checkTerminal(op, name); err != nil {
		return exit, err
	}
	a.Viewer = s.a.caller.viewerName()
	shown := &viewerOutput{Writer: a.Stdout, emit: func(what string) { s.viewerEvent(ctx, what, name, a.Viewer) }}
	if a.Stdout != nil {
		a.Stdout = shown
	}
	noted := s.startAudit(op, name)
	err = callInner(ctx, s, op, func(ctx context.Context, d atoll.TerminalAttacher) (err error) {
		exit, err = d.AttachTerminal(ctx, name, a)
		return err
	})
	noted(err)
	shown.leave()
	return exit, err
}

// maxViewerName is the largest length in bytes of a viewer's name.
const maxViewerName = 200

// viewerName returns the name of the caller for others who use the same terminal.
func (c *Caller) viewerName() string {
	name := c.Owner.String()
	if c.Owner == atoll.Local {
		name = c.Owner.User
	}
	if c.Name != "" {
		name += " (" + c.Name + ")"
	}
	if c.Link != nil {
		name = "link of " + name
	}
	return truncate(name, maxViewerName)
}

// viewerOutput is the output of a terminal for a viewer. It reports that the viewer is in the list when the first output was
// written.
type viewerOutput struct {
	io.Writer
	emit func(event string)

	mu    sync.Mutex
	shown bool // guarded by mu
	left  bool // guarded by mu; a write that is under way may outlast the attachment
}

func (o *viewerOutput) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.shown && !o.left && err == nil {
		o.shown = true
		o.emit("terminal.attached")
	}
	return n, err
}

// leave reports that the viewer has left.
func (o *viewerOutput) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left = true; o.shown {
		o.emit("terminal.detached")
	}
}

// Viewers who come and go all the time must not push other events of the owner out: so many events about the viewers of a sandbox
// are stored at once, and then one in viewerEventInterval.
const (
	viewerEvents        = 20
	viewerEventInterval = 30 * time.Second
)

// viewerEvent emits an event about a viewer of a terminal, which works without it too.
func (s *Sandbox) viewerEvent(ctx context.Context, what, terminal, viewer string) {
	if !s.b.viewerEvents.Allow() {
		return
	}
	if err := s.terminalEvent(ctx, what, terminal, map[string]string{"viewer": viewer}); err != nil {
		s.f.log.Warn("an event about a terminal could not be stored", "event", what, "id", s.b.id, "err", err)
	}
}

// ReadTerminal returns the screen of a terminal.
func (s *Sandbox) ReadTerminal(ctx context.Context, name string) (screen atoll.Screen, err error) {
	if err := s.checkTerminal("read terminal", name); err != nil {
		return screen, err
	}
	err = callInner(ctx, s, "read terminal", func(ctx context.Context, d atoll.TerminalAttacher) (err error) {
		screen, err = d.ReadTerminal(ctx, name)
		return err
	})
	return screen, err
}

// SendTerminal sends input to a terminal. The input is recorded nowhere: it may be a password.
func (s *Sandbox) SendTerminal(ctx context.Context, name string, input []byte) error {
	if err := s.checkTerminal("send to terminal", name); err != nil {
		return err
	}
	noted := s.startAudit("send to terminal", name)
	err := callInner(ctx, s, "send to terminal", func(ctx context.Context, d atoll.TerminalAttacher) error {
		return d.SendTerminal(ctx, name, input)
	})
	noted(err)
	return err
}
