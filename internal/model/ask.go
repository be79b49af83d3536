package model

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// Ask asks the model. f gets the answer as it comes; it may be nil. An error
// of the API, and a budget that is used up, is a *[dialect.Error].
func (a *Access) Ask(ctx context.Context, q *dialect.Request, f func(dialect.Delta) error) (*dialect.Response, error) {
	own := *q
	own.Stream = f != nil
	name, e := a.resolve(q.Model)
	if e != nil {
		return nil, e
	}
	own.Model = name
	if !a.Connector.first() {
		own.User = "" // whom it is for is nobody's business
	}
	c, e := a.admit(ctx, name, wish{input: dialect.Estimate(q), output: int64(q.MaxTokens), stream: own.Stream})
	if e != nil {
		return nil, e
	}
	var g dialect.Gathering
	status, err := c.answer(ctx, &own, func(d dialect.Delta) error {
		g.Add(d)
		if f != nil {
			return f(d)
		}
		return nil
	})
	c.end(ctx, status)
	if err != nil {
		return nil, err
	}
	return &g.Response, nil
}

// answer asks the API for q, and gives f the answer, counted before. The
// status is the API's, 0 without an answer.
func (c *call) answer(ctx context.Context, q *dialect.Request, f func(dialect.Delta) error) (int, error) {
	fitted, back := dialect.Fit(q)
	r, d, err := c.a.ask(fitted)
	if err != nil {
		return 0, c.a.failure(err)
	}
	l := c.leash(ctx)
	defer l.close()
	p, err := c.a.send(l, r)
	if err != nil {
		return 0, c.a.failure(err)
	}
	defer p.Body.Close()
	c.first()
	t := teller{c: c, back: back, f: f, secrets: c.a.Connector.secrets()}
	tell := func(x dialect.Delta) error { return t.tell(ctx, x) }
	if p.StatusCode/100 == 2 && isStream(p.Header) {
		err = d.ReadStream(p.Body, tell)
	} else {
		var a *dialect.Response
		if a, err = d.ReadResponse(p); err == nil {
			err = dialect.Replay(a, tell)
		}
	}
	if err != nil && t.own == nil {
		return p.StatusCode, c.a.failure(l.cause(err))
	}
	return p.StatusCode, t.own
}

// teller counts pieces of an answer and passes them on.
type teller struct {
	c     *call
	back  func(string) string
	f     func(dialect.Delta) error
	usage dialect.Usage
	told  bool
	text  int
	own   error // of a budget, or f's: not the API's

	secrets []string
}

// mostText bounds an answer, in bytes, whatever the budgets say.
const mostText = 64 << 20

func (t *teller) tell(ctx context.Context, d dialect.Delta) error {
	for _, secret := range t.secrets {
		for _, s := range []*string{&d.ID, &d.Model, &d.Name, &d.Text} {
			*s = strings.ReplaceAll(*s, secret, hiding)
		}
	}
	switch d.Type {
	case dialect.TextDelta, dialect.ThinkingDelta, dialect.ToolDelta:
		t.text += len(d.Text)
	case dialect.ToolBegin:
		d.Name = t.back(d.Name)
		t.text += len(d.Name)
	case dialect.UsageTold, dialect.End:
		if d.Usage.Output > 0 {
			t.told = true
		}
		t.usage = d.Usage
	}
	if t.text > mostText {
		t.own = &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "atoll: the answer has too many bytes"}
		return t.own
	}
	if d.Type == dialect.End {
		if !t.told {
			t.c.guess(&d.Usage, t.text)
		}
		if err := t.c.settle(ctx, d.Usage, true); err != nil {
			t.own = t.c.a.failure(err)
			return t.own
		}
	} else if e := t.c.count(ctx, t.usage, t.text); e != nil {
		t.c.line.Refused = e.Message
		t.own = e
		return e
	}
	if err := t.f(d); err != nil {
		t.own = err
		return err
	}
	return nil
}

// guess fills in what an API does not tell.
func (c *call) guess(u *dialect.Usage, text int) {
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input = c.h.uses.Input
	}
	u.Output = max(u.Output, dialect.Tokens(text))
}

func isStream(h http.Header) bool {
	t, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return t == "text/event-stream"
}

func setBody(r *http.Request, b []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}
