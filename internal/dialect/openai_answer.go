package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

type openaiUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	CacheHit   int64 `json:"prompt_cache_hit_tokens"` // DeepSeek
	Details    struct {
		Cached int64 `json:"cached_tokens"`
		Wrote  int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u *openaiUsage) usage() Usage {
	read := max(u.Details.Cached, u.CacheHit, 0)
	wrote := max(u.Details.Wrote, 0)
	return Usage{Input: max(u.Prompt-read-wrote, 0), Output: max(u.Completion, 0), CacheRead: read, CacheWrite: wrote}
}

func (u Usage) openai() object {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.CacheRead},
	}
}

// openaiAnswer is a whole answer, and a piece of one.
type openaiAnswer struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int           `json:"index"`
		Message openaiMessage `json:"message"`
		Delta   openaiMessage `json:"delta"`
		Finish  string        `json:"finish_reason"`
	} `json:"choices"`
	Usage *openaiUsage    `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// ReadResponse reads a completion.
func (d openai) ReadResponse(r *http.Response) (*Response, error) {
	var in openaiAnswer
	if err := whole(r, &in); err != nil {
		return nil, err
	}
	a := &Response{ID: in.ID, Model: in.Model}
	if in.Usage != nil {
		a.Usage = in.Usage.usage()
	}
	if len(in.Choices) == 0 {
		return nil, fmt.Errorf("%w: answer: it has no choices", atoll.ErrUnavailable)
	}
	c := &in.Choices[0]
	parts, err := d.parts(c.Message.Content)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	a.Parts = d.said(&c.Message, parts)
	calls := false
	for i, p := range a.Parts {
		if p.Type == ToolUse {
			calls = true
			if len(c.Message.ToolCalls) == 0 || strings.HasPrefix(p.ID, "call_") && len(p.ID) < 8 {
				a.Parts[i].ID = fresh("call_")
			}
		}
	}
	a.Stop, err = stopOfOpenAI(c.Finish, calls)
	return a, err
}

// stopOfOpenAI reads why a model stopped; servers that say nothing or "stop"
// may still have called tools.
func stopOfOpenAI(s string, calls bool) (Stop, error) {
	switch s {
	case "length", "max_tokens":
		return StopLength, nil
	case "content_filter":
		return StopRefused, nil
	case "insufficient_system_resource": // DeepSeek
		return "", &Error{Status: http.StatusServiceUnavailable, Code: "overloaded", Message: "the API has no resources left for the answer"}
	}
	if calls {
		return StopTool, nil
	}
	return StopEnd, nil
}

func (s Stop) openai() string {
	switch s {
	case StopTool:
		return "tool_calls"
	case StopLength:
		return "length"
	case StopRefused:
		return "content_filter"
	}
	return "stop"
}

// WriteResponse answers with a completion.
func (d openai) WriteResponse(w http.ResponseWriter, q *Request, a *Response) error {
	m := object{"role": "assistant", "content": nil, "refusal": nil}
	var calls []object
	var text, thoughts strings.Builder
	for _, p := range a.Parts {
		switch p.Type {
		case TextPart:
			text.WriteString(p.Text)
		case ThinkingPart:
			thoughts.WriteString(p.Text)
		case ToolUse:
			calls = append(calls, object{
				"id": p.ID, "type": "function", "function": object{"name": p.Name, "arguments": string(input(string(p.Input)))},
			})
		}
	}
	if text.Len() > 0 || len(calls) == 0 {
		m["content"] = text.String()
	}
	if thoughts.Len() > 0 {
		m["reasoning_content"] = thoughts.String()
	}
	if len(calls) > 0 {
		m["tool_calls"] = calls
	}
	return answer(w, http.StatusOK, object{
		"id": completionID(a.ID), "object": "chat.completion", "created": time.Now().Unix(), "model": modelOf(q, a.Model),
		"choices": []object{{"index": 0, "message": m, "logprobs": nil, "finish_reason": a.Stop.openai()}}, "usage": a.Usage.openai(),
	})
}

func completionID(id string) string {
	if id == "" {
		return fresh("chatcmpl-")
	}
	return id
}

// WriteError tells of an error.
func (openai) WriteError(w http.ResponseWriter, e *Error) {
	_ = answer(w, e.told(w), e.openai()) // a client that is gone needs no error
}

func (e *Error) openai() object {
	kind, code := "invalid_request_error", any(nil)
	switch e.Code {
	case "authentication":
		code = "invalid_api_key"
	case "not_found":
		code = "model_not_found"
	case "rate_limit":
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	case "budget":
		kind, code = "permission_error", "budget_exceeded"
	case "permission":
		kind = "permission_error"
	case "overloaded", "internal", "timeout", "":
		kind, code = "server_error", e.Code
	}
	return object{"error": object{"message": e.Message, "type": kind, "param": nil, "code": code}}
}

// openaiReader is where a stream is.
type openaiReader struct {
	f      func(Delta) error
	usage  Usage
	finish string
	call   string // id of the call under way
	index  int    // its index; -1: not told
	last   int    // the highest index that began
	calls  int
	text   bool // the call under way has arguments
	begun  bool
	thinks bool
}

// ReadStream reads the chunks of a completion.
func (openai) ReadStream(r io.Reader, f func(Delta) error) error {
	s := openaiReader{f: f, index: -1, last: -1}
	events := NewEvents(r)
	for {
		var in openaiAnswer
		e, err := events.read(&in)
		switch {
		case errors.Is(err, errDone) && !s.begun:
			return fmt.Errorf("%w: answer: the stream is empty", io.ErrUnexpectedEOF)
		case errors.Is(err, errDone), errors.Is(err, errCut) && s.finish != "": // some servers end without [DONE]
			return s.end()
		case err != nil:
			return err
		}
		if !absent(in.Error) || e.Name == "error" {
			return streamError(e.Data)
		}
		if err := s.chunk(&in); err != nil {
			return err
		}
	}
}

func (s *openaiReader) end() error {
	stop, err := stopOfOpenAI(s.finish, s.calls > 0)
	if err != nil {
		return err
	}
	if err := s.thought(); err != nil {
		return err
	}
	return s.f(Delta{Type: End, Stop: stop, Usage: s.usage})
}

func (s *openaiReader) chunk(c *openaiAnswer) error {
	if !s.begun && (len(c.Choices) > 0 || c.Usage != nil) {
		s.begun = true
		if err := s.f(Delta{Type: Begin, ID: c.ID, Model: c.Model}); err != nil {
			return err
		}
	}
	if c.Usage != nil {
		s.usage = c.Usage.usage()
		if err := s.f(Delta{Type: UsageTold, Usage: s.usage}); err != nil {
			return err
		}
	}
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue
		}
		m := &c.Choices[i].Delta
		if err := s.delta(m); err != nil {
			return err
		}
		if f := c.Choices[i].Finish; f != "" {
			s.finish = f
		}
	}
	return nil
}

func (s *openaiReader) delta(m *openaiMessage) error {
	thoughts := m.Reasoning
	if t, ok := isText(m.Thoughts); ok && thoughts == "" {
		thoughts = t
	}
	if thoughts != "" {
		s.thinks = true
		if err := s.f(Delta{Type: ThinkingDelta, Text: thoughts}); err != nil {
			return err
		}
	}
	text, _ := isText(m.Content)
	if text += m.Refusal; text != "" {
		if err := s.thought(); err != nil {
			return err
		}
		if err := s.f(Delta{Type: TextDelta, Text: text}); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		if err := s.tool(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	if m.Function != nil {
		return s.tool(&openaiCall{Function: *m.Function})
	}
	return nil
}

// thought ends the thinking under way.
func (s *openaiReader) thought() error {
	if !s.thinks {
		return nil
	}
	s.thinks = false
	return s.f(Delta{Type: ThinkingEnd})
}

// tool takes a piece of a call. A new one begins with a new index, or, as some
// servers give all the same, with a name and another id.
func (s *openaiReader) tool(c *openaiCall) error {
	index := s.index
	if c.Index != nil {
		index = *c.Index
	}
	other := c.ID != "" && c.ID != s.call
	if s.calls == 0 || index > s.last || other && c.Function.Name != "" || c.Index == nil && c.Function.Name != "" && c.ID == "" && s.text {
		if err := s.begin(c, index); err != nil {
			return err
		}
	} else if index != s.index {
		return fmt.Errorf("%w: answer: calls of tools are mixed with each other", atoll.ErrUnavailable)
	}
	text := c.Function.text()
	if text == "" {
		return nil
	}
	s.text = true
	return s.f(Delta{Type: ToolDelta, Text: text})
}

func (s *openaiReader) begin(c *openaiCall, index int) error {
	if err := s.thought(); err != nil {
		return err
	}
	s.index, s.last, s.call, s.text = index, max(s.last, index), c.ID, false
	s.calls++
	id := original(c.ID)
	if id == "" {
		id = fresh("call_")
	}
	return s.f(Delta{Type: ToolBegin, ID: id, Name: c.Function.Name})
}

// openaiWriter writes a completion as it comes.
type openaiWriter struct {
	s     stream
	q     *Request
	id    string
	model string
	at    int64
	calls int
	bare  bool // the call under way has no arguments yet
}

// NewWriter answers with the chunks of a completion.
func (openai) NewWriter(w http.ResponseWriter, q *Request) Writer {
	return &openaiWriter{s: stream{w: w}, q: q, model: q.Model, at: time.Now().Unix()}
}

// Write writes a piece.
func (o *openaiWriter) Write(d Delta) error {
	if o.id == "" && d.Type != Failed && d.Type != UsageTold {
		o.id, o.model = completionID(d.ID), modelOf(o.q, d.Model)
		if err := o.chunk(object{"role": "assistant", "content": ""}, nil); err != nil {
			return err
		}
	}
	switch d.Type {
	case TextDelta:
		return o.piece(object{"content": d.Text})
	case ThinkingDelta:
		return o.piece(object{"reasoning_content": d.Text})
	case ToolBegin:
		if err := o.closed(); err != nil {
			return err
		}
		o.calls++
		o.bare = true
		return o.chunk(object{"tool_calls": []object{{
			"index": o.calls - 1, "id": d.ID, "type": "function", "function": object{"name": d.Name, "arguments": ""},
		}}}, nil)
	case ToolDelta:
		o.bare = o.bare && d.Text == ""
		return o.arguments(d.Text)
	case End:
		return o.end(d)
	case Failed:
		return o.s.event("", d.Err.openai())
	}
	return nil
}

// piece writes what is not of a call.
func (o *openaiWriter) piece(delta object) error {
	if err := o.closed(); err != nil {
		return err
	}
	return o.chunk(delta, nil)
}

// closed gives the call under way arguments if it has none.
func (o *openaiWriter) closed() error {
	if !o.bare {
		return nil
	}
	o.bare = false
	return o.arguments("{}")
}

func (o *openaiWriter) arguments(text string) error {
	return o.chunk(object{"tool_calls": []object{{"index": o.calls - 1, "function": object{"arguments": text}}}}, nil)
}

func (o *openaiWriter) chunk(delta object, finish any) error {
	return o.s.event("", object{
		"id": o.id, "object": "chat.completion.chunk", "created": o.at, "model": o.model,
		"choices": []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}},
	})
}

func (o *openaiWriter) end(d Delta) error {
	if err := o.closed(); err != nil {
		return err
	}
	if err := o.chunk(object{}, d.Stop.openai()); err != nil {
		return err
	}
	if o.q.TellUsage {
		err := o.s.event("", object{
			"id": o.id, "object": "chat.completion.chunk", "created": o.at, "model": o.model, "choices": []object{}, "usage": d.Usage.openai(),
		})
		if err != nil {
			return err
		}
	}
	return o.s.raw("", []byte("[DONE]"))
}
