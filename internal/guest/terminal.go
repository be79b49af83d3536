package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// The operations of terminals. The body of OpTerminalOpen is an atoll.TerminalSpec, that of the
// others a terminalBody.
const (
	OpTerminalOpen   Op = "terminal.open"   // the answer is an atoll.Terminal
	OpTerminalList   Op = "terminal.list"   // the answer is a list of atoll.Terminal
	OpTerminalClose  Op = "terminal.close"  // answered when all processes on the terminal have ended
	OpTerminalRead   Op = "terminal.read"   // the answer is an atoll.Screen
	OpTerminalSend   Op = "terminal.send"   // answered when the input was accepted
	OpTerminalAttach Op = "terminal.attach" // frames follow in both directions, as for a command
)

// terminalBody is the body of an operation on an existing terminal.
type terminalBody struct {
	Name  string `json:"name"`
	Input []byte `json:"input,omitempty"`

	atoll.Size        // of the attached window; 0: the terminal's
	Viewer     string `json:"viewer,omitempty"`
	ReadOnly   bool   `json:"read_only,omitempty"`
	History    bool   `json:"history,omitempty"`
	Sized      bool   `json:"sized,omitempty"` // send sizes as FrameResize to the host
}

// maxUnacked is the largest amount of terminal output in bytes that a host has not acknowledged. A
// slower host gets the newest screen later instead of all output.
const maxUnacked = 128 << 10

// OpenTerminal starts a command on a new persistent terminal; see atoll.Terminals.
func (l *Link) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (t atoll.Terminal, err error) {
	if err := spec.Check(); err != nil {
		return t, l.wrapError("open terminal", err)
	}
	cmd := atoll.Cmd{Dir: spec.Dir, Env: spec.Env, User: spec.User}
	l.completeCmd(&cmd)
	spec.Dir, spec.Env, spec.User = cmd.Dir, cmd.Env, cmd.User
	err = l.runOp(ctx, "open terminal", func(c *Client) error { return c.Call(ctx, OpTerminalOpen, spec, &t) })
	return t, err
}

// ListTerminals returns the terminals, oldest first.
func (l *Link) ListTerminals(ctx context.Context) (list []atoll.Terminal, err error) {
	err = l.runOp(ctx, "list terminals", func(c *Client) error { return c.Call(ctx, OpTerminalList, nil, (*terminalList)(&list)) })
	return list, err
}

// maxTerminalList is larger than the number of terminals of any guest.
const maxTerminalList = 1024

// terminalList limits its length while it is unmarshalled, since a guest could send millions of
// empty objects.
type terminalList []atoll.Terminal

// UnmarshalJSON unmarshals a list of at most maxTerminalList terminals.
func (l *terminalList) UnmarshalJSON(b []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t == nil {
		return err
	} else if t != json.Delim('[') {
		return fmt.Errorf("%w: not a list of terminals", errWire)
	}
	for d.More() {
		if len(*l) == maxTerminalList {
			return fmt.Errorf("%w: more than %d terminals", errWire, maxTerminalList)
		}
		var t atoll.Terminal
		if err := d.Decode(&t); err != nil {
			return err
		}
		*l = append(*l, t)
	}
	return nil
}

// CloseTerminal kills the processes on a terminal and removes it.
func (l *Link) CloseTerminal(ctx context.Context, name string) error {
	return l.runOp(ctx, "close terminal", func(c *Client) error { return c.Call(ctx, OpTerminalClose, terminalBody{Name: name}, nil) })
}

// ReadTerminal returns a terminal's screen as text.
func (l *Link) ReadTerminal(ctx context.Context, name string) (screen atoll.Screen, err error) {
	err = l.runOp(ctx, "read terminal", func(c *Client) error { return c.Call(ctx, OpTerminalRead, terminalBody{Name: name}, &screen) })
	return screen, err
}

// SendTerminal types input on a terminal.
func (l *Link) SendTerminal(ctx context.Context, name string, input []byte) error {
	return l.runOp(ctx, "send to terminal", func(c *Client) error {
		return c.Call(ctx, OpTerminalSend, terminalBody{Name: name, Input: input}, nil)
	})
}

// AttachTerminal attaches to a terminal; see atoll.TerminalAttacher.
func (l *Link) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (exit atoll.Exit, err error) {
	if a.Stdout == nil {
		return exit, l.wrapError("attach", fmt.Errorf("%w: an attachment without Stdout", atoll.ErrInvalid))
	}
	err = l.runOp(ctx, "attach", func(c *Client) (err error) {
		exit, err = c.attachTerminal(ctx, name, a)
		return err
	})
	return exit, err
}

func (c *Client) attachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	body, err := json.Marshal(terminalBody{Name: name, Size: a.Size, Viewer: a.Viewer, ReadOnly: a.ReadOnly, History: a.History, Sized: a.OnResize != nil})
	if err != nil {
		return atoll.Exit{}, err
	}
	st, err := c.open(ctx, &Request{Op: OpTerminalAttach, Body: body})
	if err != nil {
		return atoll.Exit{}, err
	}
	cmd := atoll.Cmd{TTY: &atoll.TTY{Resize: a.Resize}}
	if !a.ReadOnly {
		cmd.Stdin = a.Stdin
	}
	x := newExecStream(st, &cmd)
	cmd.Stdout, x.sized = &ackWriter{x, a.Stdout}, sizedWriter(a.OnResize)
	exit, err := x.runStreams(ctx, func() { _ = st.SetReadDeadline(time.Now()) }) // the terminal's command runs on
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return exit, err
}

// ackWriter acknowledges the output that a window has written.
type ackWriter struct {
	x *execStream
	w io.Writer
}

// Write writes p and acknowledges it.
func (t *ackWriter) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if err == nil {
		err = t.x.sendFrame(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n)))
	}
	return n, err
}

// sizedWriter calls a function with sizes that are written to it as JSON.
type sizedWriter func(atoll.Size)

// Write parses a size and calls f with it.
func (f sizedWriter) Write(p []byte) (int, error) {
	var size atoll.Size
	if err := json.Unmarshal(p, &size); err != nil {
		return 0, fmt.Errorf("%w: %w", errWire, err)
	}
	f(size)
	return len(p), nil
}
