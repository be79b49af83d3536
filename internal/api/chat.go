package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/turn"
	"github.com/atoll-sandbox/atoll/internal/api/anthropic"
	"github.com/atoll-sandbox/atoll/internal/api/openai"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// registerDialects registers the APIs of other vendors, whose models are the assistants. They are
// not in the OpenAPI document.
func (s *Server) registerDialects(mux *http.ServeMux) {
	add := func(pattern string, f func(w http.ResponseWriter, r *http.Request, a *fleet.Account) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r, account(r.Context())); err != nil {
				s.writeProblem(w, r, err)
			}
		})
	}
	for _, prefix := range []string{"", "/openai"} {
		add("POST "+prefix+"/v1/chat/completions", s.completeChat)
		add("POST "+prefix+"/v1/responses", s.completeChat)
	}
	for _, prefix := range []string{"", "/anthropic"} {
		add("POST "+prefix+"/v1/messages", s.completeChat)
		add("POST "+prefix+"/v1/messages/count_tokens", s.countTokens)
	}
	for _, prefix := range []string{"", "/openai", "/anthropic"} {
		add("GET "+prefix+"/v1/models", s.listModels)
		add("GET "+prefix+"/v1/models/{id}", s.getModel)
	}
}

// dialectOf returns the vendor API that a request calls; empty: atoll's own.
func dialectOf(r *http.Request) dialect.Name {
	p := r.URL.Path
	switch {
	case p == "/v1/responses", p == "/openai/v1/responses":
		return dialect.Responses
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

// writeDialectError answers with an error in the format of the vendor API that the request calls.
// It returns false for atoll's own API.
func (s *Server) writeDialectError(w http.ResponseWriter, r *http.Request, p *problem) bool {
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
	if p.Status == http.StatusInsufficientStorage { // a quota of turns, or of storage: clients know it as this
		e.Status = http.StatusTooManyRequests
	}
	if w.Header().Get("Retry-After") == "" {
		setRetryAfter(e)
	}
	d.WriteError(w, e)
	return true
}

// statusCodes maps HTTP statuses to error codes of dialects.
var statusCodes = map[int]string{
	400: "invalid_request", 401: "authentication", 403: "permission", 404: "not_found", 405: "invalid_request", 408: "timeout", 409: "invalid_request", 413: "invalid_request",
	415: "invalid_request", 422: "invalid_request", 429: "rate_limit", 501: "invalid_request", 503: "overloaded", 504: "timeout", 507: "rate_limit",
}

// listModels answers with the assistants as models.
func (s *Server) listModels(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	all, err := s.listAssistants(r.Context(), a)
	if err != nil {
		return err
	}
	if dialectOf(r) == dialect.Anthropic {
		return writeJSON(w, http.StatusOK, anthropic.ListOf(all))
	}
	return writeJSON(w, http.StatusOK, openai.ListOf(all))
}

// getModel answers with one assistant as a model.
func (s *Server) getModel(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	all, err := s.listAssistants(r.Context(), a)
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
	return &requestError{status: http.StatusNotFound, kind: "not_found", detail: fmt.Sprintf("model %q: no assistant has this id", shorten(r.PathValue("id")))}
}

// countTokens answers with an estimate of the tokens of a request.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	if err := a.RequireScope("turn", atoll.ScopeRun); err != nil {
		return err
	}
	_, q, err := s.readDialectRequest(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, anthropic.CountOf(q))
}

