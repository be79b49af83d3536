package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// Ask calls the model. f receives the answer as it is streamed; it may be nil. An error
// of the API, and a used up budget, is a *[dialect.Error].
func (a *Access) Ask(ctx context.Context, q *dialect.Request, f func(dialect.Delta) error) (*dialect.Response, error) {
	own := *q
	own.Stream = f != nil
	name, e := a.resolveModel(q.Model)
	if e != nil {
		return nil, e
	}
	own.Model = name
	if !a.Connector.isFirstParty() {
		own.User = "" // other companies do not get the user's name
	}
	c, e := a.admitCall(ctx, name, requestSize{input: dialect.EstimateRequest(q), output: int64(q.MaxTokens), stream: own.Stream})
	if e != nil {
		return nil, e
	}
	var g dialect.ResponseBuilder
	status, err := c.callAPI(ctx, &own, func(d dialect.Delta) error {
		g.Add(d)
		if f != nil {
			return f(d)
		}
		return nil
	})
	if e := (*dialect.Error)(nil); errors.As(err, &e) {
		c.noteFailure(ctx, e)
	}
	c.finishCall(ctx, status)
	if err != nil {
		return nil, err
	}
	return &g.Response, nil
}

// callAPI calls the API with q, counts the answer and passes it to f. The status is the
// API's; 0 without an answer.
func (c *call) callAPI(ctx context.Context, q *dialect.Request, f func(dialect.Delta) error) (int, error) {
	fitted, back := dialect.FitToolNames(q)
	r, d, err := c.a.buildRequest(fitted)
	if err != nil {
		return 0, c.a.toError(err)
	}
	l := c.startTimer(ctx)
	defer l.close()
	p, err := c.a.send(l, r)
	if err != nil {
		return 0, c.a.toError(err)
	}
	defer p.Body.Close()
	c.noteFirstByte()
	t := deltaCounter{c: c, originalName: back, f: f, secrets: c.a.Connector.secretValues()}
	tell := func(x dialect.Delta) error { return t.handleDelta(ctx, x) }
	if p.StatusCode/100 == 2 && isStream(p.Header) {
		err = d.ReadStream(p.Body, tell)
	} else {
		var a *dialect.Response
		if a, err = d.ReadResponse(p); err == nil {
			err = dialect.Replay(a, tell)
		}
	}
	if err != nil && t.ownErr == nil {
		return p.StatusCode, c.a.toError(l.errorCause(err))
	}
	return p.StatusCode, t.ownErr
}

// deltaCounter counts the deltas of an answer and passes them on.
type deltaCounter struct {
	c            *call
	originalName func(string) string
	f            func(dialect.Delta) error
	usage        dialect.Usage
	usageKnown   bool
	text         int
	ownErr       error // of a budget, or of f; nil: errors are the API's

	secrets []string
}

// maxText limits an answer, in bytes, independent of budgets.
const maxText = 64 << 20

func (t *deltaCounter) handleDelta(ctx context.Context, d dialect.Delta) error {
	for _, secret := range t.secrets {
		for _, s := range []*string{&d.ID, &d.Model, &d.Name, &d.Text} {
			*s = strings.ReplaceAll(*s, secret, redactedValue)
		}
	}
	switch d.Type {
	case dialect.TextDelta, dialect.ThinkingDelta, dialect.ToolDelta:
		t.text += len(d.Text)
	case dialect.ToolBegin:
		d.Name = t.originalName(d.Name)
		t.text += len(d.Name)
	case dialect.UsageReported, dialect.End:
		if d.Usage.Output > 0 {
			t.usageKnown = true
		}
		t.usage = d.Usage
	}
	if t.text > maxText {
		t.ownErr = &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "atoll: the answer has too many bytes"}
		return t.ownErr
	}
	if d.Type == dialect.End {
		if !t.usageKnown {
			t.c.estimateMissing(&d.Usage, t.text)
		}
		if err := t.c.chargeOnce(ctx, d.Usage, true); err != nil {
			t.ownErr = t.c.a.toError(err)
			return t.ownErr
		}
	} else if e := t.c.countUsage(ctx, t.usage, t.text); e != nil {
		t.c.line.Refused = e.Message
		t.ownErr = e
		return e
	}
	if err := t.f(d); err != nil {
		t.ownErr = err
		return err
	}
	return nil
}

// estimateMissing estimates usage that an API does not report.
func (c *call) estimateMissing(u *dialect.Usage, text int) {
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input = c.hold.usage.Input
	}
	u.Output = max(u.Output, dialect.EstimateTokens(text))
}

func isStream(h http.Header) bool {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t == "text/event-stream"
}

func setBody(r *http.Request, b []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}
