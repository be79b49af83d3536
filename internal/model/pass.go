package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// upward are the headers of a client that an API gets.
var upward = []string{
	"Accept", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "User-Agent",
}

// downward are the headers of an API that a client gets, beside those that
// begin with one of limits.
var downward = []string{
	"Content-Type", "Request-Id", "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry",
}

var limits = []string{"Anthropic-Ratelimit-", "X-Ratelimit-"}

// pass asks an API of the client's own dialect: bytes go through as they are,
// but for the model, and what must not leave.
func (x *exchange) pass(b []byte, o *body, model string) *dialect.Error {
	var stream, asked bool
	o.get("stream", &stream)
	stream = stream || x.route.stream
	if x.d.Name() == dialect.OpenAI && stream {
		var options map[string]any
		o.get("stream_options", &options)
		asked, _ = options["include_usage"].(bool)
	}
	if err := x.prepare(o, model, stream && !asked); err != nil {
		return invalid(err)
	}
	ctx := x.r.Context()
	c, e := x.a.admit(ctx, model, wish{input: dialect.Tokens(len(b)), output: o.most(), stream: stream})
	if e != nil {
		return e
	}
	if !stream {
		o.lower(c.h.ahead)
	}
	l := c.leash(ctx)
	defer l.close()
	status, e := x.forward(l, c, o, model, stream, &passing{x: x, c: c, l: l, hide: !asked})
	if e != nil {
		c.line.Status = e.Status
	}
	c.end(ctx, status)
	return e
}

// prepare sets what the endpoint decides about a body.
func (x *exchange) prepare(o *body, model string, tell bool) error {
	if x.d.Name() != dialect.Gemini {
		if err := o.set("model", model); err != nil {
			return err
		}
	}
	if x.d.Name() == dialect.OpenAI && tell {
		options := map[string]any{}
		o.get("stream_options", &options)
		options["include_usage"] = true
		if err := o.set("stream_options", options); err != nil {
			return err
		}
	}
	if !x.a.Connector.first() { // whom it is for is nobody's business
		for _, name := range []string{"metadata", "user", "safety_identifier"} {
			o.remove(name)
		}
	}
	if err := x.a.Connector.unhost(x.d.Name(), o); err != nil {
		return err
	}
	return x.a.Connector.extra(o)
}

// forward asks the API and passes its answer on. It returns the API's status.
func (x *exchange) forward(l *leash, c *call, o *body, model string, stream bool, p *passing) (int, *dialect.Error) {
	b := o.bytes()
	q, err := x.request(b, model, stream)
	if err != nil {
		return 0, x.a.failure(err)
	}
	r, err := x.a.send(l, q)
	if err != nil {
		return 0, x.a.failure(err)
	}
	defer r.Body.Close()
	c.first()
	if r.StatusCode/100 != 2 {
		x.header(r)
		return r.StatusCode, x.a.failure(dialect.ReadError(r))
	}
	if isStream(r.Header) {
		return r.StatusCode, p.events(r)
	}
	return r.StatusCode, p.whole(r)
}

// request makes the request in the client's own dialect.
func (x *exchange) request(b []byte, model string, stream bool) (*http.Request, error) {
	c := &x.a.Connector
	t, err := dialect.NewTarget(c.API, c.base(), c.Key, model, stream)
	if err != nil {
		return nil, err
	}
	u := t.URL
	if x.r.URL.Query().Get("beta") == "true" && c.API == dialect.Anthropic {
		u += "?beta=true"
	}
	q, err := http.NewRequestWithContext(x.r.Context(), http.MethodPost, u, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for _, name := range upward {
		if v := x.r.Header.Values(name); len(v) > 0 {
			q.Header[name] = v
		}
	}
	for name, v := range t.Header {
		if name != "Anthropic-Version" || q.Header.Get(name) == "" {
			q.Header[name] = v
		}
	}
	q.Header.Set("Content-Type", "application/json")
	return q, nil
}

// header copies what a client may know of an answer's headers.
func (x *exchange) header(r *http.Response) {
	for name, v := range r.Header {
		for _, prefix := range limits {
			if strings.HasPrefix(name, prefix) {
				x.w.Header()[name] = v
			}
		}
	}
	for _, name := range downward {
		if v := r.Header.Values(name); len(v) > 0 {
			x.w.Header()[name] = v
		}
	}
}

// passing is an answer on its way through.
type passing struct {
	x    *exchange
	c    *call
	l    *leash
	hide bool // what was asked for to count, and the client did not
}

// whole passes an answer on that is not a stream.
func (p *passing) whole(r *http.Response) *dialect.Error {
	ctx := p.x.r.Context()
	b, err := io.ReadAll(io.LimitReader(r.Body, mostText+1))
	if err != nil {
		return p.x.a.failure(p.l.cause(err))
	}
	if len(b) > mostText {
		return &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "atoll: the answer has too many bytes"}
	}
	m := dialect.Meter{API: p.x.d.Name()}
	m.Whole(b)
	if !m.Told {
		p.c.guess(&m.Usage, m.Text)
	}
	if err := p.c.settle(ctx, m.Usage, true); err != nil {
		return p.x.a.failure(err)
	}
	p.x.header(r)
	p.x.w.WriteHeader(r.StatusCode)
	_, _ = p.x.w.Write(p.clean(b)) // a client that is gone needs no answer
	return nil
}

