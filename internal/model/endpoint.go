package model

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// MaxRequest is the largest request to a model, in bytes.
const MaxRequest = 64 << 20

// Endpoint returns a handler that serves every dialect with the connector's models. It
// forwards requests in the connector's own dialect and translates others. It adds the
// key, checks path, model and budget first (403 over a budget), and counts the usage
// before it writes the last byte of an answer.
func (a *Access) Endpoint() http.Handler {
	a.prepareOnce()
	return http.HandlerFunc(a.serve)
}

func (a *Access) serve(w http.ResponseWriter, r *http.Request) {
	t := routeOf(r.Method, r.URL)
	d, err := dialect.Of(t.api)
	if err != nil {
		d, _ = dialect.Of(dialect.OpenAI) // for paths without a dialect
	}
	switch t.kind {
	case "answer", "count":
	case "models":
		a.listModels(w, t)
		return
	case "model":
		a.writeModel(w, t, d)
		return
	case "hello":
		w.WriteHeader(http.StatusOK)
		return
	default:
		d.WriteError(w, &dialect.Error{Status: http.StatusNotFound, Code: "not_found", Message: "atoll: unknown path; POST /v1/messages, /v1/chat/completions, /v1/responses or /v1beta/models/M:generateContent"})
		return
	}
	x := &exchange{a: a, w: w, r: r, d: d, route: t}
	e := a.checkBudgets(r.Context()) // before a body is read into memory
	if e == nil {
		e = x.serve()
	}
	if e != nil && r.Context().Err() == nil { // else the client has left
		x.reportFailure(e)
		d.WriteError(w, e)
	}
}

// reportFailure sets headers about a failure and a used up budget, for the server of the
// endpoint: agents may hide the error, and in the middle of an answer only they see it.
func (x *exchange) reportFailure(e *dialect.Error) {
	x.w.Header().Set(agent.StatusHeader, strconv.Itoa(e.Status))
	if e.RetryAfter > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Code == "budget" {
		x.w.Header().Set(agent.BudgetHeader, e.Message)
	}
}

// exchange is one request at the endpoint.
type exchange struct {
	a     *Access
	w     http.ResponseWriter
	r     *http.Request
	d     dialect.Dialect // of the client
	route route
}

// writeTimeout is how long a client may take to read what is written.
const writeTimeout = 2 * time.Minute

// serve reads the body and answers.
func (x *exchange) serve() *dialect.Error {
	b, done, e := x.read()
	defer done()
	if e != nil {
		return e
	}
	return x.answerRequest(b)
}

// read reads the body. Its memory is reserved until done is called.
func (x *exchange) read() (b []byte, done func(), e *dialect.Error) {
	if e := x.r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, func() {}, &dialect.Error{Status: http.StatusUnsupportedMediaType, Code: "invalid_request", Message: "atoll: compressed bodies are not supported"}
	}
	b, done, err := readBody(x.w, x.r, MaxRequest, &x.a.state.memory, processMemory)
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

func (x *exchange) answerRequest(b []byte) *dialect.Error {
	if err := dialect.CheckLimits(b); err != nil {
		return invalidError(err)
	}
	o, err := parse(b)
	if err != nil {
		return invalidError(err)
	}
	if err := x.a.Connector.refuseRemote(b, o); err != nil {
		return invalidError(err)
	}
	name := x.route.model
	if name == "" {
		o.get("model", &name)
	}
	model, e := x.a.resolveModel(name)
	if e != nil {
		return e
	}
	if x.route.kind == "count" {
		return x.countTokens(b, o, model)
	}
	if x.d.Name() == x.a.Connector.API {
		return x.passThrough(b, o, model)
	}
	return x.translateRequest(b, model)
}

// invalidError returns the error for an invalid request.
func invalidError(err error) *dialect.Error {
	return &dialect.Error{Status: http.StatusBadRequest, Code: "invalid_request", Message: "atoll: " + err.Error()}
}

// countTokens writes the approximate number of tokens of a request.
func (x *exchange) countTokens(b []byte, o *body, model string) *dialect.Error {
	if x.a.Connector.API == dialect.Anthropic && x.d.Name() == dialect.Anthropic && x.a.Connector.isFirstParty() {
		return x.passCount(o, model)
	}
	q, err := x.d.ReadRequest(x.r, b)
	if err != nil {
		return invalidError(err)
	}
	n := dialect.EstimateRequest(q)
	doc := map[string]any{"input_tokens": n}
	if x.d.Name() == dialect.Gemini {
		doc = map[string]any{"totalTokens": n}
	}
	writeJSON(x.w, doc)
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

// translateRequest calls an API of another dialect.
func (x *exchange) translateRequest(b []byte, model string) *dialect.Error {
	q, err := x.d.ReadRequest(x.r, b)
	if err != nil {
		return invalidError(err)
	}
	for i := range q.Messages {
		if err := x.a.Connector.refuseRemoteParts(q.Messages[i].Parts); err != nil {
			return invalidError(err)
		}
	}
	q.Stream = q.Stream || x.route.stream
	asked := *q
	asked.Model, asked.User = model, "" // other companies do not get the user's name
	ctx := x.r.Context()
	c, e := x.a.admitCall(ctx, model, requestSize{input: dialect.EstimateRequest(q), output: int64(q.MaxTokens), stream: q.Stream})
	if e != nil {
		return e
	}
	if !q.Stream {
		if q.ThinkTokens == 0 && c.hold.maxOutput < int64(q.MaxTokens) {
			asked.MaxTokens = int(c.hold.maxOutput)
		}
		var g dialect.ResponseBuilder
		status, err := c.callAPI(ctx, &asked, func(d dialect.Delta) error { g.Add(d); return nil })
		if err != nil {
			e := x.a.toError(err)
			c.noteFailure(ctx, e)
			c.finishCall(ctx, status)
			return e
		}
		c.finishCall(ctx, status)
		_ = x.d.WriteResponse(x.w, q, &g.Response) // the client may have disconnected
		return nil
	}
	out := &replyWriter{w: x.d.NewWriter(x.w, q), c: http.NewResponseController(x.w)}
	defer func() { _ = out.c.SetWriteDeadline(time.Time{}) }() // of the next answer, where it can be
	status, err := c.callAPI(ctx, &asked, out.write)
	c.clientGone = out.writeErr != nil
	if err == nil || c.clientGone {
		c.finishCall(ctx, status)
		return nil
	}
	e = x.a.toError(err)
	c.noteFailure(ctx, e)
	c.finishCall(ctx, status)
	if !out.begun {
		return e
	}
	x.reportFailure(e)
	_ = out.write(dialect.Delta{Type: dialect.Failed, Err: e})
	return nil
}

// replyWriter writes to a client that may be slow, or disconnected.
type replyWriter struct {
	w        dialect.Writer
	c        *http.ResponseController
	begun    bool
	writeErr error
}

func (o *replyWriter) write(d dialect.Delta) error {
	o.begun = true
	_ = o.c.SetWriteDeadline(time.Now().Add(writeTimeout)) // where it can be
	if err := o.w.Write(d); err != nil {
		o.writeErr = err
		return err
	}
	return nil
}
