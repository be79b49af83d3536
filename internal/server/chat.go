package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/dialect"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/server/anthropic"
	"github.com/atoll-sandbox/atoll/internal/server/openai"
	"github.com/atoll-sandbox/atoll/internal/turn"
)

// dialects adds the APIs of others, whose models are the assistants. They are
// not in the document, which is of the server's own.
func (s *Server) dialects(mux *http.ServeMux) {
	add := func(pattern string, f func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r, account(r.Context())); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	for _, prefix := range []string{"", "/openai"} {
		add("POST "+prefix+"/v1/chat/completions", s.chat)
	}
	for _, prefix := range []string{"", "/anthropic"} {
		add("POST "+prefix+"/v1/messages", s.chat)
		add("POST "+prefix+"/v1/messages/count_tokens", s.countTokens)
	}
	for _, prefix := range []string{"", "/openai", "/anthropic"} {
		add("GET "+prefix+"/v1/models", s.models)
		add("GET "+prefix+"/v1/models/{id}", s.model)
	}
}

// dialectOf returns whose API a request is to; empty: the server's own.
func dialectOf(r *http.Request) dialect.Name {
	p := r.URL.Path
	switch {
	case strings.HasPrefix(p, "/openai/"), p == "/v1/chat/completions":
		return dialect.OpenAI
	case strings.HasPrefix(p, "/anthropic/"), p == "/v1/messages", strings.HasPrefix(p, "/v1/messages/"):
		return dialect.Anthropic
	case p != "/v1/models" && !strings.HasPrefix(p, "/v1/models/"):
		return ""
	case r.Header.Get("Anthropic-Version") != "":
		return dialect.Anthropic
	}
	return dialect.OpenAI
}

// foreign answers with an error as the API would that a request is to; false:
// it is to the server's own.
func (s *Server) foreign(w http.ResponseWriter, r *http.Request, p *problem) bool {
	name := dialectOf(r)
	if name == "" {
		return false
	}
	d, err := dialect.Of(name)
	if err != nil {
		return false
	}
	e := &dialect.Error{Status: p.Status, Code: "internal", Message: p.Detail}
	if code, ok := statusCodes[p.Status]; ok {
		e.Code = code
	}
	d.WriteError(w, e)
	return true
}

// statusCodes are the words of dialects for statuses.
var statusCodes = map[int]string{
	400: "invalid_request", 401: "authentication", 403: "permission", 404: "not_found", 405: "invalid_request", 408: "timeout", 409: "invalid_request", 413: "invalid_request",
	415: "invalid_request", 422: "invalid_request", 429: "rate_limit", 501: "invalid_request", 503: "overloaded", 504: "timeout", 507: "rate_limit",
}

// models lists the assistants.
func (s *Server) models(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	all, err := s.assistants(r.Context(), a)
	if err != nil {
		return err
	}
	if dialectOf(r) == dialect.Anthropic {
		return writeJSON(w, http.StatusOK, anthropic.ListOf(all))
	}
	return writeJSON(w, http.StatusOK, openai.ListOf(all))
}

// model answers with one assistant.
func (s *Server) model(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	all, err := s.assistants(r.Context(), a)
	if err != nil {
		return err
	}
	for _, i := range all {
		switch {
		case i.ID != r.PathValue("id"):
		case dialectOf(r) == dialect.Anthropic:
			return writeJSON(w, http.StatusOK, anthropic.ModelOf(i))
		default:
			return writeJSON(w, http.StatusOK, openai.ModelOf(i))
		}
	}
	return &refusal{status: http.StatusNotFound, kind: "not_found", detail: fmt.Sprintf("model %q: there is no assistant of that id", clip(r.PathValue("id")))}
}

// countTokens answers with an estimate.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	if err := a.May("turn", atoll.ScopeRun); err != nil {
		return err
	}
	_, q, err := s.readForeign(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, anthropic.CountOf(q))
}

