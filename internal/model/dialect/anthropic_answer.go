package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

// add replaces the reported numbers, which are totals so far.
func (u anthropicUsage) add(to *Usage) {
	for _, f := range []struct {
		from *int64
		to   *int64
	}{{u.Input, &to.Input}, {u.Output, &to.Output}, {u.CacheRead, &to.CacheRead}, {u.CacheWrite, &to.CacheWrite}} {
		if f.from != nil {
			*f.to = max(*f.to, *f.from)
		}
	}
}

func (u Usage) encodeAnthropic() object {
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output,
		"cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite,
	}
}

type anthropicResponse struct {
	Type       string           `json:"type"`
	ID         string           `json:"id"`
	Model      string           `json:"model"`
	Content    []anthropicBlock `json:"content"`
	StopReason string           `json:"stop_reason"`
	Usage      anthropicUsage   `json:"usage"`
}

// ReadResponse decodes a message.
func (d anthropic) ReadResponse(r *http.Response) (*Response, error) {
	var in anthropicResponse
	if err := readWhole(r, &in); err != nil {
		return nil, err
	}
	if in.Type != "" && in.Type != "message" {
		return nil, fmt.Errorf("%w: answer: its type is %q, not message", atoll.ErrUnavailable, in.Type)
	}
	a := &Response{ID: in.ID, Model: in.Model}
	for i := range in.Content {
		p, ok, err := d.readPart(&in.Content[i])
		if err != nil {
			return nil, fmt.Errorf("answer: content[%d]: %w", i, err)
		}
		if ok {
			a.Parts = append(a.Parts, p)
		}
	}
	in.Usage.add(&a.Usage)
	a.Stop = stopOfAnthropic(in.StopReason)
	return a, nil
}

func stopOfAnthropic(s string) Stop {
	switch s {
	case "tool_use":
		return StopTool
	case "max_tokens", "model_context_window_exceeded":
		return StopLength
	case "stop_sequence":
		return StopText
	case "refusal":
		return StopRefused
	}
	return StopEnd
}

func (s Stop) encodeAnthropic() string {
	switch s {
	case StopTool:
		return "tool_use"
	case StopLength:
		return "max_tokens"
	case StopText:
		return "stop_sequence"
	case StopRefused:
		return "refusal"
	}
	return "end_turn"
}

// WriteResponse writes a message.
func (d anthropic) WriteResponse(w http.ResponseWriter, q *Request, a *Response) error {
	content := []object{}
	for _, p := range a.Parts {
		if p.Type == ThinkingPart && p.Signature == "" {
			content = append(content, object{"type": "thinking", "thinking": p.Text, "signature": ""})
			continue
		}
		if p.Type == ThinkingPart && signatureOf(Anthropic, p.Signature) == "" { // of another dialect, which must come back
			content = append(content, object{"type": "thinking", "thinking": p.Text, "signature": p.Signature})
			continue
		}
		if b := d.encodeBlock(p); b != nil {
			content = append(content, b)
		}
	}
	return writeJSON(w, http.StatusOK, object{
		"id": messageID(a.ID), "type": "message", "role": "assistant", "model": modelOf(q, a.Model), "content": content,
		"stop_reason": a.Stop.encodeAnthropic(), "stop_sequence": nil, "usage": a.Usage.encodeAnthropic(),
	})
}

func messageID(id string) string {
	if id == "" {
		return newID("msg_")
	}
	return id
}

// modelOf returns the model that answered, or else the requested one.
func modelOf(q *Request, model string) string {
	if model == "" && q != nil {
		return q.Model
	}
	return model
}

// WriteError writes an error.
func (anthropic) WriteError(w http.ResponseWriter, e *Error) {
	_ = writeJSON(w, e.statusAndRetry(w), e.encodeAnthropic()) // the client may have disconnected
}

func (e *Error) encodeAnthropic() object {
	kind := e.Code + "_error"
	switch e.Code {
	case "budget":
		kind = "permission_error"
	case "internal", "":
		kind = "api_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": e.Message}}
}

