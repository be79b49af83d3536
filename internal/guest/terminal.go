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

// The operations of terminals. The body of open is an atoll.TerminalSpec, those
// of the others a terminalBody.
const (
	OpTerminalOpen   Op = "terminal.open"   // answers an atoll.Terminal
	OpTerminalList   Op = "terminal.list"   // answers []atoll.Terminal
	OpTerminalClose  Op = "terminal.close"  // answers when all that ran on it is gone
	OpTerminalRead   Op = "terminal.read"   // answers an atoll.Screen
	OpTerminalSend   Op = "terminal.send"   // answers when there was room for what is typed
	OpTerminalAttach Op = "terminal.attach" // the frames of a command follow, both ways
)

// terminalBody says which terminal is meant, and what for.
type terminalBody struct {
	Name  string `json:"name"`
	Input []byte `json:"input,omitempty"`

	atoll.Size      // of an attached window; 0: the terminal's
	ReadOnly   bool `json:"read_only,omitempty"`
	History    bool `json:"history,omitempty"`
	Sized      bool `json:"sized,omitempty"` // the size is told, as FrameResize to the host
}

// showWindow is how much of what a terminal shows may be under way to a host
// that has not acknowledged it. A host that is slower gets the newest screen
// later, rather than all that came before it.
const showWindow = 128 << 10

// OpenTerminal starts a command on a terminal that stays; see atoll.Terminals.
func (l *Link) OpenTerminal(ctx context.Context, spec atoll.TerminalSpec) (t atoll.Terminal, err error) {
	if err := spec.Check(); err != nil {
		return t, l.fail("open terminal", err)
	}
	cmd := atoll.Cmd{Dir: spec.Dir, Env: spec.Env, User: spec.User}
	l.complete(&cmd)
	spec.Dir, spec.Env, spec.User = cmd.Dir, cmd.Env, cmd.User
	err = l.do(ctx, "open terminal", func(c *Client) error { return c.call(ctx, OpTerminalOpen, spec, &t) })
	return t, err
}

// ListTerminals returns the terminals, oldest first.
func (l *Link) ListTerminals(ctx context.Context) (list []atoll.Terminal, err error) {
	err = l.do(ctx, "list terminals", func(c *Client) error { return c.call(ctx, OpTerminalList, nil, (*terminalList)(&list)) })
	return list, err
}

// maxTerminalList is more than a guest has terminals.
const maxTerminalList = 1024

// terminalList is read one by one: a guest that says "{}" millions of times is
// not believed.
type terminalList []atoll.Terminal

// UnmarshalJSON reads a list of a bounded length.
func (l *terminalList) UnmarshalJSON(b []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t == nil {
		return err
	} else if t != json.Delim('[') {
		return fmt.Errorf("%w: no list of terminals", errWire)
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

// CloseTerminal ends what runs on a terminal and forgets it.
func (l *Link) CloseTerminal(ctx context.Context, name string) error {
	return l.do(ctx, "close terminal", func(c *Client) error { return c.call(ctx, OpTerminalClose, terminalBody{Name: name}, nil) })
}

// ReadTerminal returns a terminal's screen as text.
func (l *Link) ReadTerminal(ctx context.Context, name string) (screen atoll.Screen, err error) {
	err = l.do(ctx, "read terminal", func(c *Client) error { return c.call(ctx, OpTerminalRead, terminalBody{Name: name}, &screen) })
	return screen, err
}

// SendTerminal types on a terminal.
func (l *Link) SendTerminal(ctx context.Context, name string, input []byte) error {
	return l.do(ctx, "send to terminal", func(c *Client) error {
		return c.call(ctx, OpTerminalSend, terminalBody{Name: name, Input: input}, nil)
	})
}

// AttachTerminal shows a terminal; see atoll.TerminalUser.
func (l *Link) AttachTerminal(ctx context.Context, name string, a atoll.Attachment) (exit atoll.Exit, err error) {
	if a.Stdout == nil {
		return exit, l.fail("attach", fmt.Errorf("%w: an attachment without Stdout", atoll.ErrInvalid))
	}
	err = l.do(ctx, "attach", func(c *Client) (err error) {
		exit, err = c.attachTerminal(ctx, name, a)
		return err
	})
	return exit, err
}

func (c *Client) attachTerminal(ctx context.Context, name string, a atoll.Attachment) (atoll.Exit, error) {
	body, err := json.Marshal(terminalBody{Name: name, Size: a.Size, ReadOnly: a.ReadOnly, History: a.History, Sized: a.Sized != nil})
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
	x := newConversation(st, &cmd)
	cmd.Stdout, x.sized = &taker{x, a.Stdout}, sizedWriter(a.Sized)
	exit, err := x.run(ctx, func() { _ = st.SetReadDeadline(time.Now()) }) // nobody waits for the guest: it goes on
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return exit, err
}

// taker acknowledges what a window has taken.
type taker struct {
	x *conversation
	w io.Writer
}

// Write shows p.
func (t *taker) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if err == nil {
		err = t.x.send(FrameAck, binary.BigEndian.AppendUint32(nil, uint32(n)))
	}
	return n, err
}

// sizedWriter takes sizes as JSON; nil: it takes none.
type sizedWriter func(atoll.Size)

// Write tells a size.
func (f sizedWriter) Write(p []byte) (int, error) {
	var size atoll.Size
	if err := json.Unmarshal(p, &size); err != nil {
		return 0, fmt.Errorf("%w: %w", errWire, err)
	}
	f(size)
	return len(p), nil
}
