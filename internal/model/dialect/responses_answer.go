package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

type responsesUsage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Details struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

func (u *responsesUsage) toUsage() Usage {
	if u == nil {
		return Usage{}
	}
	return Usage{Input: max(u.Input-u.Details.Cached, 0), Output: max(u.Output, 0), CacheRead: max(u.Details.Cached, 0)}
}

func (u Usage) encodeResponses() object {
	in := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"input_tokens": in, "output_tokens": u.Output, "total_tokens": in + u.Output,
		"input_tokens_details": object{"cached_tokens": u.CacheRead}, "output_tokens_details": object{"reasoning_tokens": 0},
	}
}

type responsesAnswer struct {
	ID         string          `json:"id"`
	Model      string          `json:"model"`
	Status     string          `json:"status"`
	Output     []responsesItem `json:"output"`
	Usage      *responsesUsage `json:"usage"`
	Error      json.RawMessage `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// stop returns why the model stopped.
func (a *responsesAnswer) stop(calls bool) Stop {
	switch {
	case a.Incomplete.Reason == "content_filter":
		return StopRefused
	case a.Status == "incomplete":
		return StopLength
	case calls:
		return StopTool
	}
	return StopEnd
}

// ReadResponse decodes a response.
func (d responses) ReadResponse(r *http.Response) (*Response, error) {
	var in responsesAnswer
	if err := readWhole(r, &in); err != nil {
		return nil, err
	}
	if in.Status == "failed" || in.Status == "cancelled" {
		b, _ := encode(object{"error": in.Error}) // it was read from JSON
		return nil, streamError(b)
	}
	a := &Response{ID: in.ID, Model: in.Model, Usage: in.Usage.toUsage()}
	calls := false
	for i := range in.Output {
		_, parts, err := d.readItem(&in.Output[i])
		if err != nil {
			return nil, fmt.Errorf("answer: output[%d]: %w", i, err)
		}
		for _, p := range parts {
			calls = calls || p.Type == ToolUse
		}
		a.Parts = append(a.Parts, parts...)
	}
	a.Stop = in.stop(calls)
	return a, nil
}

// responsesEvent is an event of a stream.
type responsesEvent struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"` // a text, in the events that are read
	Item     responsesItem   `json:"item"`
	Index    int             `json:"output_index"`
	Part     int             `json:"summary_index"`
	Response responsesAnswer `json:"response"`
}

// responsesReader is the state of a stream that is read.
type responsesReader struct {
	f     func(Delta) error
	begun bool
	calls bool
	some  bool // the current item came in deltas
	part  int  // of the summary
	ended bool
}

// ReadStream reads the events of a response.
func (d responses) ReadStream(r io.Reader, f func(Delta) error) error {
	s := responsesReader{f: f}
	events := NewEvents(r)
	for !s.ended {
		var in responsesEvent
		e, err := events.read(&in)
		if errors.Is(err, errDone) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.handleEvent(&in, e.Data); err != nil {
			return err
		}
	}
	return nil
}

