package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// silence is the cause of a request that ended because its API said nothing.
type silence struct{ after time.Duration }

func (s *silence) Error() string { return fmt.Sprintf("the API said nothing for %v", s.after) }
func (s *silence) Timeout() bool { return true }
func (s *silence) Unwrap() error { return atoll.ErrTimeout }

// leash ends a request to an API when it says nothing for too long, or a budget
// of time is used up.
type leash struct {
	ctx    context.Context //nolint:containedctx // it is the leash
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
	end    *time.Timer
}

func (c *call) leash(ctx context.Context) *leash {
	l := &leash{after: c.a.Connector.timeout()}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(l.after, func() { l.cancel(&silence{l.after}) })
	if at, of := c.deadline(ctx); of != nil {
		e := refusal(of.Who, of.Budget.Time.String())
		l.end = time.AfterFunc(max(at.Sub(c.a.now()), 0), func() { l.cancel(e) })
	}
	return l
}

// heard gives the API its time anew.
func (l *leash) heard() { l.timer.Reset(l.after) }

func (l *leash) close() {
	l.timer.Stop()
	if l.end != nil {
		l.end.Stop()
	}
	l.cancel(context.Canceled)
}

// cause is why a request failed: what the leash says, else err.
func (l *leash) cause(err error) error {
	if err != nil && l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return err
}

// send asks the API. Its answer is of a type that is known, and not packed.
func (a *Access) send(l *leash, q *http.Request) (*http.Response, error) {
	for name, v := range a.Connector.Headers {
		q.Header.Set(name, v)
	}
	if q.Header.Get("User-Agent") == "" {
		q.Header.Set("User-Agent", "atoll")
	}
	r, err := a.state.client.Do(q.WithContext(l.ctx))
	if err != nil {
		return nil, l.cause(err)
	}
	l.heard()
	r.Body = &heardBody{r.Body, l}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%w: the API packed its answer (%q), which was not asked for", atoll.ErrUnavailable, e)
	}
	if r.StatusCode/100 == 3 {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%w: the API answered %d: another address, which the key is not sent to", atoll.ErrUnavailable, r.StatusCode)
	}
	return r, nil
}

// heardBody gives the API its time anew with all that comes.
type heardBody struct {
	io.ReadCloser
	l *leash
}

func (b *heardBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.l.heard()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.l.cause(err)
	}
	return n, err
}

// ask makes the request for q in the connector's dialect.
func (a *Access) ask(q *dialect.Request) (*http.Request, dialect.Dialect, error) {
	d, err := dialect.Of(a.Connector.API)
	if err != nil {
		return nil, nil, err
	}
	r, err := d.NewRequest(a.Connector.base(), a.Connector.Key, q)
	if err != nil {
		return nil, nil, err
	}
	if len(a.Connector.Extra) == 0 {
		return r, d, nil
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err
	}
	o, err := parse(b)
	if err != nil {
		return nil, nil, err
	}
	if err := a.Connector.extra(o); err != nil {
		return nil, nil, err
	}
	setBody(r, o.bytes())
	return r, d, nil
}

func (c *Connector) extra(o *body) error {
	for name, v := range c.Extra {
		if v == nil {
			o.remove(name)
			continue
		}
		if err := o.set(name, v); err != nil {
			return fmt.Errorf("connector %s: extra: %w", c.Name, err)
		}
	}
	return nil
}
