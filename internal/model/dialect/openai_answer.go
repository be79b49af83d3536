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

func (u *openaiUsage) toUsage() Usage {
	read := max(u.Details.Cached, u.CacheHit, 0)
	wrote := max(u.Details.Wrote, 0)
	return Usage{Input: max(u.Prompt-read-wrote, 0), Output: max(u.Completion, 0), CacheRead: read, CacheWrite: wrote}
}

func (u Usage) encodeOpenAI() object {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.CacheRead},
	}
}

// openaiAnswer is a whole answer, or a chunk of one.
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

// ReadResponse decodes a completion.
func (d openai) ReadResponse(r *http.Response) (*Response, error) {
	var in openaiAnswer
	if err := readWhole(r, &in); err != nil {
		return nil, err
	}
	a := &Response{ID: in.ID, Model: in.Model}
	if in.Usage != nil {
		a.Usage = in.Usage.toUsage()
	}
	if len(in.Choices) == 0 {
		return nil, fmt.Errorf("%w: answer: it has no choices", atoll.ErrUnavailable)
	}
	c := &in.Choices[0]
	parts, err := d.readParts(c.Message.Content)
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	a.Parts = d.assistantParts(&c.Message, parts)
	calls := false
	for i, p := range a.Parts {
		if p.Type == ToolUse {
			calls = true
			if len(c.Message.ToolCalls) == 0 || strings.HasPrefix(p.ID, "call_") && len(p.ID) < 8 {
				a.Parts[i].ID = newID("call_")
			}
		}
	}
	a.Stop, err = stopOfOpenAI(c.Finish, calls)
	return a, err
}

// stopOfOpenAI returns why a model stopped; servers that report nothing or "stop" may
// still have called tools.
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

func (s Stop) encodeOpenAI() string {
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

// WriteResponse writes a completion.
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
				"id": p.ID, "type": "function", "function": object{"name": p.Name, "arguments": string(inputObject(string(p.Input)))},
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
	return writeJSON(w, http.StatusOK, object{
		"id": completionID(a.ID), "object": "chat.completion", "created": time.Now().Unix(), "model": modelOf(q, a.Model),
		"choices": []object{{"index": 0, "message": m, "logprobs": nil, "finish_reason": a.Stop.encodeOpenAI()}}, "usage": a.Usage.encodeOpenAI(),
	})
}

func completionID(id string) string {
	if id == "" {
		return newID("chatcmpl-")
	}
	return id
}

// WriteError writes an error.
func (openai) WriteError(w http.ResponseWriter, e *Error) {
	_ = writeJSON(w, e.statusAndRetry(w), e.encodeOpenAI()) // the client may have disconnected
}

func (e *Error) encodeOpenAI() object {
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

// openaiReader is the state of a stream that is read.
type openaiReader struct {
	f      func(Delta) error
	usage  Usage
	finish string
	call   string // id of the current call
	index  int    // its index; -1: unknown
	last   int    // highest index of a call
	calls  int
	text   bool // the current call has arguments
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
			return s.finishStream()
		case err != nil:
			return err
		}
		if !isAbsent(in.Error) || e.Name == "error" {
			return streamError(e.Data)
		}
		if err := s.handleChunk(&in); err != nil {
			return err
		}
	}
}

func (s *openaiReader) finishStream() error {
	stop, err := stopOfOpenAI(s.finish, s.calls > 0)
	if err != nil {
		return err
	}
	if err := s.endThinking(); err != nil {
		return err
	}
	return s.f(Delta{Type: End, Stop: stop, Usage: s.usage})
}

func (s *openaiReader) handleChunk(c *openaiAnswer) error {
	if !s.begun && (len(c.Choices) > 0 || c.Usage != nil) {
		s.begun = true
		if err := s.f(Delta{Type: Begin, ID: c.ID, Model: c.Model}); err != nil {
			return err
		}
	}
	if c.Usage != nil {
		s.usage = c.Usage.toUsage()
		if err := s.f(Delta{Type: UsageReported, Usage: s.usage}); err != nil {
			return err
		}
	}
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue
		}
		m := &c.Choices[i].Delta
		if err := s.handleDelta(m); err != nil {
			return err
		}
		if f := c.Choices[i].Finish; f != "" {
			s.finish = f
		}
	}
	return nil
}