// readDialectRequest reads a request to a vendor API.
func (s *Server) readDialectRequest(r *http.Request) (dialect.Dialect, *dialect.Request, error) {
	d, err := dialect.Of(dialectOf(r))
	if err != nil {
		return nil, nil, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, nil, newRequestError(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/json", shorten(r.Header.Get("Content-Type")))
	}
	b, done, err := model.ReadBody(r, turnBody)
	defer done()
	switch e := (*dialect.Error)(nil); {
	case errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge:
		return nil, nil, tooLarge(turnBody)
	case errors.As(err, &e):
		return nil, nil, newRequestError(e.Status, "%s", e.Message)
	case err != nil:
		return nil, nil, bodyError(err)
	}
	if err := checkParameters(d.Name(), b); err != nil {
		return nil, nil, err
	}
	q, err := d.ReadRequest(r, b)
	if err != nil && errors.Is(err, atoll.ErrInvalid) {
		return nil, nil, newRequestError(http.StatusBadRequest, "%v", err)
	}
	return d, q, err
}

// completeChat answers a request to a vendor API with a turn of an assistant. The turn is canceled
// when the client disconnects, unless it waits for results of the client's tools.
func (s *Server) completeChat(w http.ResponseWriter, r *http.Request, a *fleet.Account) error {
	if err := a.RequireScope("turn", atoll.ScopeRun); err != nil {
		return err
	}
	d, q, err := s.readDialectRequest(r)
	if err != nil {
		return err
	}
	has, err := s.agents()
	if err != nil {
		return err
	}
	leave, err := s.callers.admitStream(callOf(r.Context()), "turns")
	if err != nil {
		return err
	}
	defer leave()
	rec, after, err := s.turnForChat(r, has, a, q)
	if err != nil {
		return err
	}
	w.Header().Set("X-Atoll-Turn", rec.ID)
	w.Header().Set("X-Atoll-Chat", rec.Chat)
	c := &turnWriter{w: w, ctl: http.NewResponseController(w), d: d, q: q, turns: has.Turns, rec: rec, beat: s.limits.Heartbeat}
	err = c.followTurn(r.Context(), after)
	if err != nil && !c.waiting { // the client has disconnected, or can't be answered
		has.Turns.Abandon(rec.Owner, rec.ID, fmt.Errorf("the client has disconnected: %w", err))
	}
	if err != nil && c.begun {
		panic(http.ErrAbortHandler) // a partial response must not pass for a complete one
	}
	return err
}

// turnForChat returns the record of the turn that answers a request, and the event after which the
// response begins: a turn that waits for the tool results in the request, or else a new one.
func (s *Server) turnForChat(r *http.Request, has *Agents, a *fleet.Account, q *dialect.Request) (rec agent.Record, after int64, err error) {
	for _, p := range toolResults(q.Messages) {
		text := ""
		for _, part := range p.Parts {
			text += part.Text
		}
		// If the client leaves meanwhile, the turn is known all the same, and cancelled then.
		got, seen, err := has.Turns.AnswerToolCall(context.WithoutCancel(r.Context()), a.Caller().Owner, p.ID, turn.ToolAnswer{Text: text, Failed: p.Failed})
		if err == nil {
			rec, after = got, seen
		} else if !errors.Is(err, atoll.ErrNotFound) {
			if rec.ID != "" {
				has.Turns.Abandon(rec.Owner, rec.ID, err)
			}
			return rec, 0, err
		}
	}
	if rec.ID != "" {
		return rec, after, nil
	}
	chat := r.Header.Get("X-Atoll-Chat")
	for _, key := range []string{"chat_id", "chat"} {
		if chat == "" {
			chat = q.Metadata[key]
		}
	}
	begin := func() (*turn.Turn, error) {
		ask := &assistant.TurnRequest{
			Request: agent.Request{Assistant: q.Model, Chat: chat}, Account: a,
			Messages: q.Messages, Model: *q, Tools: q.Tools, Metadata: q.Metadata, Locale: r.Header.Get("Accept-Language"),
		}
		if chat != "" && r.Header.Get("X-Atoll-Queue") == "true" {
			return s.queueTurn(r.Context(), has, ask)
		}
		return s.startTurn(r.Context(), has, ask)
	}
	t, err := begin()
	if errors.Is(err, atoll.ErrState) && chat != "" && has.Turns.CancelWaiting(r.Context(), a.Caller().Owner, assistant.ChatKey(chat)) {
		t, err = begin()
	}
	if err != nil {
		return rec, 0, err
	}
	return t.Record(), 0, nil
}

// toolResults returns the tool results at the end of a conversation.
func toolResults(messages []dialect.Message) []dialect.Part {
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

// turnWriter writes the events of a turn as a response of a vendor API.
type turnWriter struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	d     dialect.Dialect
	q     *dialect.Request
	turns *turn.Registry
	rec   agent.Record // as it was when the response began
	beat  time.Duration

	out     dialect.Writer
	begun   bool           // a part of the response was written
	deltas  bool           // the present text block was streamed
	gap     bool           // a block has ended: the next one is separated by an empty line
	text    []byte         // all text so far
	calls   []dialect.Part // calls of the client's tools
	waiting bool           // the turn waits for the results of calls
	failed  bool           // the response has ended with an error
	last    int64          // Seq of the last event
	res     *agent.Result
}

// toolCallWait is how long a response that ends with tool calls waits for further calls made at
// the same time.
const toolCallWait = 50 * time.Millisecond

// followTurn writes the turn until it ends or waits for the client. It returns errors of writing,
// and errors before the response began.
func (c *turnWriter) followTurn(ctx context.Context, after int64) error {
	inner, cancel := context.WithCancel(ctx)
	events, ended := make(chan agent.Event), make(chan error, 1)
	go func() {
		ended <- c.turns.Follow(inner, c.rec.Owner, c.rec.ID, after, func(e agent.Event) error {
			select {
			case events <- e:
				return nil
			case <-inner.Done():
				return context.Cause(inner)
			}
		})
	}()
	err := c.writeEvents(ctx, events, ended)
	cancel()
	<-ended
	return err
}

// writeEvents writes events until the last.
func (c *turnWriter) writeEvents(ctx context.Context, events <-chan agent.Event, ended chan error) error {
	beat := time.NewTicker(c.beat)
	defer beat.Stop()
	wait := time.NewTimer(time.Hour)
	wait.Stop()
	defer wait.Stop()
	for {
		select {
		case e := <-events:
			c.last = e.Seq
			if err := c.writeEvent(&e); err != nil {
				return err
			}
			if c.res != nil {
				return c.writeOutcome()
			}
			if e.Type == agent.ClientToolCalled {
				wait.Reset(toolCallWait)
			}
		case <-wait.C:
			err := c.turns.PauseResponse(ctx, c.rec.Owner, c.rec.ID, c.last)
			if err == nil {
				c.waiting = true
				return c.writeEnd(dialect.StopTool, dialect.Usage{})
			}
			switch {
			case errors.Is(err, atoll.ErrState): // the event of another call is about to come
				wait.Reset(toolCallWait)
			case !errors.Is(err, atoll.ErrNotFound): // else it goes on
				return err
			}
		case <-beat.C:
			if err := c.writeHeartbeat(); err != nil {
				return err
			}
		case err := <-ended:
			ended <- err
			if err == nil {
				err = fmt.Errorf("%w: the events of the turn ended without a result", atoll.ErrUnavailable)
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// writeEvent writes one event, if it is meant for the client.
func (c *turnWriter) writeEvent(e *agent.Event) error {
	if e.Parent != "" {
		return nil
	}
	switch e.Type {
	case agent.TextDelta, agent.TextDone:
		return c.writeTextEvent(e)
	case agent.ThoughtDelta:
		if c.d.Name() != dialect.Anthropic { // Anthropic's clients send thoughts back with signatures, which these lack
			return c.write(dialect.Delta{Type: dialect.ThinkingDelta, Text: e.Text})
		}
	case agent.ClientToolCalled:
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

// writeTextEvent writes the text of an event. That of an agent is held back if the answer follows a schema: only
// the result has the answer.
func (c *turnWriter) writeTextEvent(e *agent.Event) error {
	if c.q.Schema != nil && c.rec.Agent != "" {
		return nil
	}
	if e.Type == agent.TextDelta {
		c.deltas = true
		return c.writeText(e.Text)
	}
	told := c.deltas
	c.deltas = false
	var err error
	if !told {
		err = c.writeText(e.Text)
	}
	c.gap = true
	return err
}

// writeStructured writes the answer of an agent that follows a schema.
func (c *turnWriter) writeStructured() error {
	if c.q.Schema == nil || c.rec.Agent == "" {
		return nil
	}
	text := c.res.Text
	if c.res.Structured != nil {
		text = string(c.res.Structured)
	}
	if !json.Valid([]byte(text)) {
		return c.writeFailure(&dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: "the agent's answer does not follow the schema"})
	}
	c.res.Text = text
	return c.writeText(text)
}

// writeText writes a piece of the text.
func (c *turnWriter) writeText(text string) error {
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

// write writes a piece of a streamed response.
func (c *turnWriter) write(x dialect.Delta) error {
	if !c.q.Stream {
		return nil
	}
	if err := c.beginStream(); err != nil {
		return err
	}
	return c.out.Write(x)
}

func (c *turnWriter) beginStream() error {
	if c.begun {
		return nil
	}
	c.begun = true
	c.w.Header().Set("X-Accel-Buffering", "no") // proxies must not buffer
	c.out = c.d.NewWriter(c.w, c.q)
	return c.out.Write(dialect.Delta{Type: dialect.Begin, ID: c.responseID(), Model: c.q.Model})
}

// responseID returns the id of the response in the format of the vendor API.
func (c *turnWriter) responseID() string {
	prefix := map[dialect.Name]string{dialect.OpenAI: "chatcmpl-", dialect.Anthropic: "msg_", dialect.Responses: "resp_"}[c.d.Name()]
	return fmt.Sprintf("%s%s%d", prefix, c.rec.ID, c.last)
}

// writeHeartbeat keeps a streamed response alive.
func (c *turnWriter) writeHeartbeat() error {
	if !c.q.Stream {
		return nil
	}
	if err := c.beginStream(); err != nil {
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

// writeOutcome writes the outcome of the turn.
func (c *turnWriter) writeOutcome() error {
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
		if err := c.writeStructured(); err != nil || c.failed {
			return err
		}
		return c.writeEnd(stop, usage)
	case agent.MaxTurns:
		return c.writeEnd(dialect.StopLength, usage)
	case agent.Refused:
		return c.writeEnd(dialect.StopRefused, usage)
	}
	return c.writeFailure(dialectErrorOf(c.res))
}

// writeFailure ends the response with an error.
func (c *turnWriter) writeFailure(e *dialect.Error) error {
	c.failed = true
	if !c.begun {
		c.d.WriteError(c.w, e)
		return nil
	}
	return c.out.Write(dialect.Delta{Type: dialect.Failed, Err: e})
}

// writeEnd ends a successful response.
func (c *turnWriter) writeEnd(stop dialect.Stop, usage dialect.Usage) error {
	if c.q.Stream {
		return c.write(dialect.Delta{Type: dialect.End, Stop: stop, Usage: usage})
	}
	a := &dialect.Response{ID: c.responseID(), Model: c.q.Model, Stop: stop, Usage: usage}
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

// failureStatuses maps error codes of turns to HTTP statuses and codes of dialects.
var failureStatuses = map[string]struct {
	status int
	code   string
}{
	"invalid_request": {400, "invalid_request"}, "prompt_too_long": {400, "invalid_request"}, "not_found": {404, "not_found"}, "state": {409, "invalid_request"}, "denied": {403, "permission"},
	"budget": {403, "budget"}, "billing": {402, "permission"}, "quota": {429, "rate_limit"}, "rate_limit": {429, "rate_limit"}, "overloaded": {503, "overloaded"}, "unavailable": {503, "overloaded"},
	"server_error": {500, "internal"}, "unsupported": {400, "invalid_request"}, "timeout": {504, "timeout"},
}

// passedStatuses are statuses of the model's API that the client gets: it may repeat the request. Others, such as that
// of a wrong key, are about the connector.
var passedStatuses = []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, statusOverloaded}

// statusOverloaded is the status of an overloaded API of Anthropic.
const statusOverloaded = 529

// dialectErrorOf returns a failed result as an error of a dialect.
func dialectErrorOf(res *agent.Result) *dialect.Error {
	e := &dialect.Error{Status: http.StatusBadGateway, Code: "internal", Message: res.Message, RetryAfter: res.RetryAfter}
	if f, ok := failureStatuses[res.Code]; ok {
		e.Status, e.Code = f.status, f.code
	}
	switch {
	case slices.Contains(passedStatuses, res.Status):
		e.Status = res.Status
	case res.Outcome == agent.Timeout:
		e.Status, e.Code = 504, "timeout"
	case res.Outcome == agent.Aborted:
		e.Status, e.Code = 503, "overloaded"
	}
	if e.Message == "" {
		e.Message = "the turn ended: " + strings.TrimSpace(string(res.Outcome)+" "+res.Code)
	}
	setRetryAfter(e)
	return e
}

// defaultRetry is the Retry-After of an error for which none is known, in seconds.
const defaultRetry = 5

// setRetryAfter sets RetryAfter of errors that pass with time.
func setRetryAfter(e *dialect.Error) {
	if e.RetryAfter == 0 && (e.Status == http.StatusTooManyRequests || e.Status == statusOverloaded) {
		e.RetryAfter = defaultRetry
	}
}
