package model

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// requestHeaders are the headers of a client that are forwarded to an API.
var requestHeaders = []string{
	"Accept", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "User-Agent",
}

// responseHeaders are the headers of an API that are forwarded to a client, besides those
// with one of rateLimitPrefixes.
var responseHeaders = []string{
	"Content-Type", "Request-Id", "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry",
}

var rateLimitPrefixes = []string{"Anthropic-Ratelimit-", "X-Ratelimit-"}

// passThrough calls an API of the client's own dialect: the bytes are forwarded unchanged,
// except for the model and for fields that must not leave the host.
func (x *exchange) passThrough(b []byte, o *body, model string) *dialect.Error {
	var stream, asked bool
	o.get("stream", &stream)
	stream = stream || x.route.stream
	if x.d.Name() == dialect.OpenAI && stream {
		var options map[string]any
		o.get("stream_options", &options)
		asked, _ = options["include_usage"].(bool)
	}
	if err := x.prepareBody(o, model, stream && !asked); err != nil {
		return invalidError(err)
	}
	ctx := x.r.Context()
	c, e := x.a.admitCall(ctx, model, requestSize{input: dialect.EstimateTokens(len(b)), output: o.maxOutput(), stream: stream})
	if e != nil {
		return e
	}
	if !stream {
		o.lowerOutput(c.hold.maxOutput)
	}
	l := c.startTimer(ctx)
	defer l.close()
	status, e := x.forwardRequest(l, c, o, model, stream, &passedAnswer{x: x, c: c, l: l, hideUsage: !asked})
	if e != nil {
		c.noteFailure(ctx, e)
	}
	c.finishCall(ctx, status)
	return e
}

// prepareBody sets and removes the fields that the endpoint decides.
func (x *exchange) prepareBody(o *body, model string, tell bool) error {
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
	if !x.a.Connector.isFirstParty() { // other companies do not get the user's name
		for _, name := range []string{"metadata", "user", "safety_identifier"} {
			o.removeField(name)
		}
	}
	if err := x.a.Connector.removeHostedTools(x.d.Name(), o); err != nil {
		return err
	}
	return x.a.Connector.applyExtra(o)
}

// forwardRequest calls the API and forwards its answer. It returns the API's status.
func (x *exchange) forwardRequest(l *requestTimer, c *call, o *body, model string, stream bool, p *passedAnswer) (int, *dialect.Error) {
	b := o.encode()
	q, err := x.buildRequest(b, model, stream)
	if err != nil {
		return 0, x.a.toError(err)
	}
	r, err := x.a.send(l, q)
	if err != nil {
		return 0, x.a.toError(err)
	}
	defer r.Body.Close()
	c.noteFirstByte()
	if r.StatusCode/100 != 2 {
		x.copyHeader(r)
		return r.StatusCode, x.a.toError(dialect.ReadError(r))
	}
	if isStream(r.Header) {
		return r.StatusCode, p.streamEvents(r)
	}
	return r.StatusCode, p.writeWhole(r)
}