func (s *openaiReader) handleDelta(m *openaiMessage) error {
	thoughts := m.Reasoning
	if t, ok := parseText(m.Thoughts); ok && thoughts == "" {
		thoughts = t
	}
	if thoughts != "" {
		s.thinks = true
		if err := s.f(Delta{Type: ThinkingDelta, Text: thoughts}); err != nil {
			return err
		}
	}
	text, _ := parseText(m.Content)
	if text += m.Refusal; text != "" {
		if err := s.endThinking(); err != nil {
			return err
		}
		if err := s.f(Delta{Type: TextDelta, Text: text}); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		if err := s.handleToolCall(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	if m.Function != nil {
		return s.handleToolCall(&openaiCall{Function: *m.Function})
	}
	return nil
}

// endThinking ends the current thinking.
func (s *openaiReader) endThinking() error {
	if !s.thinks {
		return nil
	}
	s.thinks = false
	return s.f(Delta{Type: ThinkingEnd})
}

// handleToolCall handles a part of a call. A new call has a new index or, on servers that
// repeat the index, a name and another id.
func (s *openaiReader) handleToolCall(c *openaiCall) error {
	index := s.index
	if c.Index != nil {
		index = *c.Index
	}
	other := c.ID != "" && c.ID != s.call
	if s.calls == 0 || index > s.last || other && c.Function.Name != "" || c.Index == nil && c.Function.Name != "" && c.ID == "" && s.text {
		if err := s.beginCall(c, index); err != nil {
			return err
		}
	} else if index != s.index {
		return fmt.Errorf("%w: answer: calls of tools are mixed with each other", atoll.ErrUnavailable)
	}
	text := c.Function.argumentText()
	if text == "" {
		return nil
	}
	s.text = true
	return s.f(Delta{Type: ToolDelta, Text: text})
}

func (s *openaiReader) beginCall(c *openaiCall, index int) error {
	if err := s.endThinking(); err != nil {
		return err
	}
	s.index, s.last, s.call, s.text = index, max(s.last, index), c.ID, false
	s.calls++
	id := originalID(c.ID)
	if id == "" {
		id = newID("call_")
	}
	return s.f(Delta{Type: ToolBegin, ID: id, Name: c.Function.Name})
}

// openaiWriter streams a completion.
type openaiWriter struct {
	s     stream
	q     *Request
	id    string
	model string
	at    int64
	calls int
	bare  bool // the current call has no arguments yet
}

// NewWriter returns a writer of the chunks of a completion.
func (openai) NewWriter(w http.ResponseWriter, q *Request) Writer {
	return &openaiWriter{s: stream{w: w}, q: q, model: q.Model, at: time.Now().Unix()}
}

// Write writes a delta.
func (o *openaiWriter) Write(d Delta) error {
	if o.id == "" && d.Type != Failed && d.Type != UsageReported {
		o.id, o.model = completionID(d.ID), modelOf(o.q, d.Model)
		if err := o.writeChunk(object{"role": "assistant", "content": ""}, nil); err != nil {
			return err
		}
	}
	switch d.Type {
	case TextDelta:
		return o.writeDelta(object{"content": d.Text})
	case ThinkingDelta:
		return o.writeDelta(object{"reasoning_content": d.Text})
	case ToolBegin:
		if err := o.closeCall(); err != nil {
			return err
		}
		o.calls++
		o.bare = true
		return o.writeChunk(object{"tool_calls": []object{{
			"index": o.calls - 1, "id": d.ID, "type": "function", "function": object{"name": d.Name, "arguments": ""},
		}}}, nil)
	case ToolDelta:
		o.bare = o.bare && d.Text == ""
		return o.writeArguments(d.Text)
	case End:
		return o.endCompletion(d)
	case Failed:
		return o.s.writeEvent("", d.Err.encodeOpenAI())
	}
	return nil
}

// writeDelta writes a delta that is not part of a call.
func (o *openaiWriter) writeDelta(delta object) error {
	if err := o.closeCall(); err != nil {
		return err
	}
	return o.writeChunk(delta, nil)
}

// closeCall writes empty arguments of the current call if it has none.
func (o *openaiWriter) closeCall() error {
	if !o.bare {
		return nil
	}
	o.bare = false
	return o.writeArguments("{}")
}

func (o *openaiWriter) writeArguments(text string) error {
	return o.writeChunk(object{"tool_calls": []object{{"index": o.calls - 1, "function": object{"arguments": text}}}}, nil)
}

func (o *openaiWriter) writeChunk(delta object, finish any) error {
	return o.s.writeEvent("", object{
		"id": o.id, "object": "chat.completion.chunk", "created": o.at, "model": o.model,
		"choices": []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}},
	})
}

func (o *openaiWriter) endCompletion(d Delta) error {
	if err := o.closeCall(); err != nil {
		return err
	}
	if err := o.writeChunk(object{}, d.Stop.encodeOpenAI()); err != nil {
		return err
	}
	if o.q.IncludeUsage {
		err := o.s.writeEvent("", object{
			"id": o.id, "object": "chat.completion.chunk", "created": o.at, "model": o.model, "choices": []object{}, "usage": d.Usage.encodeOpenAI(),
		})
		if err != nil {
			return err
		}
	}
	return o.s.writeRaw("", []byte("[DONE]"))
}
