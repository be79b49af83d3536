package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// openai is OpenAI's chat completions API, and compatible ones.
type openai struct{}

func (openai) Name() Name { return OpenAI }

type openaiRequest struct {
	Model         string          `json:"model"`
	Messages      []openaiMessage `json:"messages"`
	Tools         []openaiTool    `json:"tools"`
	Functions     []openaiFunc    `json:"functions"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Parallel      *bool           `json:"parallel_tool_calls"`
	MaxTokens     int             `json:"max_tokens"`
	MaxCompletion int             `json:"max_completion_tokens"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          int             `json:"top_k"`
	Stop          json.RawMessage `json:"stop"`
	N             int             `json:"n"`
	Stream        bool            `json:"stream"`
	StreamOptions *struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Format *struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Effort   string            `json:"reasoning_effort"`
	User     string            `json:"user"`
	Metadata map[string]string `json:"metadata"`
}

type openaiMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Reasoning  string          `json:"reasoning_content"`
	Thoughts   json.RawMessage `json:"reasoning"` // the name of some servers
	Refusal    string          `json:"refusal"`
	ToolCalls  []openaiCall    `json:"tool_calls"`
	Function   *openaiFunc     `json:"function_call"`
	ToolCallID string          `json:"tool_call_id"`
	Name       string          `json:"name"`
}

type openaiCall struct {
	Index    *int       `json:"index"`
	ID       string     `json:"id"`
	Type     string     `json:"type"`
	Function openaiFunc `json:"function"`
}

type openaiFunc struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Arguments   json.RawMessage `json:"arguments"` // a text; some servers send an object
}

type openaiTool struct {
	Type     string     `json:"type"`
	Function openaiFunc `json:"function"`
}

// argumentText returns the text of a call's arguments.
func (f openaiFunc) argumentText() string {
	if s, ok := parseText(f.Arguments); ok {
		return s
	}
	if isAbsent(f.Arguments) {
		return ""
	}
	return string(f.Arguments)
}

// ReadRequest decodes POST /v1/chat/completions.
func (d openai) ReadRequest(_ *http.Request, body []byte) (*Request, error) {
	var in openaiRequest
	if err := readBody(body, &in); err != nil {
		return nil, err
	}
	if in.N > 1 {
		return nil, fmt.Errorf("%w: n: %d; there is one answer", atoll.ErrInvalid, in.N)
	}
	q := &Request{
		Model: in.Model, MaxTokens: in.MaxTokens, Temperature: in.Temperature, TopP: in.TopP, TopK: in.TopK, Stream: in.Stream,
		Effort: in.Effort, User: in.User, Metadata: in.Metadata, SingleTool: in.Parallel != nil && !*in.Parallel,
		IncludeUsage: in.StreamOptions != nil && in.StreamOptions.Usage,
	}
	if in.MaxCompletion > 0 {
		q.MaxTokens = in.MaxCompletion
	}
	for i := range in.Messages {
		if err := d.readMessage(q, &in.Messages[i]); err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	for _, t := range in.Tools {
		if t.Type == "function" || t.Type == "" {
			q.Tools = append(q.Tools, Tool{Name: t.Function.Name, Description: t.Function.Description, Schema: schemaOrDefault(t.Function.Parameters)})
		}
	}
	for _, f := range in.Functions {
		q.Tools = append(q.Tools, Tool{Name: f.Name, Description: f.Description, Schema: schemaOrDefault(f.Parameters)})
	}
	return q, d.readOptions(q, &in)
}

func (openai) readOptions(q *Request, in *openaiRequest) error {
	if s, ok := parseText(in.Stop); ok {
		q.Stop = []string{s}
	} else if !isAbsent(in.Stop) {
		if err := read(in.Stop, &q.Stop); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
	}
	if f := in.Format; f != nil {
		switch f.Type {
		case "json_object":
			q.Schema = anyObject
		case "json_schema":
			q.Schema = schemaOrDefault(f.Schema.Schema)
		}
	}
	choice, err := openaiChoice(in.ToolChoice)
	q.ToolChoice = choice
	return err
}

// openaiChoice decodes the tool choice of chat completions and responses.
func openaiChoice(raw json.RawMessage) (string, error) {
	if isAbsent(raw) {
		return "", nil
	}
	if s, ok := parseText(raw); ok {
		if s == "auto" {
			s = ""
		}
		return s, nil
	}
	var c struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
		Mode    string `json:"mode"` // of allowed tools
		Allowed struct {
			Mode string `json:"mode"`
		} `json:"allowed_tools"`
	}
	if err := read(raw, &c); err != nil {
		return "", fmt.Errorf("tool_choice: %w", err)
	}
	for _, s := range []string{c.Function.Name, c.Name, c.Mode, c.Allowed.Mode} {
		if s != "" && s != "auto" {
			return s, nil
		}
	}
	return "", nil
}

