package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The operations of commands that go on without their caller.
const (
	OpDetach   Op = "detach"   // a command; its atoll.Process is answered
	OpAttach   Op = "attach"   // the id of one; then frames as of OpExec, without its end with the channel
	OpDetached Op = "detached" // answers all of them
	OpSignal   Op = "signal"   // a signalBody; answered when the signal is sent
)

// signalBody is a signal to a detached command.
type signalBody struct {
	Process string `json:"process"`
	Signal  string `json:"signal"`
}

var _ atoll.Detacher = (*Link)(nil)

// Detach starts a command that goes on alone; see atoll.Detacher. Unless it has
// a timeout, or the sandbox has, it has none.
func (l *Link) Detach(ctx context.Context, cmd atoll.Cmd) (p atoll.Process, err error) {
	if err := cmd.Check(); err != nil {
		return p, l.fail("detach", err)
	}
	own := timeout(cmd.Timeout, l.Spec.Timeouts.Exec)
	l.complete(&cmd)
	cmd.Timeout = own
	cmd.Signals = nil
	err = l.do(ctx, "detach", func(c *Client) error {
		st, err := c.mux.OpenStream(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
		}
		if err := greet(ctx, st, &Request{Op: OpDetach, Command: wire.CommandOf(&cmd)}, &p); err != nil {
			return err
		}
		return st.Close()
	})
	p.Sandbox = l.ID
	return p, err
}

// Reattach joins the caller to a detached command; see atoll.Detacher.
func (l *Link) Reattach(ctx context.Context, id string, streams atoll.Cmd) (exit atoll.Exit, err error) {
	body, err := json.Marshal(id)
	if err != nil {
		return exit, l.fail("attach", err)
	}
	err = l.do(ctx, "attach", func(c *Client) error {
		st, err := c.open(ctx, &Request{Op: OpAttach, Body: body, Input: streams.Stdin != nil})
		if err != nil {
			return err
		}
		x := newConversation(st, &streams)
		// A frame could still be unread when the caller hangs up, and be lost with
		// the connection: an answer can't come too early.
		x.signal = func(name string) error {
			err := c.call(ctx, OpSignal, signalBody{Process: id, Signal: name}, nil)
			if errors.Is(err, atoll.ErrUnsupported) { // a guest of before
				return x.send(FrameSignal, []byte(name))
			}
			return err
		}
		exit, err = x.run(ctx, func() { _ = st.Reset() }) // it goes on
		return err
	})
	return exit, err
}

// Detached returns the detached commands, oldest first.
func (l *Link) Detached(ctx context.Context) ([]atoll.Process, error) {
	var list []atoll.Process
	err := l.do(ctx, "processes", func(c *Client) error { return c.call(ctx, OpDetached, nil, &list) })
	if len(list) > mostProcesses {
		list = list[:mostProcesses]
	}
	for i := range list {
		list[i].Sandbox, list[i].Detached = l.ID, true
	}
	return list, err
}

// mostProcesses is how many processes of a guest are believed.
const mostProcesses = 1024