// buildRequest builds the request in the client's own dialect.
func (x *exchange) buildRequest(b []byte, model string, stream bool) (*http.Request, error) {
	c := &x.a.Connector
	t, err := dialect.NewTarget(c.API, c.baseURL(), c.Key, model, stream)
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
	for _, name := range requestHeaders {
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

// copyHeader copies the allowed headers of an answer.
func (x *exchange) copyHeader(r *http.Response) {
	for name, v := range r.Header {
		for _, prefix := range rateLimitPrefixes {
			if strings.HasPrefix(name, prefix) {
				x.w.Header()[name] = v
			}
		}
	}
	for _, name := range responseHeaders {
		if v := r.Header.Values(name); len(v) > 0 {
			x.w.Header()[name] = v
		}
	}
}

// passedAnswer is an answer that is forwarded.
type passedAnswer struct {
	x         *exchange
	c         *call
	l         *requestTimer
	hideUsage bool // usage was requested by the endpoint, not by the client
}

// writeWhole forwards an answer that is not a stream.
func (p *passedAnswer) writeWhole(r *http.Response) *dialect.Error {
	ctx := p.x.r.Context()
	b, err := io.ReadAll(io.LimitReader(r.Body, maxText+1))
	if err != nil {
		return p.x.a.toError(p.l.errorCause(err))
	}
	if len(b) > maxText {
		return &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "atoll: the answer has too many bytes"}
	}
	m := dialect.Meter{API: p.x.d.Name()}
	m.ReadResponse(b)
	if !m.Final {
		p.c.estimateMissing(&m.Usage, m.TextBytes)
	}
	if err := p.c.chargeOnce(ctx, m.Usage, true); err != nil {
		return p.x.a.toError(err)
	}
	p.x.copyHeader(r)
	p.x.w.WriteHeader(r.StatusCode)
	_, _ = p.x.w.Write(p.redactBytes(b)) // the client may have disconnected
	return nil
}

// redactBytes removes secrets from an API's answer.
func (p *passedAnswer) redactBytes(b []byte) []byte {
	for _, s := range p.x.a.Connector.secretValues() {
		if bytes.Contains(b, []byte(s)) {
			b = bytes.ReplaceAll(b, []byte(s), []byte("***"))
		}
	}
	return b
}

// streamEvents forwards a stream, each event when it is complete and counted.
func (p *passedAnswer) streamEvents(r *http.Response) *dialect.Error {
	p.x.copyHeader(r)
	h := p.x.w.Header()
	h.Set("Cache-Control", "no-cache")
	out := http.NewResponseController(p.x.w)
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }() // for the next answer; not every writer supports it
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
			return p.reportBroken(begun, p.x.a.toError(p.l.errorCause(err)))
		}
		hidden, refused := p.countEvent(ctx, &m, e.Data)
		if refused != nil {
			return p.reportBroken(begun, refused)
		}
		if hidden {
			continue
		}
		begun = true
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer supports it
		if _, err := p.x.w.Write(p.redactBytes(e.Raw)); err != nil {
			p.c.clientGone = true
			return nil
		}
		_ = out.Flush() // not every writer supports it
	}
}

// countEvent counts an event, and reports whether it is hidden from the client.
func (p *passedAnswer) countEvent(ctx context.Context, m *dialect.Meter, data []byte) (hidden bool, e *dialect.Error) {
	if len(data) == 0 {
		return false, nil
	}
	last := m.ReadEvent(data)
	if m.TextBytes > maxText {
		return false, &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "atoll: the answer has too many bytes"}
	}
	if last {
		u := m.Usage
		if !m.Final {
			p.c.estimateMissing(&u, m.TextBytes)
		}
		if err := p.c.chargeOnce(ctx, u, true); err != nil {
			return false, p.x.a.toError(err)
		}
	} else if e := p.c.countUsage(ctx, m.Usage, m.TextBytes); e != nil {
		p.c.line.Refused = e.Message
		return false, e
	}
	return p.hideUsage && m.UsageOnly, nil
}

// reportBroken reports an error to the client, within the stream if it has begun.
func (p *passedAnswer) reportBroken(begun bool, e *dialect.Error) *dialect.Error {
	if !begun {
		h := p.x.w.Header()
		h.Del("Cache-Control")
		return e
	}
	p.c.noteFailure(p.x.r.Context(), e)
	p.x.reportFailure(e)
	q := &dialect.Request{}
	_ = p.x.d.NewWriter(p.x.w, q).Write(dialect.Delta{Type: dialect.Failed, Err: e}) // the client may have disconnected
	return nil
}

// passCount asks the API for the number of tokens of a request.
func (x *exchange) passCount(o *body, model string) *dialect.Error {
	if err := x.prepareBody(o, model, false); err != nil {
		return invalidError(err)
	}
	c, e := x.a.newCall(x.r.Context(), model)
	if e != nil {
		return e
	}
	l := c.startTimer(x.r.Context())
	defer l.close()
	q, err := x.buildRequest(o.encode(), model, false)
	if err != nil {
		return x.a.toError(err)
	}
	q.URL.Path += "/count_tokens"
	r, err := x.a.send(l, q)
	if err != nil {
		return x.a.toError(err)
	}
	defer r.Body.Close()
	if r.StatusCode/100 != 2 {
		x.copyHeader(r)
		return x.a.toError(dialect.ReadError(r))
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return x.a.toError(l.errorCause(err))
	}
	x.copyHeader(r)
	_, _ = x.w.Write((&passedAnswer{x: x}).redactBytes(b)) // the client may have disconnected
	return nil
}