func (s *responsesReader) handleEvent(e *responsesEvent, data []byte) error {
	text, _ := parseText(e.Delta)
	switch e.Type {
	case "response.created", "response.in_progress":
		if s.begun {
			return nil
		}
		s.begun = true
		return s.f(Delta{Type: Begin, ID: e.Response.ID, Model: e.Response.Model})
	case "response.output_item.added":
		return s.beginItem(&e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		s.some = true
		return s.f(Delta{Type: TextDelta, Text: text})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		if s.some && e.Part != s.part {
			text = "\n\n" + text
		}
		s.some, s.part = true, e.Part
		return s.f(Delta{Type: ThinkingDelta, Text: text})
	case "response.function_call_arguments.delta":
		s.some = true
		return s.f(Delta{Type: ToolDelta, Text: text})
	case "response.output_item.done":
		return s.finishItem(&e.Item)
	case "response.completed", "response.incomplete":
		s.ended = true
		return s.f(Delta{Type: End, Stop: e.Response.stop(s.calls), Usage: e.Response.Usage.toUsage()})
	case "response.failed":
		b, _ := encode(object{"error": e.Response.Error}) // it was read from JSON
		return streamError(b)
	case "error":
		var flat struct{ Code, Message string }
		if json.Unmarshal(data, &flat) == nil && flat.Message != "" {
			data, _ = encode(object{"error": flat}) // texts are always encoded
		}
		return streamError(data)
	}
	return nil
}

func (s *responsesReader) beginItem(it *responsesItem) error {
	s.some, s.part = false, 0
	if it.Type != "function_call" && it.Type != "custom_tool_call" {
		return nil
	}
	s.calls = true
	id := originalID(it.CallID)
	if id == "" {
		id = newID("call_")
	}
	return s.f(Delta{Type: ToolBegin, ID: id, Name: qualifiedName(it.Namespace, it.Name)})
}

// finishItem emits the part of an item that did not come in deltas.
func (s *responsesReader) finishItem(it *responsesItem) error {
	_, parts, err := responses{}.readItem(it)
	if err != nil {
		parts = nil // of an unknown item
	}
	some := s.some
	s.some = false
	for _, p := range parts {
		switch {
		case p.Type == ThinkingPart:
			if !some && p.Text != "" {
				if err := s.f(Delta{Type: ThinkingDelta, Text: p.Text}); err != nil {
					return err
				}
			}
			return s.f(Delta{Type: ThinkingEnd, Text: p.Signature})
		case some:
		case p.Type == TextPart && p.Text != "":
			err = s.f(Delta{Type: TextDelta, Text: p.Text})
		case p.Type == ToolUse:
			err = s.f(Delta{Type: ToolDelta, Text: string(p.Input)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// encodeOutput encodes an answer's parts as items.
func (d responses) encodeOutput(q *Request, parts []Part) []object {
	list := []object{}
	for _, p := range parts {
		switch p.Type {
		case TextPart:
			list = append(list, messageItem(newID("msg_"), "completed", p.Text))
		case ThinkingPart:
			list = append(list, reasoningItem(newID("rs_"), p.Text, p.Signature))
		case ToolUse:
			list = append(list, callItem(q, newID("fc_"), "completed", p))
		}
	}
	return list
}

func messageItem(id, status, text string) object {
	content := []object{}
	if status == "completed" {
		content = append(content, object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}})
	}
	return object{"id": id, "type": "message", "role": "assistant", "status": status, "content": content}
}

func reasoningItem(id, text, signature string) object {
	summary := []object{}
	if text != "" {
		summary = append(summary, object{"type": "summary_text", "text": text})
	}
	it := object{"id": id, "type": "reasoning", "summary": summary}
	if signature != "" {
		it["encrypted_content"] = encryptedPrefix + signature
	}
	return it
}

// callItem encodes a call with the client's name of its tool.
func callItem(q *Request, id, status string, p Part) object {
	it := object{"id": id, "type": "function_call", "status": status, "call_id": p.ID, "name": p.Name, "arguments": string(p.Input)}
	for _, t := range q.Tools {
		if t.Name != p.Name {
			continue
		}
		if t.Namespace != "" {
			it["name"], it["namespace"] = p.Name[len(t.Namespace)+len("__"):], t.Namespace
		}
		if t.FreeText {
			delete(it, "arguments")
			it["type"], it["input"] = "custom_tool_call", freeText(p.Input)
		}
	}
	return it
}

// freeText returns the input text of a tool with free input.
func freeText(in json.RawMessage) string {
	var v struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal(in, &v) == nil && v.Input != nil {
		return *v.Input
	}
	return string(in)
}

// encodeDocument encodes the response as a whole.
func (responses) encodeDocument(q *Request, id, model, status string, at int64) object {
	return object{
		"id": id, "object": "response", "created_at": at, "status": status, "model": model, "output": []any{}, "error": nil,
		"incomplete_details": nil, "instructions": nil, "metadata": object{}, "parallel_tool_calls": !q.SingleTool, "temperature": q.Temperature,
		"top_p": q.TopP, "tool_choice": "auto", "tools": []any{}, "usage": nil, "store": false,
	}
}

func (s Stop) setResponsesStatus(doc object) {
	switch s {
	case StopLength:
		doc["status"], doc["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case StopRefused:
		doc["status"], doc["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
}

func responseID(id string) string {
	if id == "" {
		return newID("resp_")
	}
	return id
}

// WriteResponse writes a response.
func (d responses) WriteResponse(w http.ResponseWriter, q *Request, a *Response) error {
	doc := d.encodeDocument(q, responseID(a.ID), modelOf(q, a.Model), "completed", time.Now().Unix())
	parts := a.Parts
	for i, p := range parts {
		if p.Type == ToolUse {
			parts[i].Input = inputObject(string(p.Input))
		}
	}
	doc["output"], doc["usage"] = d.encodeOutput(q, parts), a.Usage.encodeResponses()
	a.Stop.setResponsesStatus(doc)
	return writeJSON(w, http.StatusOK, doc)
}

// WriteError writes an error.
func (responses) WriteError(w http.ResponseWriter, e *Error) { openai{}.WriteError(w, e) }

// responsesWriter streams a response.
type responsesWriter struct {
	s     stream
	q     *Request
	n     int // events so far
	at    int64
	id    string
	model string
	items []object
	open  *Part // the current item
	item  string
}

// NewWriter returns a writer of the events of a response.
func (responses) NewWriter(w http.ResponseWriter, q *Request) Writer {
	return &responsesWriter{s: stream{w: w}, q: q, at: time.Now().Unix(), model: q.Model}
}

func (o *responsesWriter) writeEvent(name string, v object) error {
	v["type"], v["sequence_number"] = name, o.n
	o.n++
	return o.s.writeEvent(name, v)
}

// Write writes a delta.
func (o *responsesWriter) Write(d Delta) error {
	if o.id == "" && d.Type != UsageReported {
		o.id, o.model = responseID(d.ID), modelOf(o.q, d.Model)
		for _, name := range []string{"response.created", "response.in_progress"} {
			if err := o.writeEvent(name, object{"response": responses{}.encodeDocument(o.q, o.id, o.model, "in_progress", o.at)}); err != nil {
				return err
			}
		}
	}
	switch d.Type {
	case TextDelta:
		return o.writeText(d.Text)
	case ThinkingDelta:
		return o.writeThinking(d.Text)
	case ThinkingEnd:
		return o.endThinking(d.Text)
	case ToolBegin:
		if err := o.close(); err != nil {
			return err
		}
		return o.beginItem(Part{Type: ToolUse, ID: d.ID, Name: d.Name}, "fc_")
	case ToolDelta:
		return o.writeArguments(d.Text)
	case End:
		return o.finishResponse(d)
	case Failed:
		doc := responses{}.encodeDocument(o.q, o.id, o.model, "failed", o.at)
		doc["error"] = object{"code": responsesCode(d.Err), "message": d.Err.Message}
		return o.writeEvent("response.failed", object{"response": doc})
	}
	return nil
}

func responsesCode(e *Error) string {
	switch e.Code {
	case "rate_limit":
		return "rate_limit_exceeded"
	case "budget":
		return "insufficient_quota"
	case "invalid_request":
		return "invalid_prompt"
	}
	return "server_error"
}

// withPosition adds the position of the current item.
func (o *responsesWriter) withPosition(v object) object {
	v["item_id"], v["output_index"] = o.item, len(o.items)
	return v
}

func (o *responsesWriter) beginItem(p Part, prefix string) error {
	o.open, o.item = &p, newID(prefix)
	var it object
	switch p.Type {
	case TextPart:
		it = messageItem(o.item, "in_progress", "")
	case ThinkingPart:
		it = reasoningItem(o.item, "", "")
	default:
		it = callItem(o.q, o.item, "in_progress", p)
	}
	return o.writeEvent("response.output_item.added", object{"output_index": len(o.items), "item": it})
}

func (o *responsesWriter) writeText(s string) error {
	if o.open == nil || o.open.Type != TextPart {
		if err := o.close(); err != nil {
			return err
		}
		if err := o.beginItem(Part{Type: TextPart}, "msg_"); err != nil {
			return err
		}
		part := object{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}
		if err := o.writeEvent("response.content_part.added", o.withPosition(object{"content_index": 0, "part": part})); err != nil {
			return err
		}
	}
	o.open.Data = append(o.open.Data, s...)
	return o.writeEvent("response.output_text.delta", o.withPosition(object{"content_index": 0, "delta": s, "logprobs": []any{}}))
}

func (o *responsesWriter) writeThinking(s string) error {
	if o.open == nil || o.open.Type != ThinkingPart {
		if err := o.close(); err != nil {
			return err
		}
		if err := o.beginItem(Part{Type: ThinkingPart}, "rs_"); err != nil {
			return err
		}
		part := object{"type": "summary_text", "text": ""}
		if err := o.writeEvent("response.reasoning_summary_part.added", o.withPosition(object{"summary_index": 0, "part": part})); err != nil {
			return err
		}
	}
	o.open.Data = append(o.open.Data, s...)
	return o.writeEvent("response.reasoning_summary_text.delta", o.withPosition(object{"summary_index": 0, "delta": s}))
}

func (o *responsesWriter) endThinking(signature string) error {
	if o.open == nil || o.open.Type != ThinkingPart {
		if signature == "" {
			return nil
		}
		if err := o.close(); err != nil {
			return err
		}
		if err := o.beginItem(Part{Type: ThinkingPart}, "rs_"); err != nil {
			return err
		}
	}
	o.open.Signature = signature
	return o.close()
}

// isFreeText reports whether the current call has a free text as input.
func (o *responsesWriter) isFreeText() bool {
	for _, t := range o.q.Tools {
		if t.Name == o.open.Name {
			return t.FreeText
		}
	}
	return false
}

func (o *responsesWriter) writeArguments(s string) error {
	if o.open == nil || o.open.Type != ToolUse || s == "" {
		return nil
	}
	o.open.Input = append(o.open.Input, s...)
	if o.isFreeText() {
		return nil // the text is known only when the input is complete
	}
	return o.writeEvent("response.function_call_arguments.delta", o.withPosition(object{"delta": s}))
}

// close ends the current item.
func (o *responsesWriter) close() error {
	if o.open == nil {
		return nil
	}
	p := *o.open
	text := string(p.Data)
	var it object
	var events []object
	switch p.Type {
	case TextPart:
		it = messageItem(o.item, "completed", text)
		part := object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
		events = []object{
			{"type": "response.output_text.done", "content_index": 0, "text": text, "logprobs": []any{}},
			{"type": "response.content_part.done", "content_index": 0, "part": part},
		}
	case ThinkingPart:
		it = reasoningItem(o.item, text, p.Signature)
		if text != "" {
			events = []object{
				{"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": text},
				{"type": "response.reasoning_summary_part.done", "summary_index": 0, "part": object{"type": "summary_text", "text": text}},
			}
		}
	default:
		p.Input = inputObject(string(p.Input))
		it = callItem(o.q, o.item, "completed", p)
		events = []object{{"type": "response.function_call_arguments.done", "arguments": string(p.Input)}}
		if o.isFreeText() {
			events = []object{
				{"type": "response.custom_tool_call_input.delta", "delta": it["input"]},
				{"type": "response.custom_tool_call_input.done", "input": it["input"]},
			}
		}
	}
	for _, e := range events {
		name, _ := e["type"].(string)
		if err := o.writeEvent(name, o.withPosition(e)); err != nil {
			return err
		}
	}
	o.open = nil
	err := o.writeEvent("response.output_item.done", object{"output_index": len(o.items), "item": it})
	o.items = append(o.items, it)
	return err
}

func (o *responsesWriter) finishResponse(d Delta) error {
	if err := o.close(); err != nil {
		return err
	}
	doc := responses{}.encodeDocument(o.q, o.id, o.model, "completed", o.at)
	doc["usage"] = d.Usage.encodeResponses()
	if len(o.items) > 0 {
		doc["output"] = o.items
	}
	d.Stop.setResponsesStatus(doc)
	name := "response.completed"
	if doc["status"] == "incomplete" {
		name = "response.incomplete"
	}
	return o.writeEvent(name, object{"response": doc})
}
