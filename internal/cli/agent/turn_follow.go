package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// followTurn shows a turn until its end, and returns how it ended. Ctrl-C asks the
// agent to stop; a second one, or a while, ends it.
func (a commands) followTurn(ctx context.Context, c *client.Client, id string, after int64, v *turnView) (agent.Result, error) {
	keys := make(chan os.Signal, 4)
	signal.Notify(keys, os.Interrupt)
	defer signal.Stop(keys)
	asked := ctx.Done()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	f := &follower{a: a, c: c, id: id, view: v}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f.handleInterrupts(ctx, asked, keys, over)
	}()
	var result agent.Result
	err := c.TurnEvents(ctx, id, after, func(e agent.Event) error {
		if err := v.handleEvent(e); err != nil {
			return err
		}
		switch e.Type {
		case agent.PermissionRequested:
			return f.askPermission(ctx, *e.Permission)
		case agent.PermissionResolved:
			f.reportResolved(*e.Permission)
		case agent.MessageChanged:
			if t := v.typist; t != nil && e.Message.State == agent.MessageQueued {
				t.pause()
				t.addQueued(agent.Record{ID: e.Message.Turn}, t.sent[e.Message.ID])
				t.start(ctx)
			}
		case agent.Finished:
			result = *e.Result
		}
		return nil
	})
	close(over)
	<-done
	v.close()
	return result, err
}

// follower is a person who watches a turn.
type follower struct {
	a    commands
	c    *client.Client
	id   string
	view *turnView
	mine map[string]bool // permissions that were decided here
}

// handleInterrupts waits for Ctrl-C, which also ends asked.
func (f *follower) handleInterrupts(ctx context.Context, asked <-chan struct{}, keys <-chan os.Signal, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-asked:
	}
	f.printStatus("interrupting; Ctrl-C again ends it")
	_ = f.c.InterruptTurn(ctx, f.id) // an agent that can't be asked is ended below
	select {
	case <-keys: // the one that ended asked
	case <-over:
		return
	case <-time.After(tty.InterruptGrace):
	}
	select {
	case <-keys:
	case <-over:
		return
	case <-time.After(tty.InterruptGrace):
	}
	if err := f.c.CancelTurn(ctx, f.id); err != nil && !errors.Is(err, atoll.ErrNotFound) {
		f.printStatus("it can't be ended: %v", err)
	}
}

func (f *follower) printStatus(format string, args ...any) {
	if f.view.spin != nil {
		f.view.spin.hideFrame()
	}
	f.a.Progress("\natoll: "+format, args...)
}

// askPermission asks the person for permission, if there is one.
func (f *follower) askPermission(ctx context.Context, p agent.Permission) error {
	in, ok := f.a.In.(*os.File)
	if f.a.JSON {
		return nil // whoever reads the events decides
	}
	if !ok || !tty.IsTerminal(in) || !tty.IsTerminal(f.a.Err) {
		f.view.printPermission(f.id, p)
		return nil
	}
	if f.view.spin != nil {
		f.view.spin.hideFrame()
	}
	f.view.printRequest(p)
	fmt.Fprint(f.a.Err, "  [y]es, [a]lways, [n]o: ")
	keys := io.Reader(in)
	if t := f.view.typist; t != nil {
		t.pause()
		defer t.start(ctx)
		keys = t.input
	}
	key, err := readKey(in, keys)
	if err != nil {
		return err
	}
	d := agent.Decision{Allow: key == 'y' || key == 'a', Always: key == 'a'}
	if !d.Allow {
		d.Message = "the user does not permit this"
	}
	fmt.Fprintln(f.a.Err, map[byte]string{'y': "yes", 'a': "always", 'n': "no"}[key])
	err = f.c.DecideTurn(ctx, f.id, p.ID, d)
	if errors.Is(err, atoll.ErrNotFound) { // somebody else, or its deadline, was faster
		f.view.printStyledLine(output.Dim, "  it was decided meanwhile")
		return nil
	}
	if f.mine == nil {
		f.mine = make(map[string]bool)
	}
	f.mine[p.ID] = true
	if key == tty.CtrlC {
		_ = f.c.InterruptTurn(ctx, f.id) // likewise
	}
	return err
}

// describeTool describes a tool call in one line.
func describeTool(t *agent.ToolCall) string {
	what := output.Truncate(output.ToolCallTitle(t), 300)
	if t.Name != "" && !strings.HasPrefix(what, t.Name) {
		what = t.Name + ": " + what
	}
	return "may it use " + what
}

// reportResolved prints a decision that another client made.
func (f *follower) reportResolved(p agent.Permission) {
	if f.a.JSON || f.mine[p.ID] || p.Decision == nil {
		return
	}
	what := "denied"
	if p.Decision.Allow {
		what = "allowed"
	}
	if p.By != "" {
		what += " by " + p.By
	}
	f.view.printStyledLine(output.Dim, "  "+what)
}

func withinText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", within " + time.Until(t).Round(time.Second).String()
}

// readKey reads one key that means something: y, a, n, or what stops.
func readKey(in *os.File, keys io.Reader) (byte, error) {
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return 0, fmt.Errorf("the local terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(in.Fd()), old) }() // nobody to tell
	b := make([]byte, 1)
	for {
		if _, err := keys.Read(b); err != nil {
			return 0, err
		}
		switch b[0] {
		case 'y', 'Y':
			return 'y', nil
		case 'a', 'A':
			return 'a', nil
		case 'n', 'N', 27, 4:
			return 'n', nil
		case tty.CtrlC:
			return tty.CtrlC, nil
		}
	}
}

// succeeded reports whether an agent, or a model, had the turn at all, or a hook would
// not have it.
func succeeded(r agent.Result) bool {
	return r.Outcome == agent.OK || r.Code == "denied" || r.Code != "program" && (r.Exit != nil || r.Usage.Requests > 0)
}

// turnStatus is the exit status of atoll after a turn.
func turnStatus(r agent.Result) error {
	switch r.Outcome {
	case agent.OK:
		return nil
	case agent.Failed, agent.Crashed:
		if !succeeded(r) {
			return exitcode.Silent(exitcode.Failed)
		}
	case agent.Timeout:
		return exitcode.Silent(exitcode.Timeout)
	case agent.Aborted:
		return exitcode.Silent(exitcode.Interrupted)
	}
	return exitcode.Silent(exitcode.Problems)
}