// anthropicEvent is an event of a stream.
type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		ID    string         `json:"id"`
		Model string         `json:"model"`
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	Block anthropicBlock `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage anthropicUsage `json:"usage"`
}

// anthropicReader is the state of a stream that is read.
type anthropicReader struct {
	f         func(Delta) error
	usage     Usage
	stop      string
	block     string // the type of the block under way
	input     json.RawMessage
	signature strings.Builder
	begun     bool
	ended     bool
}

// ReadStream reads the events of a message.
func (anthropic) ReadStream(r io.Reader, f func(Delta) error) error {
	s := anthropicReader{f: f}
	events := NewEvents(r)
	for !s.ended {
		var in anthropicEvent
		e, err := events.read(&in)
		if errors.Is(err, errDone) {
			continue
		}
		if err != nil {
			return err
		}
		if in.Type == "error" {
			return streamError(e.Data)
		}
		if err := s.handleEvent(&in); err != nil {
			return err
		}
	}
	return nil
}

// streamError returns the error in an event of a stream.
func streamError(data []byte) *Error {
	e := &Error{Code: "internal", Message: "the API told of an error"}
	readError(data, e)
	if e.Status == 0 {
		e.Status = statusOf(e.Code)
	}
	return e
}

func (s *anthropicReader) handleEvent(e *anthropicEvent) error {
	switch e.Type {
	case "message_start":
		e.Message.Usage.add(&s.usage)
		s.begun = true
		if err := s.f(Delta{Type: Begin, ID: e.Message.ID, Model: e.Message.Model}); err != nil {
			return err
		}
		return s.f(Delta{Type: UsageReported, Usage: s.usage})
	case "content_block_start":
		return s.start(&e.Block)
	case "content_block_delta":
		return s.handleDelta(e)
	case "content_block_stop":
		return s.close()
	case "message_delta":
		e.Usage.add(&s.usage)
		if e.Delta.StopReason != "" {
			s.stop = e.Delta.StopReason
		}
		return s.f(Delta{Type: UsageReported, Usage: s.usage})
	case "message_stop":
		s.ended = true
		return s.f(Delta{Type: End, Stop: stopOfAnthropic(s.stop), Usage: s.usage})
	}
	return nil
}

func (s *anthropicReader) start(b *anthropicBlock) error {
	s.block, s.input = b.Type, nil
	s.signature.Reset()
	switch b.Type {
	case "text":
		if b.Text != "" {
			return s.f(Delta{Type: TextDelta, Text: b.Text})
		}
	case "thinking":
		s.signature.WriteString(b.Signature)
		if b.Thinking != "" {
			return s.f(Delta{Type: ThinkingDelta, Text: b.Thinking})
		}
	case "redacted_thinking":
		s.signature.WriteString(redactedPrefix + b.Data)
	case "tool_use":
		s.input = b.Input
		return s.f(Delta{Type: ToolBegin, ID: originalID(b.ID), Name: b.Name})
	}
	return nil
}

func (s *anthropicReader) handleDelta(e *anthropicEvent) error {
	switch d := &e.Delta; d.Type {
	case "text_delta":
		return s.f(Delta{Type: TextDelta, Text: d.Text})
	case "thinking_delta":
		return s.f(Delta{Type: ThinkingDelta, Text: d.Thinking})
	case "signature_delta":
		s.signature.WriteString(d.Signature)
	case "input_json_delta":
		if s.block != "tool_use" || d.PartialJSON == "" {
			return nil // of a tool that the API runs itself
		}
		s.input = nil
		return s.f(Delta{Type: ToolDelta, Text: d.PartialJSON})
	}
	return nil
}

func (s *anthropicReader) close() error {
	block := s.block
	s.block = ""
	switch block {
	case "thinking", "redacted_thinking":
		return s.f(Delta{Type: ThinkingEnd, Text: s.signature.String()})
	case "tool_use":
		if t := strings.TrimSpace(string(s.input)); t != "" && t != "{}" && t != "null" { // whole at the start
			return s.f(Delta{Type: ToolDelta, Text: t})
		}
	}
	return nil
}

// anthropicWriter streams a message.
type anthropicWriter struct {
	s     stream
	q     *Request
	index int
	open  DeltaType // what the block under way holds: TextDelta, ThinkingDelta, ToolBegin; empty: none
	begun bool
	usage Usage
}

// NewWriter returns a writer of the events of a message.
func (anthropic) NewWriter(w http.ResponseWriter, q *Request) Writer {
	return &anthropicWriter{s: stream{w: w}, q: q}
}

// Write writes a delta.
func (a *anthropicWriter) Write(d Delta) error {
	if !a.begun && d.Type != Failed && d.Type != UsageReported {
		if err := a.beginMessage(d); err != nil {
			return err
		}
	}
	switch d.Type {
	case TextDelta:
		return a.writeDelta(TextDelta, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": d.Text})
	case ThinkingDelta:
		return a.writeDelta(ThinkingDelta, object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking_delta", "thinking": d.Text})
	case ThinkingEnd:
		return a.thinkingEnd(d.Text)
	case ToolBegin:
		if err := a.close(); err != nil {
			return err
		}
		return a.start(ToolBegin, object{"type": "tool_use", "id": toolID(d.ID), "name": d.Name, "input": object{}})
	case ToolDelta:
		return a.s.writeEvent("content_block_delta", object{
			"type": "content_block_delta", "index": a.index, "delta": object{"type": "input_json_delta", "partial_json": d.Text},
		})
	case UsageReported:
		a.usage = d.Usage
	case End:
		return a.endMessage(d)
	case Failed:
		return a.s.writeEvent("error", d.Err.encodeAnthropic())
	}
	return nil
}

func (a *anthropicWriter) beginMessage(d Delta) error {
	a.begun = true
	return a.s.writeEvent("message_start", object{"type": "message_start", "message": object{
		"id": messageID(d.ID), "type": "message", "role": "assistant", "model": modelOf(a.q, d.Model), "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": a.usage.encodeAnthropic(),
	}})
}

func (a *anthropicWriter) writeDelta(kind DeltaType, block, delta object) error {
	if a.open != kind {
		if err := a.close(); err != nil {
			return err
		}
		if err := a.start(kind, block); err != nil {
			return err
		}
	}
	return a.s.writeEvent("content_block_delta", object{"type": "content_block_delta", "index": a.index, "delta": delta})
}

func (a *anthropicWriter) start(kind DeltaType, block object) error {
	a.open = kind
	return a.s.writeEvent("content_block_start", object{"type": "content_block_start", "index": a.index, "content_block": block})
}

func (a *anthropicWriter) thinkingEnd(signature string) error {
	if data, ok := strings.CutPrefix(signature, redactedPrefix); ok {
		if err := a.close(); err != nil {
			return err
		}
		if err := a.start(ThinkingDelta, object{"type": "redacted_thinking", "data": data}); err != nil {
			return err
		}
		return a.close()
	}
	if signature != "" {
		delta := object{"type": "signature_delta", "signature": signature}
		if err := a.writeDelta(ThinkingDelta, object{"type": "thinking", "thinking": "", "signature": ""}, delta); err != nil {
			return err
		}
	}
	return a.close()
}

func (a *anthropicWriter) close() error {
	if a.open == "" {
		return nil
	}
	a.open = ""
	err := a.s.writeEvent("content_block_stop", object{"type": "content_block_stop", "index": a.index})
	a.index++
	return err
}

func (a *anthropicWriter) endMessage(d Delta) error {
	if err := a.close(); err != nil {
		return err
	}
	err := a.s.writeEvent("message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": d.Stop.encodeAnthropic(), "stop_sequence": nil}, "usage": d.Usage.encodeAnthropic(),
	})
	if err != nil {
		return err
	}
	return a.s.writeEvent("message_stop", object{"type": "message_stop"})
}
