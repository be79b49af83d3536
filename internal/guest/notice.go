package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// OpNotices subscribes to events in a sandbox. Each is a FrameData with an atoll.Notice as JSON.
// OpPorts asks for the open ports.
const (
	OpNotices Op = "notices"
	OpPorts   Op = "ports"
)

// noticeRequest is the body of OpNotices: the time without activity that makes a sandbox idle.
type noticeRequest struct {
	Idle time.Duration `json:"idle"`
}

// DefaultIdle is the default time without activity after which a sandbox is idle.
const DefaultIdle = 30 * time.Second

// Notices subscribes to events in the sandbox; see atoll.Notifier. A listener that is too slow gets
// a NoticeLost in place of the notices that it missed, and then the newest.
func (l *Link) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	b, err := json.Marshal(noticeRequest{Idle: firstTimeout(l.Idle, DefaultIdle)})
	if err != nil {
		return l.wrapError("notices", err)
	}
	var own *callerError
	err = l.runOp(ctx, "notices", func(c *Client) error {
		st, err := c.open(ctx, &Request{Op: OpNotices, Body: b})
		if err != nil {
			return preferCause(ctx, err)
		}
		defer st.Reset() //nolint:errcheck // ends the subscription
		stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
		defer stop()
		return preferCause(ctx, readNotices(st, f))
	})
	if errors.As(err, &own) {
		return own.error // unwrapped
	}
	if l.BeforeOp != nil && ctx.Err() == nil {
		if berr := l.BeforeOp("notices"); berr != nil {
			return l.wrapError("notices", berr) // the sandbox is not running any more: the better error
		}
	}
	return err
}

// readNotices calls f for each notice.
func readNotices(r io.Reader, f func(atoll.Notice) error) error {
	var buf []byte
	for {
		kind, p, err := readFrame(r, &buf)
		if err != nil {
			return wrapBroken(err)
		}
		switch kind {
		case FrameData:
		case FrameDone:
			if err := parseOutcome(p); err != io.EOF { //nolint:errorlint // never wrapped
				return err
			}
			return wrapBroken(io.EOF)
		default:
			return fmt.Errorf("%w: frame %q", errWire, kind)
		}
		var n atoll.Notice
		if err := json.Unmarshal(p, &n); err != nil {
			return fmt.Errorf("%w: %w", errWire, err)
		}
		if !knownKinds[n.Kind] || n.Port < 0 || n.Port > 65535 {
			return fmt.Errorf("%w: notice %q with port %d", errWire, n.Kind, n.Port)
		}
		n.Time = time.Now() // the clock inside may differ
		if err := f(n); err != nil {
			return &callerError{err}
		}
	}
}

// knownKinds are the kinds of notices that guests send.
var knownKinds = map[atoll.NoticeKind]bool{
	atoll.NoticeReady: true, atoll.NoticePortOpened: true, atoll.NoticePortClosed: true, atoll.NoticeActive: true, atoll.NoticeIdle: true,
	atoll.NoticeOutOfMemory: true, atoll.NoticeProcessEnded: true, atoll.NoticeDenied: true, atoll.NoticeLost: true,
}

// maxPorts is the largest number of ports accepted from a guest.
const maxPorts = 4096

// Ports returns the ports on which programs in the sandbox listen.
func (l *Link) Ports(ctx context.Context) ([]atoll.Port, error) {
	ctx, cancel := l.withTransferTimeout(ctx)
	defer cancel()
	var list []atoll.Port
	if err := l.runOp(ctx, "ports", func(c *Client) error { return preferCause(ctx, c.Call(ctx, OpPorts, nil, &list)) }); err != nil {
		return nil, err
	}
	for i, p := range list {
		if i >= maxPorts || p.Port < 1 || p.Port > 65535 {
			return nil, l.wrapError("ports", fmt.Errorf("%w: port %d", errWire, p.Port))
		}
	}
	return list, nil
}

var _ interface {
	atoll.Notifier
	atoll.PortLister
	atoll.Meter
	atoll.Watcher
} = (*Link)(nil)

// OpNotify passes an event on the host to all subscribers of the guest's notices.
const OpNotify Op = "tell"

// Notify passes an event on the host to all subscribers of the guest's notices.
func (c *Client) Notify(ctx context.Context, n atoll.Notice) error {
	return c.Call(ctx, OpNotify, n, nil)
}