// readForeign reads a request to an API of others.
func (s *Server) readForeign(r *http.Request) (dialect.Dialect, *dialect.Request, error) {
	d, err := dialect.Of(dialectOf(r))
	if err != nil {
		return nil, nil, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, nil, refuse(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/json", clip(r.Header.Get("Content-Type")))
	}
	b, done, err := model.Body(r, turnBody)
	defer done()
	switch e := (*dialect.Error)(nil); {
	case errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge:
		return nil, nil, tooLarge(turnBody)
	case errors.As(err, &e):
		return nil, nil, refuse(e.Status, "%s", e.Message)
	case err != nil:
		return nil, nil, cutOff(err)
	}
	q, err := d.ReadRequest(r, b)
	if err != nil && errors.Is(err, atoll.ErrInvalid) {
		return nil, nil, refuse(http.StatusBadRequest, "%v", err)
	}
	return d, q, err
}

// chat answers a request to an API of others with a turn of an assistant. The
// turn ends when the client is gone, unless it waits for the client's own tools.
func (s *Server) chat(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	if err := a.May("turn", atoll.ScopeRun); err != nil {
		return err
	}
	d, q, err := s.readForeign(r)
	if err != nil {
		return err
	}
	has, err := s.agents()
	if err != nil {
		return err
	}
	leave, err := s.callers.follow(callOf(r.Context()), "turns")
	if err != nil {
		return err
	}
	defer leave()
	t, after, err := s.chatTurn(r, has, a, q)
	if err != nil {
		return err
	}
	w.Header().Set("X-Atoll-Turn", t.ID())
	w.Header().Set("X-Atoll-Chat", t.Record().Chat)
	c := &teller{w: w, ctl: http.NewResponseController(w), d: d, q: q, t: t, beat: s.limits.Heartbeat}
	err = c.follow(r.Context(), has.Desk, a.Caller().Owner, after)
	if err != nil && !c.waits { // the client is gone, or can't be answered
		t.Cancel(fmt.Errorf("the client is gone: %w", err))
	}
	if err != nil && c.begun {
		panic(http.ErrAbortHandler) // half of an answer must not pass for the whole
	}
	return err
}

// chatTurn returns the turn that answers a request: one that waits for the
// results that it brings, else a new one; and after which event the answer
// begins.
func (s *Server) chatTurn(r *http.Request, has *Agents, a *fleet.Account, q *dialect.Request) (*turn.Turn, int64, error) {
	var t *turn.Turn
	for _, p := range results(q.Messages) {
		text := ""
		for _, part := range p.Parts {
			text += part.Text
		}
		if w := has.Desk.Answer(a.Caller().Owner, p.ID, turn.Answer{Text: text, Failed: p.Failed}); w != nil {
			t = w
		}
	}
	if t != nil {
		return t, t.Marked(), nil
	}
	chat := r.Header.Get("X-Atoll-Chat")
	for _, key := range []string{"chat_id", "chat"} {
		if chat == "" {
			chat = q.Metadata[key]
		}
	}
	begin := func() (*turn.Turn, error) {
		return s.startTurn(r.Context(), has, &assistant.Ask{
			Request: agent.Request{Assistant: q.Model, Chat: chat}, Account: a,
			Messages: q.Messages, Model: *q, Tools: q.Tools, Metadata: q.Metadata, Locale: r.Header.Get("Accept-Language"),
		})
	}
	t, err := begin()
	if errors.Is(err, atoll.ErrState) && chat != "" && has.Desk.Abandon(r.Context(), a.Caller().Owner, assistant.ChatKey(chat)) {
		t, err = begin()
	}
	return t, 0, err
}

// results returns what came of calls that a conversation ends with.
func results(messages []dialect.Message) []dialect.Part {
	var list []dialect.Part
	for i := len(messages) - 1; i >= 0 && messages[i].Role == dialect.User; i-- {
		for _, p := range messages[i].Parts {
			if p.Type == dialect.ToolResult {
				list = append(list, p)
			}
		}
	}
	return list
}

// teller tells a client of another API what happens in a turn.
type teller struct {
	w    http.ResponseWriter
	ctl  *http.ResponseController
	d    dialect.Dialect
	q    *dialect.Request
	t    *turn.Turn
	beat time.Duration

	out    dialect.Writer
	begun  bool           // something of the answer was written
	deltas bool           // of the block under way
	gap    bool           // a block has ended: the next is told apart
	text   []byte         // all of it
	calls  []dialect.Part // of the client's tools
	waits  bool           // the turn waits for what comes of them
	last   int64          // Seq
	res    *agent.Result
}

// gather is how long an answer that ends with calls waits for others that the
// agent makes at the same time.
const gather = 50 * time.Millisecond

// follow tells all of the turn, until it ends or waits for the client. An error
// is one of reaching the client, or before anything was told to it.
func (c *teller) follow(ctx context.Context, d *turn.Desk, o atoll.Owner, after int64) error {
	inner, cancel := context.WithCancel(ctx)
	events, ended := make(chan agent.Event), make(chan error, 1)
	go func() {
		ended <- d.Follow(inner, o, c.t.ID(), after, func(e agent.Event) error {
			select {
			case events <- e:
				return nil
			case <-inner.Done():
				return context.Cause(inner)
			}
		})
	}()
	err := c.tell(ctx, events, ended)
	cancel()
	<-ended
	return err
}

// tell takes events until the last.
func (c *teller) tell(ctx context.Context, events <-chan agent.Event, ended chan error) error {
	beat := time.NewTicker(c.beat)
	defer beat.Stop()
	wait := time.NewTimer(time.Hour)
	wait.Stop()
	defer wait.Stop()
	for {
		select {
		case e := <-events:
			c.last = e.Seq
			if err := c.event(&e); err != nil {
				return err
			}
			if c.res != nil {
				return c.end()
			}
			if e.Type == agent.ToolWanted {
				wait.Reset(gather)
			}
		case <-wait.C:
			if c.t.Record().State == turn.Waiting {
				c.waits = true
				c.t.Mark(c.last)
				return c.finish(dialect.StopTool, dialect.Usage{})
			}
		case <-beat.C:
			if err := c.alive(); err != nil {
				return err
			}
		case err := <-ended:
			ended <- err
			if err == nil {
				err = fmt.Errorf("%w: the turn has no end", atoll.ErrUnavailable)
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// event tells of one event, if it is for the client.
func (c *teller) event(e *agent.Event) error {
	if e.Parent != "" {
		return nil
	}
	switch e.Type {
	case agent.TextDelta:
		c.deltas = true
		return c.piece(e.Text)
	case agent.TextDone:
		told := c.deltas
		c.deltas = false
		var err error
		if !told {
			err = c.piece(e.Text)
		}
		c.gap = true
		return err
	case agent.ThoughtDelta:
		if c.d.Name() == dialect.OpenAI { // clients of the other give thoughts back, with signatures that there are none of
			return c.write(dialect.Delta{Type: dialect.ThinkingDelta, Text: e.Text})
		}
	case agent.ToolWanted:
		p := dialect.Part{Type: dialect.ToolUse, ID: e.Tool.ID, Name: e.Tool.Name, Input: e.Tool.Input}
		if len(p.Input) == 0 {
			p.Input = json.RawMessage("{}")
		}
		c.calls = append(c.calls, p)
		if err := c.write(dialect.Delta{Type: dialect.ToolBegin, ID: p.ID, Name: p.Name}); err != nil {
			return err
		}
		return c.write(dialect.Delta{Type: dialect.ToolDelta, Text: string(p.Input)})
	case agent.Finished:
		c.res = e.Result
		if c.res == nil {
			c.res = &agent.Result{Outcome: agent.Crashed}
		}
	}
	return nil
}

// piece tells a piece of the text.
func (c *teller) piece(text string) error {
	if text == "" {
		return nil
	}
	if c.gap && len(c.text) > 0 {
		text = "\n\n" + text
	}
	c.gap = false
	c.text = append(c.text, text...)
	return c.write(dialect.Delta{Type: dialect.TextDelta, Text: text})
}

// write tells a piece of an answer that is a stream.
func (c *teller) write(x dialect.Delta) error {
	if !c.q.Stream {
		return nil
	}
	if err := c.begin(); err != nil {
		return err
	}
	return c.out.Write(x)
}

func (c *teller) begin() error {
	if c.begun {
		return nil
	}
	c.begun = true
	c.w.Header().Set("X-Accel-Buffering", "no") // a proxy must not wait for more
	c.out = c.d.NewWriter(c.w, c.q)
	return c.out.Write(dialect.Delta{Type: dialect.Begin, ID: c.id(), Model: c.q.Model})
}

// id is the answer's, as the API has them.
func (c *teller) id() string {
	prefix := "chatcmpl-"
	if c.d.Name() == dialect.Anthropic {
		prefix = "msg_"
	}
	return fmt.Sprintf("%s%s%d", prefix, c.t.ID(), c.last)
}

// alive says that there is still somebody, where nothing else is said.
func (c *teller) alive() error {
	if !c.q.Stream {
		return nil
	}
	if err := c.begin(); err != nil {
		return err
	}
	text := ": still here\n\n"
	if c.d.Name() == dialect.Anthropic {
		text = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	}
	if _, err := io.WriteString(c.w, text); err != nil {
		return err
	}
	return c.ctl.Flush()
}

// end tells how the turn ended.
func (c *teller) end() error {
	u := c.res.Usage
	usage := dialect.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	switch c.res.Outcome {
	case agent.OK:
		stop := dialect.StopEnd
		switch {
		case len(c.calls) > 0:
			stop = dialect.StopTool
		case c.res.Code == "max_output":
			stop = dialect.StopLength
		}
		return c.finish(stop, usage)
	case agent.MaxTurns:
		return c.finish(dialect.StopLength, usage)
	case agent.Refused:
		return c.finish(dialect.StopRefused, usage)
	}
	e := failure(c.res)
	if !c.begun {
		c.d.WriteError(c.w, e)
		return nil
	}
	return c.out.Write(dialect.Delta{Type: dialect.Failed, Err: e})
}

// finish ends an answer that went well.
func (c *teller) finish(stop dialect.Stop, usage dialect.Usage) error {
	if c.q.Stream {
		return c.write(dialect.Delta{Type: dialect.End, Stop: stop, Usage: usage})
	}
	a := &dialect.Response{ID: c.id(), Model: c.q.Model, Stop: stop, Usage: usage}
	text := string(c.text)
	if c.res != nil && c.res.Text != "" {
		text = c.res.Text
	}
	if text != "" {
		a.Parts = append(a.Parts, dialect.Part{Type: dialect.TextPart, Text: text})
	}
	a.Parts = append(a.Parts, c.calls...)
	return c.d.WriteResponse(c.w, c.q, a)
}

// failures are the statuses of what turns fail with.
var failures = map[string]struct {
	status int
	code   string
}{
	"invalid_request": {400, "invalid_request"}, "not_found": {404, "not_found"}, "state": {409, "invalid_request"}, "denied": {403, "permission"},
	"budget": {403, "budget"}, "quota": {429, "rate_limit"}, "rate_limit": {429, "rate_limit"}, "overloaded": {503, "overloaded"}, "unavailable": {503, "overloaded"},
	"unsupported": {400, "invalid_request"}, "timeout": {504, "timeout"},
}

// failure is a result that did not go well, as an API's error.
func failure(res *agent.Result) *dialect.Error {
	e := &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: res.Message}
	if f, ok := failures[res.Code]; ok {
		e.Status, e.Code = f.status, f.code
	}
	switch {
	case res.Outcome == agent.Timeout:
		e.Status, e.Code = 504, "timeout"
	case res.Outcome == agent.Aborted:
		e.Status, e.Code = 503, "overloaded"
	}
	if e.Message == "" {
		e.Message = "the turn ended: " + strings.TrimSpace(string(res.Outcome)+" "+res.Code)
	}
	return e
}
