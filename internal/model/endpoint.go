package model

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// MaxRequest bounds what is sent to a model, in bytes.
const MaxRequest = 64 << 20

// Endpoint answers as every dialect's API would, with the connector's models:
// translated where the dialects differ, else passed on. It adds the key, looks
// at path, model and budget first (403 when one is passed), and counts before
// the last byte of an answer is passed on.
func (a *Access) Endpoint() http.Handler {
	a.ready()
	return http.HandlerFunc(a.serve)
}

func (a *Access) serve(w http.ResponseWriter, r *http.Request) {
	t := routeOf(r.Method, r.URL)
	d, err := dialect.Of(t.api)
	if err != nil {
		d, _ = dialect.Of(dialect.OpenAI) // how paths without a dialect are answered
	}
	switch t.what {
	case "answer", "count":
	case "models":
		a.list(w, t)
		return
	case "model":
		a.tellModel(w, t, d)
		return
	case "hello":
		w.WriteHeader(http.StatusOK)
		return
	default:
		d.WriteError(w, &dialect.Error{Status: http.StatusNotFound, Code: "not_found", Message: "atoll: models are not asked here; POST /v1/messages, /v1/chat/completions, /v1/responses or /v1beta/models/M:generateContent"})
		return
	}
	x := &exchange{a: a, w: w, r: r, d: d, route: t}
	e := a.open(r.Context()) // before memory goes into a body
	if e == nil {
		e = x.serve()
	}
	if e != nil {
		x.spent(e)
		d.WriteError(w, e)
	}
}

// spent tells who serves the endpoint that a budget is used up: agents make of
// the answer what they like. In the middle of an answer nobody else sees it.
func (x *exchange) spent(e *dialect.Error) {
	if e.Code == "budget" {
		x.w.Header().Set(agent.SpentHeader, e.Message)
	}
}

// exchange is one request at the endpoint.
type exchange struct {
	a     *Access
	w     http.ResponseWriter
	r     *http.Request
	d     dialect.Dialect // that the client speaks
	route route
}

// slow is how long a client may take to take what is written.
const slow = 2 * time.Minute

// serve reads the body and answers.
func (x *exchange) serve() *dialect.Error {
	b, done, e := x.read()
	defer done()
	if e != nil {
		return e
	}
	return x.answer(b)
}

// read reads the body, which is in hand until done is called.
func (x *exchange) read() (b []byte, done func(), e *dialect.Error) {
	if e := x.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, func() {}, &dialect.Error{Status: http.StatusUnsupportedMediaType, Code: "invalid_request", Message: "atoll: the body is packed, which is not read"}
	}
	b, done, err := readBody(x.w, x.r, MaxRequest, &x.a.state.inHand, everybodys)
	if errors.As(err, &e) {
		if e == errTooLarge {
			x.w.Header().Set("Connection", "close") // the rest is not read
		}
		return nil, done, e
	}
	if err != nil {
		return nil, done, &dialect.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: "atoll: the body did not come whole"}
	}
	return b, done, nil
}

func (x *exchange) answer(b []byte) *dialect.Error {
	if err := dialect.Bound(b); err != nil {
		return invalid(err)
	}
	o, err := parse(b)
	if err != nil {
		return invalid(err)
	}
	if err := x.a.Connector.alone(b, o); err != nil {
		return invalid(err)
	}
	name := x.route.model
	if name == "" {
		o.get("model", &name)
	}
	model, e := x.a.resolve(name)
	if e != nil {
		return e
	}
	if x.route.what == "count" {
		return x.count(b, o, model)
	}
	if x.d.Name() == x.a.Connector.API {
		return x.pass(b, o, model)
	}
	return x.translate(b, model)
}

// invalid is the error of a client's mistake.
func invalid(err error) *dialect.Error {
	return &dialect.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: "atoll: " + err.Error()}
}

// count tells about how many tokens a request has.
func (x *exchange) count(b []byte, o *body, model string) *dialect.Error {
	if x.a.Connector.API == dialect.Anthropic && x.d.Name() == dialect.Anthropic && x.a.Connector.first() {
		return x.passCount(o, model)
	}
	q, err := x.d.ReadRequest(x.r, b)
	if err != nil {
		return invalid(err)
	}
	n := dialect.Estimate(q)
	doc := map[string]any{"input_tokens": n}
	if x.d.Name() == dialect.Gemini {
		doc = map[string]any{"totalTokens": n}
	}
	writeJSON(x.w, doc)
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}

// translate asks an API of another dialect.
func (x *exchange) translate(b []byte, model string) *dialect.Error {
	q, err := x.d.ReadRequest(x.r, b)
	if err != nil {
		return invalid(err)
	}
	for i := range q.Messages {
		if err := x.a.Connector.aloneOf(q.Messages[i].Parts); err != nil {
			return invalid(err)
		}
	}
	q.Stream = q.Stream || x.route.stream
	asked := *q
	asked.Model, asked.User = model, "" // whom it is for is nobody's business
	ctx := x.r.Context()
	c, e := x.a.admit(ctx, model, wish{input: dialect.Estimate(q), output: int64(q.MaxTokens), stream: q.Stream})
	if e != nil {
		return e
	}
	if !q.Stream {
		if q.Think == 0 && c.h.ahead < int64(q.MaxTokens) {
			asked.MaxTokens = int(c.h.ahead)
		}
		var g dialect.Gathering
		status, err := c.answer(ctx, &asked, func(d dialect.Delta) error { g.Add(d); return nil })
		c.end(ctx, status)
		if err != nil {
			return x.a.failure(err)
		}
		_ = x.d.WriteResponse(x.w, q, &g.Response) // a client that is gone needs no answer
		return nil
	}
	out := &reply{w: x.d.NewWriter(x.w, q), c: http.NewResponseController(x.w)}
	defer func() { _ = out.c.SetWriteDeadline(time.Time{}) }() // of the next answer, where it can be
	status, err := c.answer(ctx, &asked, out.write)
	c.left = out.gone != nil
	if err == nil || c.left {
		c.end(ctx, status)
		return nil
	}
	e = x.a.failure(err)
	c.line.Status = e.Status
	c.end(ctx, status)
	if !out.begun {
		return e
	}
	x.spent(e)
	_ = out.write(dialect.Delta{Type: dialect.Failed, Err: e})
	return nil
}

// reply writes to a client that may be slow, or gone.
type reply struct {
	w     dialect.Writer
	c     *http.ResponseController
	begun bool
	gone  error
}

func (o *reply) write(d dialect.Delta) error {
	o.begun = true
	_ = o.c.SetWriteDeadline(time.Now().Add(slow)) // where it can be
	if err := o.w.Write(d); err != nil {
		o.gone = err
		return err
	}
	return nil
}
