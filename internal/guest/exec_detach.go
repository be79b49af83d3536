package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// The operations of detached commands.
const (
	OpDetach   Op = "detach"   // starts a command; the answer is its atoll.Process
	OpAttach   Op = "attach"   // attaches to a command by id; frames follow as for OpExec, but the end of the channel does not end the command
	OpDetached Op = "detached" // the answer lists all detached commands
	OpSignal   Op = "signal"   // has a signalBody; answered when the signal was sent
)

// signalBody is a signal to a detached command.
type signalBody struct {
	Process string `json:"process"`
	Signal  string `json:"signal"`
}

var _ atoll.Detacher = (*Link)(nil)

// Detach starts a detached command; see atoll.Detacher. It has no timeout unless cmd or the
// sandbox's Spec sets one.
func (l *Link) Detach(ctx context.Context, cmd atoll.Cmd) (p atoll.Process, err error) {
	if err := cmd.Check(); err != nil {
		return p, l.wrapError("detach", err)
	}
	own := firstTimeout(cmd.Timeout, l.Spec.Timeouts.Exec)
	l.completeCmd(&cmd)
	cmd.Timeout = own
	cmd.Signals = nil
	err = l.runOp(ctx, "detach", func(c *Client) error {
		st, err := c.mux.OpenStream(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errUnsent, errors.Join(context.Cause(ctx), err))
		}
		if err := exchangeHeads(ctx, st, &Request{Op: OpDetach, Command: wire.CommandOf(&cmd)}, &p); err != nil {
			return err
		}
		return st.Close()
	})
	p.Sandbox = l.ID
	return p, err
}

// Reattach attaches the caller to a detached command; see atoll.Detacher.
func (l *Link) Reattach(ctx context.Context, id string, streams atoll.Cmd) (exit atoll.Exit, err error) {
	body, err := json.Marshal(id)
	if err != nil {
		return exit, l.wrapError("attach", err)
	}
	err = l.runOp(ctx, "attach", func(c *Client) error {
		st, err := c.open(ctx, &Request{Op: OpAttach, Body: body, Input: streams.Stdin != nil})
		if err != nil {
			return err
		}
		x := newExecStream(st, &streams)
		// A signal frame could be lost with the connection if the caller disconnects
		// right after it. OpSignal is acknowledged.
		x.signal = func(name string) error {
			err := c.Call(ctx, OpSignal, signalBody{Process: id, Signal: name}, nil)
			if errors.Is(err, atoll.ErrUnsupported) { // an older guest
				return x.sendFrame(FrameSignal, []byte(name))
			}
			return err
		}
		exit, err = x.runStreams(ctx, func() { _ = st.Reset() }) // the command goes on
		return err
	})
	return exit, err
}

// Detached returns the detached commands, oldest first.
func (l *Link) Detached(ctx context.Context) ([]atoll.Process, error) {
	var list []atoll.Process
	err := l.runOp(ctx, "processes", func(c *Client) error { return c.Call(ctx, OpDetached, nil, &list) })
	if len(list) > maxProcesses {
		list = list[:maxProcesses]
	}
	for i := range list {
		list[i].Sandbox, list[i].Detached = l.ID, true
	}
	return list, err
}

// maxProcesses is the largest number of processes accepted from a guest.
const maxProcesses = 1024
