package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// silenceError is the cause of a request's end after its API was silent.
type silenceError struct{ after time.Duration }

func (s *silenceError) Error() string { return fmt.Sprintf("the API was silent for %v", s.after) }
func (s *silenceError) Timeout() bool { return true }
func (s *silenceError) Unwrap() error { return atoll.ErrTimeout }

// requestTimer cancels a request to an API when it is silent for too long, or when a
// budget of time is used up.
type requestTimer struct {
	ctx    context.Context //nolint:containedctx // the context that the timer cancels
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
	end    *time.Timer
}

func (c *call) startTimer(ctx context.Context) *requestTimer {
	l := &requestTimer{after: c.a.Connector.responseTimeout()}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.timer = time.AfterFunc(l.after, func() { l.cancel(&silenceError{l.after}) })
	if at, of := c.timeDeadline(ctx); of != nil {
		e := budgetError(of.Caller, of.Budget.Time.String())
		l.end = time.AfterFunc(max(at.Sub(c.a.currentTime()), 0), func() { l.cancel(e) })
	}
	return l
}

// noteActivity restarts the silence timer.
func (l *requestTimer) noteActivity() { l.timer.Reset(l.after) }

func (l *requestTimer) close() {
	l.timer.Stop()
	if l.end != nil {
		l.end.Stop()
	}
	l.cancel(context.Canceled)
}

// errorCause returns why a request failed: the timer's cause, else err.
func (l *requestTimer) errorCause(err error) error {
	if err != nil && l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return err
}

// send sends a request to the API. It returns an error for a compressed answer and for
// a redirect.
func (a *Access) send(l *requestTimer, q *http.Request) (*http.Response, error) {
	for name, v := range a.Connector.Headers {
		q.Header.Set(name, v)
	}
	if q.Header.Get("User-Agent") == "" {
		q.Header.Set("User-Agent", "atoll")
	}
	r, err := a.state.client.Do(q.WithContext(l.ctx))
	if err != nil {
		return nil, l.errorCause(err)
	}
	l.noteActivity()
	r.Body = &activityBody{r.Body, l}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%w: the API compressed its answer (%q) without being asked", atoll.ErrUnavailable, e)
	}
	if r.StatusCode/100 == 3 {
		_ = r.Body.Close()
		return nil, fmt.Errorf("%w: the API answered %d: another address, which the key is not sent to", atoll.ErrUnavailable, r.StatusCode)
	}
	return r, nil
}

// activityBody restarts the silence timer with each read.
type activityBody struct {
	io.ReadCloser
	l *requestTimer
}

func (b *activityBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.l.noteActivity()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.l.errorCause(err)
	}
	return n, err
}

// buildRequest builds the request for q in the connector's dialect.
func (a *Access) buildRequest(q *dialect.Request) (*http.Request, dialect.Dialect, error) {
	d, err := dialect.Of(a.Connector.API)
	if err != nil {
		return nil, nil, err
	}
	r, err := d.NewRequest(a.Connector.baseURL(), a.Connector.Key, q)
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
	if err := a.Connector.applyExtra(o); err != nil {
		return nil, nil, err
	}
	setBody(r, o.encode())
	return r, d, nil
}

func (c *Connector) applyExtra(o *body) error {
	for name, v := range c.Extra {
		if v == nil {
			o.removeField(name)
			continue
		}
		if err := o.set(name, v); err != nil {
			return fmt.Errorf("connector %s: extra: %w", c.Name, err)
		}
	}
	return nil
}