// readMessage adds a message to q.
func (d openai) readMessage(q *Request, m *openaiMessage) error {
	parts, err := d.readParts(m.Content)
	if err != nil {
		return err
	}
	switch m.Role {
	case "system", "developer":
		q.Messages = append(q.Messages, Message{Role: System, Parts: parts})
	case "user":
		q.Messages = append(q.Messages, Message{Role: User, Parts: parts})
	case "assistant":
		q.Messages = append(q.Messages, Message{Role: Assistant, Parts: d.assistantParts(m, parts)})
	case "tool", "function":
		id := m.ToolCallID
		if m.Role == "function" {
			id = "function_" + m.Name
		}
		result := Part{Type: ToolResult, ID: originalID(id), Parts: parts}
		if n := len(q.Messages); n > 0 && q.Messages[n-1].Role == User && onlyResults(q.Messages[n-1].Parts) {
			q.Messages[n-1].Parts = append(q.Messages[n-1].Parts, result)
			return nil
		}
		q.Messages = append(q.Messages, Message{Role: User, Parts: []Part{result}})
	default:
		return fmt.Errorf("%w: role: %q; it is system, developer, user, assistant or tool", atoll.ErrInvalid, m.Role)
	}
	return nil
}

func onlyResults(parts []Part) bool {
	for _, p := range parts {
		if p.Type != ToolResult {
			return false
		}
	}
	return true
}

// assistantParts returns the parts of an assistant's message.
func (openai) assistantParts(m *openaiMessage, parts []Part) []Part {
	var list []Part
	thoughts := m.Reasoning
	if s, ok := parseText(m.Thoughts); ok && thoughts == "" {
		thoughts = s
	}
	if thoughts != "" {
		list = append(list, Part{Type: ThinkingPart, Text: thoughts})
	}
	list = append(list, parts...)
	if m.Refusal != "" {
		list = append(list, Part{Type: TextPart, Text: m.Refusal})
	}
	for i, c := range m.ToolCalls {
		id := originalID(c.ID)
		if id == "" {
			id = fmt.Sprintf("call_%d", i)
		}
		list = append(list, Part{Type: ToolUse, ID: id, Name: c.Function.Name, Input: inputObject(c.Function.argumentText())})
	}
	if f := m.Function; f != nil {
		list = append(list, Part{Type: ToolUse, ID: "function_" + f.Name, Name: f.Name, Input: inputObject(f.argumentText())})
	}
	return list
}

