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

// OpNotices tells what happens in a sandbox, each notice a FrameData with an
// atoll.Notice as JSON; OpPorts answers with the ports of now.
const (
	OpNotices Op = "notices"
	OpPorts   Op = "ports"
)

// noticeRequest says after how long nothing happening is a notice.
type noticeRequest struct {
	Idle time.Duration `json:"idle"`
}

// DefaultIdle is after how long a sandbox in which nothing is done is idle.
const DefaultIdle = 30 * time.Second

// Notices tells what happens in the sandbox; see atoll.Notifier. A listener
// that was too slow gets a NoticeLost instead of what it has missed, and the
// newest.
func (l *Link) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	b, err := json.Marshal(noticeRequest{Idle: timeout(l.Idle, DefaultIdle)})
	if err != nil {
		return l.fail("notices", err)
	}
	var own *callerError
	err = l.do(ctx, "notices", func(c *Client) error {
		st, err := c.open(ctx, &Request{Op: OpNotices, Body: b})
		if err != nil {
			return ended(ctx, err)
		}
		defer st.Reset() //nolint:errcheck // nothing more is wanted
		stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
		defer stop()
		return ended(ctx, listen(st, f))
	})
	if errors.As(err, &own) {
		return own.error // as it is
	}
	if l.Before != nil && ctx.Err() == nil {
		if berr := l.Before("notices"); berr != nil {
			return l.fail("notices", berr) // the sandbox is gone: that is the reason
		}
	}
	return err
}

// listen takes notices.
func listen(r io.Reader, f func(atoll.Notice) error) error {
	var buf []byte
	for {
		kind, p, err := readFrame(r, &buf)
		if err != nil {
			return broken(err)
		}
		switch kind {
		case FrameData:
		case FrameDone:
			if err := outcome(p); err != io.EOF { //nolint:errorlint // it is as it is
				return err
			}
			return broken(io.EOF)
		default:
			return fmt.Errorf("%w: frame %q", errWire, kind)
		}
		var n atoll.Notice
		if err := json.Unmarshal(p, &n); err != nil {
			return fmt.Errorf("%w: %w", errWire, err)
		}
		if !known[n.Kind] || n.Port < 0 || n.Port > 65535 {
			return fmt.Errorf("%w: a notice %q of port %d", errWire, n.Kind, n.Port)
		}
		n.Time = time.Now() // of this clock, not of one inside
		if err := f(n); err != nil {
			return &callerError{err}
		}
	}
}

// known are the notices that guests send.
var known = map[atoll.NoticeKind]bool{
	atoll.NoticeReady: true, atoll.NoticePortOpened: true, atoll.NoticePortClosed: true, atoll.NoticeActive: true, atoll.NoticeIdle: true,
	atoll.NoticeOutOfMemory: true, atoll.NoticeProcessEnded: true, atoll.NoticeDenied: true, atoll.NoticeLost: true,
}

// maxPorts is how many ports of a sandbox are believed.
const maxPorts = 4096

// Ports returns the ports that programs in the sandbox listen on.
func (l *Link) Ports(ctx context.Context) ([]atoll.Port, error) {
	ctx, cancel := l.transfer(ctx)
	defer cancel()
	var list []atoll.Port
	if err := l.do(ctx, "ports", func(c *Client) error { return ended(ctx, c.call(ctx, OpPorts, nil, &list)) }); err != nil {
		return nil, err
	}
	for i, p := range list {
		if i >= maxPorts || p.Port < 1 || p.Port > 65535 {
			return nil, l.fail("ports", fmt.Errorf("%w: port %d", errWire, p.Port))
		}
	}
	return list, nil
}

var _ interface {
	atoll.Notifier
	atoll.Porter
	atoll.Meter
	atoll.Watcher
} = (*Link)(nil)