// clean takes secrets out of what an API says.
func (p *passing) clean(b []byte) []byte {
	for _, s := range p.x.a.Connector.secrets() {
		if bytes.Contains(b, []byte(s)) {
			b = bytes.ReplaceAll(b, []byte(s), []byte("***"))
		}
	}
	return b
}

// events passes a stream on, each event when it is whole and counted.
func (p *passing) events(r *http.Response) *dialect.Error {
	p.x.header(r)
	h := p.x.w.Header()
	h.Set("Cache-Control", "no-cache")
	out := http.NewResponseController(p.x.w)
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }() // of the next answer, where it can be
	m := dialect.Meter{API: p.x.d.Name()}
	events := dialect.NewEvents(r.Body)
	ctx := p.x.r.Context()
	begun := false
	for {
		e, err := events.Next()
		if err != nil && len(bytes.TrimSpace(e.Raw)) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return p.broken(begun, p.x.a.failure(p.l.cause(err)))
		}
		hidden, refused := p.event(ctx, &m, e.Data)
		if refused != nil {
			return p.broken(begun, refused)
		}
		if hidden {
			continue
		}
		begun = true
		_ = out.SetWriteDeadline(time.Now().Add(slow)) // where it can be
		if _, err := p.x.w.Write(p.clean(e.Raw)); err != nil {
			p.c.left = true
			return nil
		}
		_ = out.Flush() // where it can be
	}
}

// event counts an event. It says whether the client is not to see it.
func (p *passing) event(ctx context.Context, m *dialect.Meter, data []byte) (hidden bool, e *dialect.Error) {
	if len(data) == 0 {
		return false, nil
	}
	last := m.Event(data)
	if m.Text > mostText {
		return false, &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "atoll: the answer has too many bytes"}
	}
	if last {
		u := m.Usage
		if !m.Told {
			p.c.guess(&u, m.Text)
		}
		if err := p.c.settle(ctx, u, true); err != nil {
			return false, p.x.a.failure(err)
		}
	} else if e := p.c.count(ctx, m.Usage, m.Text); e != nil {
		p.c.line.Refused = e.Message
		return false, e
	}
	return p.hide && m.Extra, nil
}

// broken tells of an error, within the stream if it has begun.
func (p *passing) broken(begun bool, e *dialect.Error) *dialect.Error {
	if !begun {
		h := p.x.w.Header()
		h.Del("Cache-Control")
		return e
	}
	p.c.line.Status = e.Status
	p.x.spent(e)
	q := &dialect.Request{}
	_ = p.x.d.NewWriter(p.x.w, q).Write(dialect.Delta{Type: dialect.Failed, Err: e}) // a client that is gone needs none
	return nil
}

// passCount asks the API how many tokens a request has.
func (x *exchange) passCount(o *body, model string) *dialect.Error {
	if err := x.prepare(o, model, false); err != nil {
		return invalid(err)
	}
	c, e := x.a.newCall(x.r.Context(), model)
	if e != nil {
		return e
	}
	l := c.leash(x.r.Context())
	defer l.close()
	q, err := x.request(o.bytes(), model, false)
	if err != nil {
		return x.a.failure(err)
	}
	q.URL.Path += "/count_tokens"
	r, err := x.a.send(l, q)
	if err != nil {
		return x.a.failure(err)
	}
	defer r.Body.Close()
	if r.StatusCode/100 != 2 {
		x.header(r)
		return x.a.failure(dialect.ReadError(r))
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return x.a.failure(l.cause(err))
	}
	x.header(r)
	_, _ = x.w.Write((&passing{x: x}).clean(b)) // a client that is gone needs no answer
	return nil
}
