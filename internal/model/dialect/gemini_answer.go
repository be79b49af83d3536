package dialect

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

type geminiAnswer struct {
	Candidates []struct {
		Index   int           `json:"index"`
		Content geminiContent `json:"content"`
		Finish  string        `json:"finishReason"`
		Message string        `json:"finishMessage"`
	} `json:"candidates"`
	Feedback struct {
		Block string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *geminiUsage    `json:"usageMetadata"`
	Model string          `json:"modelVersion"`
	ID    string          `json:"responseId"`
	Error json.RawMessage `json:"error"`
}

type geminiUsage struct {
	Prompt     int64 `json:"promptTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount"`
	Tools      int64 `json:"toolUsePromptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
}

func (u *geminiUsage) toUsage() Usage {
	if u == nil {
		return Usage{}
	}
	return Usage{Input: max(u.Prompt+u.Tools-u.Cached, 0), Output: max(u.Candidates+u.Thoughts, 0), CacheRead: max(u.Cached, 0)}
}

func (u Usage) encodeGemini() object {
	in := u.Input + u.CacheRead + u.CacheWrite
	return object{"promptTokenCount": in, "candidatesTokenCount": u.Output, "totalTokenCount": in + u.Output, "cachedContentTokenCount": u.CacheRead}
}

func stopOfGemini(s string, calls bool) Stop {
	switch s {
	case "MAX_TOKENS":
		return StopLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		return StopRefused
	}
	if calls {
		return StopTool
	}
	return StopEnd
}

func (s Stop) encodeGemini() string {
	switch s {
	case StopLength:
		return "MAX_TOKENS"
	case StopRefused:
		return "SAFETY"
	}
	return "STOP"
}

// ReadResponse decodes an answer.
func (d gemini) ReadResponse(r *http.Response) (*Response, error) {
	var in geminiAnswer
	if err := readWhole(r, &in); err != nil {
		return nil, err
	}
	var g ResponseBuilder
	s := geminiReader{f: func(d Delta) error { g.Add(d); return nil }}
	if err := s.handleChunk(&in); err != nil {
		return nil, err
	}
	if err := s.finishStream(); err != nil {
		return nil, err
	}
	return &g.Response, nil
}

// geminiReader is the state of a stream that is read.
type geminiReader struct {
	f      func(Delta) error
	usage  Usage
	finish string
	calls  bool
	begun  bool
	think  string // signature of the current thinking
	thinks bool
}

// ReadStream reads the chunks of an answer.
func (gemini) ReadStream(r io.Reader, f func(Delta) error) error {
	s := geminiReader{f: f}
	events := NewEvents(r)
	for {
		var in geminiAnswer
		e, err := events.read(&in)
		switch {
		case errors.Is(err, errDone):
			continue
		case errors.Is(err, errCut) && s.finish != "":
			return s.finishStream()
		case err != nil:
			return err
		}
		if !isAbsent(in.Error) || isList(e.Data) {
			return streamError(e.Data)
		}
		if err := s.handleChunk(&in); err != nil {
			return err
		}
	}
}

func (s *geminiReader) handleChunk(c *geminiAnswer) error {
	if !s.begun {
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
	if c.Feedback.Block != "" {
		s.finish = "SAFETY"
	}
	for i := range c.Candidates {
		if c.Candidates[i].Index != 0 {
			continue
		}
		for j := range c.Candidates[i].Content.Parts {
			if err := s.handlePart(&c.Candidates[i].Content.Parts[j]); err != nil {
				return err
			}
		}
		if f := c.Candidates[i].Finish; f != "" {
			s.finish = f
		}
	}
	return nil
}

func (s *geminiReader) handlePart(p *geminiPart) error {
	if p.Thought && p.Call == nil {
		s.thinks = true
		if p.Signature != "" {
			s.think = string(Gemini) + ":" + p.Signature
		}
		return s.f(Delta{Type: ThinkingDelta, Text: p.Text})
	}
	if p.Call == nil && p.Text == "" {
		return nil
	}
	if err := s.endThinking(); err != nil {
		return err
	}
	if p.Call == nil {
		return s.f(Delta{Type: TextDelta, Text: p.Text})
	}
	s.calls = true
	d := Delta{Type: ToolBegin, ID: originalID(p.Call.ID), Name: p.Call.Name}
	if d.ID == "" {
		d.ID = newID("call_")
	}
	if p.Signature != "" {
		d.Text = string(Gemini) + ":" + p.Signature
	}
	if err := s.f(d); err != nil {
		return err
	}
	return s.f(Delta{Type: ToolDelta, Text: string(inputObject(string(p.Call.Args)))})
}

func (s *geminiReader) endThinking() error {
	if !s.thinks {
		return nil
	}
	s.thinks = false
	return s.f(Delta{Type: ThinkingEnd, Text: s.think})
}

func (s *geminiReader) finishStream() error {
	if err := s.endThinking(); err != nil {
		return err
	}
	return s.f(Delta{Type: End, Stop: stopOfGemini(s.finish, s.calls), Usage: s.usage})
}

// geminiParts encodes an answer's parts.
func geminiParts(parts []Part) []object {
	list := []object{}
	for _, p := range parts {
		switch p.Type {
		case TextPart:
			list = append(list, object{"text": p.Text})
		case ThinkingPart:
			o := object{"text": p.Text, "thought": true}
			if s := signatureOf(Gemini, p.Signature); s != "" {
				o["thoughtSignature"] = s
			}
			list = append(list, o)
		case ToolUse:
			o := object{"functionCall": object{"id": p.ID, "name": p.Name, "args": inputObject(string(p.Input))}}
			if s := signatureOf(Gemini, p.Signature); s != "" {
				o["thoughtSignature"] = s
			}
			list = append(list, o)
		}
	}
	return list
}

func geminiDocument(id, model string, parts []object) object {
	return object{
		"candidates":   []object{{"index": 0, "content": object{"role": "model", "parts": parts}}},
		"modelVersion": model, "responseId": id,
	}
}

func (s Stop) finishGemini(doc object, u Usage) {
	list, _ := doc["candidates"].([]object)
	list[0]["finishReason"] = s.encodeGemini()
	doc["usageMetadata"] = u.encodeGemini()
}

func geminiID(id string) string {
	if id == "" {
		return newID("")
	}
	return id
}

// WriteResponse writes an answer.
func (gemini) WriteResponse(w http.ResponseWriter, q *Request, a *Response) error {
	doc := geminiDocument(geminiID(a.ID), modelOf(q, a.Model), geminiParts(a.Parts))
	a.Stop.finishGemini(doc, a.Usage)
	return writeJSON(w, http.StatusOK, doc)
}

// WriteError writes an error.
func (gemini) WriteError(w http.ResponseWriter, e *Error) {
	status := e.statusAndRetry(w)
	_ = writeJSON(w, status, e.encodeGemini(status)) // the client may have disconnected
}

func (e *Error) encodeGemini(status int) object {
	word := "INTERNAL"
	switch e.Code {
	case "authentication":
		word = "UNAUTHENTICATED"
	case "permission", "budget":
		word = "PERMISSION_DENIED"
	case "invalid_request":
		word = "INVALID_ARGUMENT"
	case "not_found":
		word = "NOT_FOUND"
	case "rate_limit":
		word = "RESOURCE_EXHAUSTED"
	case "overloaded":
		word = "UNAVAILABLE"
	case "timeout":
		word = "DEADLINE_EXCEEDED"
	}
	return object{"error": object{"code": status, "message": e.Message, "status": word}}
}

// geminiWriter streams an answer.
type geminiWriter struct {
	s     stream
	q     *Request
	id    string
	model string
	call  *Part // the current call: it is written when it is complete
}

// NewWriter returns a writer of the chunks of an answer.
func (gemini) NewWriter(w http.ResponseWriter, q *Request) Writer {
	return &geminiWriter{s: stream{w: w}, q: q, model: q.Model}
}

// Write writes a delta.
func (o *geminiWriter) Write(d Delta) error {
	if o.id == "" && d.Type != UsageReported {
		o.id, o.model = geminiID(d.ID), modelOf(o.q, d.Model)
	}
	switch d.Type {
	case TextDelta:
		return o.writeParts(Part{Type: TextPart, Text: d.Text})
	case ThinkingDelta:
		return o.writeParts(Part{Type: ThinkingPart, Text: d.Text})
	case ThinkingEnd:
		if signatureOf(Gemini, d.Text) != "" {
			return o.writeParts(Part{Type: ThinkingPart, Signature: d.Text})
		}
	case ToolBegin:
		if err := o.writeParts(); err != nil {
			return err
		}
		o.call = &Part{Type: ToolUse, ID: d.ID, Name: d.Name, Signature: d.Text}
	case ToolDelta:
		if o.call != nil {
			o.call.Input = append(o.call.Input, d.Text...)
		}
	case End:
		if err := o.writeParts(); err != nil {
			return err
		}
		doc := geminiDocument(o.id, o.model, []object{})
		d.Stop.finishGemini(doc, d.Usage)
		return o.s.writeEvent("", doc)
	case Failed:
		return o.s.writeEvent("", d.Err.encodeGemini(statusOf(d.Err.Code)))
	}
	return nil
}

// writeParts writes the current call and parts.
func (o *geminiWriter) writeParts(list ...Part) error {
	if o.call != nil {
		list = append([]Part{*o.call}, list...)
		o.call = nil
	}
	if len(list) == 0 {
		return nil
	}
	return o.s.writeEvent("", geminiDocument(o.id, o.model, geminiParts(list)))
}