// readParts decodes content: a text, or parts. Parts of unknown types are left out.
func (openai) readParts(raw json.RawMessage) ([]Part, error) {
	if isAbsent(raw) {
		return nil, nil
	}
	if text, ok := parseText(raw); ok {
		if text == "" {
			return nil, nil
		}
		return []Part{{Type: TextPart, Text: text}}, nil
	}
	var list []struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Refusal string          `json:"refusal"`
		Image   json.RawMessage `json:"image_url"`
		File    struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		} `json:"file"`
	}
	if err := read(raw, &list); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	var parts []Part
	for _, p := range list {
		switch p.Type {
		case "text":
			parts = append(parts, Part{Type: TextPart, Text: p.Text})
		case "refusal":
			parts = append(parts, Part{Type: TextPart, Text: p.Refusal})
		case "image_url":
			u, ok := parseText(p.Image)
			if !ok {
				var in struct {
					URL string `json:"url"`
				}
				if err := read(p.Image, &in); err != nil {
					return nil, fmt.Errorf("image_url: %w", err)
				}
				u = in.URL
			}
			part, err := partOfURL(ImagePart, u)
			if err != nil {
				return nil, fmt.Errorf("image_url: %w", err)
			}
			parts = append(parts, part)
		case "file":
			if p.File.Data == "" {
				continue // a file that the API stores
			}
			part, err := partOfURL(FilePart, p.File.Data)
			if err != nil {
				return nil, fmt.Errorf("file: %w", err)
			}
			part.Name = p.File.Name
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// partOfURL returns an image or a file at a URL, or in a data URL.
func partOfURL(t PartType, u string) (Part, error) {
	if media, data, ok := dataURL(u); ok {
		return Part{Type: t, MediaType: media, Data: data}, nil
	}
	if p, err := url.Parse(u); err == nil && (p.Scheme == "http" || p.Scheme == "https") {
		return Part{Type: t, URL: u}, nil
	}
	if t == FilePart {
		if b, err := decode64(u); err == nil {
			return Part{Type: t, MediaType: "application/pdf", Data: b}, nil
		}
	}
	return Part{}, fmt.Errorf("%w: it must be a URL of http or https, or a data URL", atoll.ErrInvalid)
}

// NewRequest returns a request of POST /v1/chat/completions.
func (d openai) NewRequest(base, key string, q *Request) (*http.Request, error) {
	t, err := NewTarget(OpenAI, base, key, q.Model, q.Stream)
	if err != nil {
		return nil, err
	}
	first := isOpenAI(t.URL)
	body := object{"model": q.Model, "messages": d.encodeMessages(q, !first)}
	if q.MaxTokens > 0 {
		body["max_tokens"] = q.MaxTokens
		if first {
			delete(body, "max_tokens")
			body["max_completion_tokens"] = q.MaxTokens
		}
	}
	if q.Stream {
		body["stream"], body["stream_options"] = true, object{"include_usage": true}
	}
	if q.Temperature != nil {
		body["temperature"] = *q.Temperature
	}
	if q.TopP != nil {
		body["top_p"] = *q.TopP
	}
	if len(q.Stop) > 0 {
		body["stop"] = q.Stop
	}
	if e := effortWord(q); e != "" {
		body["reasoning_effort"] = e
	}
	if q.User != "" {
		body["user"] = q.User
	}
	if isAnyObject(q.Schema) {
		body["response_format"] = object{"type": "json_object"}
	} else if q.Schema != nil {
		body["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": q.Schema}}
	}
	d.encodeTools(body, q)
	return t.newPost(body)
}

// isOpenAI reports whether an address is OpenAI's own, which accepts fewer and newer fields
// than compatible APIs.
func isOpenAI(u string) bool {
	p, err := url.Parse(u)
	return err == nil && (p.Hostname() == "api.openai.com" || strings.HasSuffix(p.Hostname(), ".openai.azure.com"))
}

// effortWord returns the value of effort for a request; "": it is not set.
func effortWord(q *Request) string {
	switch {
	case q.Effort == "max":
		return "high"
	case q.Effort != "":
		return q.Effort
	case q.ThinkTokens == 0:
		return ""
	case q.ThinkTokens <= lowThought:
		return "low"
	case q.ThinkTokens <= someThought:
		return "medium"
	}
	return "high"
}

func (openai) encodeTools(body object, q *Request) {
	if len(q.Tools) == 0 {
		return
	}
	tools := make([]object, 0, len(q.Tools))
	for _, t := range q.Tools {
		f := object{"name": t.Name, "parameters": schemaOrDefault(t.Schema)}
		if t.Description != "" {
			f["description"] = t.Description
		}
		tools = append(tools, object{"type": "function", "function": f})
	}
	body["tools"] = tools
	switch q.ToolChoice {
	case "":
	case "none", "required":
		body["tool_choice"] = q.ToolChoice
	default:
		body["tool_choice"] = object{"type": "function", "function": object{"name": q.ToolChoice}}
	}
	if q.SingleTool {
		body["parallel_tool_calls"] = false
	}
}

// openaiConversation encodes a conversation. Results must follow their calls directly:
// messages between them are delayed.
type openaiConversation struct {
	thoughts bool // are sent back
	list     []object
	calls    map[string]bool // calls without a result
	waiting  []object
}

// encodeMessages encodes the conversation; thoughts sends the thoughts before tool calls
// back, as DeepSeek requires.
func (d openai) encodeMessages(q *Request, thoughts bool) []object {
	s := openaiConversation{thoughts: thoughts, list: []object{}, calls: map[string]bool{}}
	for _, m := range q.Messages {
		switch m.Role {
		case System:
			s.addMessage(object{"role": "system", "content": textOf(m.Parts)})
		case Assistant:
			s.addPending()
			s.addAssistant(m.Parts)
		case User:
			s.addUser(m.Parts)
		}
	}
	s.addPending()
	return s.list
}

// addMessage adds a message, after all pending results.
func (s *openaiConversation) addMessage(m object) {
	if len(s.calls) > 0 {
		s.waiting = append(s.waiting, m)
		return
	}
	s.list = append(append(s.list, s.waiting...), m)
	s.waiting = nil
}

// addPending adds results for calls without one, which the API requires, and the delayed
// messages.
func (s *openaiConversation) addPending() {
	for _, m := range s.list {
		calls, _ := m["tool_calls"].([]object)
		for _, c := range calls {
			if id, _ := c["id"].(string); s.calls[id] {
				delete(s.calls, id)
				s.list = append(s.list, object{"role": "tool", "tool_call_id": id, "content": "(no result)"})
			}
		}
	}
	s.list = append(s.list, s.waiting...)
	s.waiting = nil
}

func (s *openaiConversation) addAssistant(parts []Part) {
	m := object{"role": "assistant"}
	var calls []object
	var thoughts []string
	for _, p := range parts {
		switch p.Type {
		case ToolUse:
			id := callID(p.ID)
			s.calls[id] = true
			calls = append(calls, object{"id": id, "type": "function", "function": object{"name": p.Name, "arguments": string(inputObject(string(p.Input)))}})
		case ThinkingPart:
			if p.Text != "" {
				thoughts = append(thoughts, p.Text)
			}
		}
	}
	text := textOf(parts)
	if len(calls) > 0 {
		m["tool_calls"] = calls
		if s.thoughts && len(thoughts) > 0 {
			m["reasoning_content"] = strings.Join(thoughts, "\n")
		}
	}
	if text == "" && len(calls) == 0 {
		return
	}
	m["content"] = text
	if text == "" {
		m["content"] = nil
	}
	s.list = append(s.list, m)
}

func (s *openaiConversation) addUser(parts []Part) {
	var content []object
	onlyText := true
	add := func(p Part) {
		if o := openaiPart(p); o != nil {
			onlyText = onlyText && o["type"] == "text"
			content = append(content, o)
		}
	}
	for _, p := range parts {
		if p.Type != ToolResult {
			add(p)
			continue
		}
		id := callID(p.ID)
		text := textOf(p.Parts)
		if p.Failed {
			text = "Error: " + text
		}
		result := object{"role": "tool", "tool_call_id": id, "content": text}
		if !s.calls[id] { // the API refuses a result without its call
			add(Part{Type: TextPart, Text: "Result of a tool: " + text})
			continue
		}
		delete(s.calls, id)
		s.list = append(s.list, result)
		for _, in := range p.Parts {
			if in.Type != TextPart { // the API allows it only in messages of users
				add(Part{Type: TextPart, Text: "From the result of tool call " + id + ":"})
				add(in)
			}
		}
	}
	if len(content) == 0 {
		return
	}
	m := object{"role": "user", "content": content}
	if onlyText {
		texts := make([]string, 0, len(content))
		for _, o := range content {
			t, _ := o["text"].(string)
			texts = append(texts, t)
		}
		m["content"] = strings.Join(texts, "\n")
	}
	s.addMessage(m)
}

// openaiPart encodes a part of a user's message; nil: the API does not support it.
func openaiPart(p Part) object {
	switch p.Type {
	case TextPart:
		if p.Text == "" {
			return nil
		}
		return object{"type": "text", "text": p.Text}
	case ImagePart:
		u := p.URL
		if u == "" {
			u = toDataURL(imageType(p.MediaType, p.Data), p.Data)
		}
		return object{"type": "image_url", "image_url": object{"url": u}}
	case FilePart:
		name := p.Name
		if name == "" {
			name = "file"
		}
		switch {
		case p.URL != "":
			return object{"type": "text", "text": "[" + name + ": " + p.URL + "]"}
		case strings.HasPrefix(p.MediaType, "text/") || p.MediaType == "application/json":
			return object{"type": "text", "text": name + ":\n" + strings.ToValidUTF8(string(p.Data), "\uFFFD")}
		}
		return object{"type": "file", "file": object{"filename": name, "file_data": toDataURL(p.MediaType, p.Data)}}
	}
	return nil
}
