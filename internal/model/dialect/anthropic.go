package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// anthropic is Anthropic's messages API.
type anthropic struct{}

func (anthropic) Name() Name { return Anthropic }

// anthropicTokens is the output limit of requests without one: the API requires a limit,
// and every model supports this one.
const anthropicTokens = 8192

type anthropicRequest struct {
	Model         string             `json:"model"`
	System        json.RawMessage    `json:"system"`
	Messages      []anthropicMessage `json:"messages"`
	Tools         []anthropicTool    `json:"tools"`
	MaxTokens     int                `json:"max_tokens"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	TopK          int                `json:"top_k"`
	StopSequences []string           `json:"stop_sequences"`
	Stream        bool               `json:"stream"`
	ToolChoice    *struct {
		Type   string `json:"type"`
		Name   string `json:"name"`
		Serial bool   `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking *struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
	Metadata *struct {
		UserID string `json:"user_id"`
	} `json:"metadata"`
	OutputFormat *anthropicFormat `json:"output_format"`
	OutputConfig *struct {
		Effort string           `json:"effort"`
		Format *anthropicFormat `json:"format"`
	} `json:"output_config"`
}

type anthropicFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
}

// ReadRequest decodes POST /v1/messages and /v1/messages/count_tokens.
func (d anthropic) ReadRequest(_ *http.Request, body []byte) (*Request, error) {
	var in anthropicRequest
	if err := readBody(body, &in); err != nil {
		return nil, err
	}
	q := &Request{
		Model: in.Model, MaxTokens: in.MaxTokens, Temperature: in.Temperature, TopP: in.TopP, TopK: in.TopK,
		Stop: in.StopSequences, Stream: in.Stream,
	}
	system, err := d.readBlocks("system", in.System)
	if err != nil {
		return nil, err
	}
	if len(system) > 0 {
		q.Messages = append(q.Messages, Message{Role: System, Parts: system})
	}
	for i, m := range in.Messages {
		role := Role(m.Role)
		if role != User && role != Assistant && role != System {
			return nil, fmt.Errorf("%w: messages[%d].role: %q; it is user, assistant or system", atoll.ErrInvalid, i, m.Role)
		}
		parts, err := d.readBlocks(fmt.Sprintf("messages[%d].content", i), m.Content)
		if err != nil {
			return nil, err
		}
		q.Messages = append(q.Messages, Message{Role: role, Parts: parts})
	}
	for _, t := range in.Tools {
		if t.Type == "" || t.Type == "custom" { // the API itself runs others
			q.Tools = append(q.Tools, Tool{Name: t.Name, Description: t.Description, Schema: schemaOrDefault(t.Schema)})
		}
	}
	d.readOptions(q, &in)
	return q, nil
}

func (anthropic) readOptions(q *Request, in *anthropicRequest) {
	if c := in.ToolChoice; c != nil {
		q.SingleTool = c.Serial
		switch c.Type {
		case "any":
			q.ToolChoice = "required"
		case "none":
			q.ToolChoice = "none"
		case "tool":
			q.ToolChoice = c.Name
		}
	}
	if t := in.Thinking; t != nil && t.Type == "enabled" {
		q.ThinkTokens = t.Budget
	}
	format := in.OutputFormat
	if c := in.OutputConfig; c != nil {
		q.Effort = c.Effort
		if c.Format != nil {
			format = c.Format
		}
	}
	if format != nil && !isAbsent(format.Schema) {
		q.Schema = format.Schema
	}
	if in.Metadata != nil {
		q.User = in.Metadata.UserID
	}
}

// anthropicBlock is a decoded block of content.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"` // of redacted thinking
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Source    struct {
		Type      string          `json:"type"`
		MediaType string          `json:"media_type"`
		Data      string          `json:"data"`
		URL       string          `json:"url"`
		Content   json.RawMessage `json:"content"`
	} `json:"source"`
}

// readBlocks decodes content: a text, or blocks. Blocks of unknown types are left out.
func (d anthropic) readBlocks(field string, raw json.RawMessage) ([]Part, error) {
	if isAbsent(raw) {
		return nil, nil
	}
	if text, ok := parseText(raw); ok {
		if text == "" {
			return nil, nil
		}
		return []Part{{Type: TextPart, Text: text}}, nil
	}
	var list []anthropicBlock
	if err := read(raw, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	parts := make([]Part, 0, len(list))
	for i := range list {
		p, ok, err := d.readPart(&list[i])
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		if ok {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func (d anthropic) readPart(b *anthropicBlock) (Part, bool, error) {
	switch b.Type {
	case "text":
		return Part{Type: TextPart, Text: b.Text}, b.Text != "", nil
	case "thinking":
		return Part{Type: ThinkingPart, Text: b.Thinking, Signature: b.Signature}, true, nil
	case "redacted_thinking":
		return Part{Type: ThinkingPart, Signature: redactedPrefix + b.Data}, true, nil
	case "image", "document":
		return d.readSource(b)
	case "tool_use":
		in := b.Input
		if isAbsent(in) {
			in = json.RawMessage("{}")
		}
		return Part{Type: ToolUse, ID: originalID(b.ID), Name: b.Name, Input: in}, true, nil
	case "tool_result":
		parts, err := d.readBlocks("content", b.Content)
		return Part{Type: ToolResult, ID: originalID(b.ToolUseID), Parts: parts, Failed: b.IsError}, true, err
	}
	return Part{}, false, nil
}

// redactedPrefix is the prefix of the signature of redacted thinking.
const redactedPrefix = "redacted:"

func (d anthropic) readSource(b *anthropicBlock) (Part, bool, error) {
	p := Part{Type: FilePart, MediaType: b.Source.MediaType, Name: b.Title, URL: b.Source.URL}
	if b.Type == "image" {
		p.Type = ImagePart
	}
	switch b.Source.Type {
	case "base64":
		data, err := decode64(b.Source.Data)
		if err != nil {
			return p, false, fmt.Errorf("%w: source.data: %w", atoll.ErrInvalid, err)
		}
		p.Data = data
	case "text":
		p.Data, p.MediaType = []byte(b.Source.Data), "text/plain"
	case "content":
		parts, err := d.readBlocks("source.content", b.Source.Content)
		if err != nil {
			return p, false, err
		}
		p.Data, p.MediaType = []byte(textOf(parts)), "text/plain"
	case "url":
	default:
		return p, false, nil // a file that the API stores
	}
	return p, true, nil
}

// textOf joins the texts of parts.
func textOf(parts []Part) string {
	var list []string
	for _, p := range parts {
		if p.Type == TextPart {
			list = append(list, p.Text)
		}
	}
	return strings.Join(list, "\n")
}

// NewRequest returns a request of POST /v1/messages.
func (d anthropic) NewRequest(base, key string, q *Request) (*http.Request, error) {
	t, err := NewTarget(Anthropic, base, key, q.Model, q.Stream)
	if err != nil {
		return nil, err
	}
	system, messages := d.encodeMessages(q)
	body := object{"model": q.Model, "max_tokens": q.MaxTokens, "messages": messages}
	if q.MaxTokens == 0 {
		body["max_tokens"] = anthropicTokens
	}
	if isAnyObject(q.Schema) {
		system = append(system, object{"type": "text", "text": "Answer with one JSON object and nothing else."})
	} else if q.Schema != nil {
		body["output_config"] = object{"format": object{"type": "json_schema", "schema": q.Schema}}
	}
	if len(system) > 0 {
		body["system"] = system
	}
	if q.Stream {
		body["stream"] = true
	}
	if len(q.Stop) > 0 {
		body["stop_sequences"] = q.Stop
	}
	if q.User != "" {
		body["metadata"] = object{"user_id": q.User}
	}
	d.writeTools(body, q)
	d.setThinking(body, q)
	return t.newPost(body)
}

func (anthropic) writeTools(body object, q *Request) {
	if len(q.Tools) == 0 {
		return
	}
	tools := make([]object, 0, len(q.Tools))
	for _, t := range q.Tools {
		tool := object{"name": t.Name, "input_schema": schemaOrDefault(t.Schema)}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		tools = append(tools, tool)
	}
	body["tools"] = tools
	choice := object{}
	switch q.ToolChoice {
	case "":
		if q.SingleTool {
			choice["type"] = "auto"
		}
	case "none":
		choice["type"] = "none"
	case "required":
		choice["type"] = "any"
	default:
		choice["type"], choice["name"] = "tool", q.ToolChoice
	}
	if len(choice) == 0 {
		return
	}
	if q.SingleTool && q.ToolChoice != "none" {
		choice["disable_parallel_tool_use"] = true
	}
	body["tool_choice"] = choice
}

// The tokens of thinking for the values of effort.
const (
	leastThought = 1024
	lowThought   = 2048
	someThought  = 8192
	highThought  = 24576
)

// thinkingTokens returns the tokens of a request for thinking.
func thinkingTokens(q *Request) int {
	if q.ThinkTokens > 0 {
		return q.ThinkTokens
	}
	switch q.Effort {
	case "", "none", "minimal":
		return 0
	case "low":
		return lowThought
	case "medium":
		return someThought
	}
	return highThought
}

// canThink reports whether thinking is allowed: not after tool calls whose thinking is
// missing.
func canThink(q *Request) bool {
	n := len(q.Messages) - 1
	results := false
	for ; n >= 0 && q.Messages[n].Role != Assistant; n-- {
		for _, p := range q.Messages[n].Parts {
			results = results || p.Type == ToolResult
		}
	}
	if n < 0 || !results {
		return true
	}
	for n > 0 && q.Messages[n-1].Role == Assistant {
		n--
	}
	for _, p := range q.Messages[n].Parts {
		if p.Type == ThinkingPart && signatureOf(Anthropic, p.Signature) != "" {
			return true
		}
	}
	return false
}

// setThinking sets thinking, and the options that can't be combined with it.
func (anthropic) setThinking(body object, q *Request) {
	n := thinkingTokens(q)
	if n > 0 && (q.ToolChoice == "" || q.ToolChoice == "none") && canThink(q) {
		n = max(n, leastThought)
		body["thinking"] = object{"type": "enabled", "budget_tokens": n}
		if most, _ := body["max_tokens"].(int); most <= n {
			body["max_tokens"] = n + max(most, 1024)
		}
		return
	}
	if q.Temperature != nil {
		body["temperature"] = min(*q.Temperature, 1)
	} else if q.TopP != nil { // newer models accept only one of the two
		body["top_p"] = *q.TopP
	}
	if q.TopK > 0 {
		body["top_k"] = q.TopK
	}
}

// encodeMessages returns the system's texts and the messages. It joins consecutive messages
// of a role, with the results of tools first.
func (d anthropic) encodeMessages(q *Request) (system []any, list []object) {
	var turns []Message
	for _, m := range q.Messages {
		if m.Role == System && len(turns) == 0 {
			for _, p := range m.Parts {
				if p.Type == TextPart && p.Text != "" {
					system = append(system, object{"type": "text", "text": p.Text})
				}
			}
			continue
		}
		if m.Role == System { // the API allows none in the middle
			m = Message{Role: User, Parts: []Part{{Type: TextPart, Text: "<system>\n" + textOf(m.Parts) + "\n</system>"}}}
		}
		if n := len(turns); n > 0 && turns[n-1].Role == m.Role {
			turns[n-1].Parts = append(slices.Clip(turns[n-1].Parts), m.Parts...)
			continue
		}
		turns = append(turns, m)
	}
	for _, m := range turns {
		blocks := d.encodeContent(m.Parts)
		if len(blocks) == 0 {
			continue
		}
		list = append(list, object{"role": string(m.Role), "content": blocks})
	}
	return system, list
}

func (d anthropic) encodeContent(parts []Part) []object {
	var results, others []object
	for _, p := range parts {
		b := d.encodeBlock(p)
		switch {
		case b == nil:
		case p.Type == ToolResult:
			results = append(results, b)
		default:
			others = append(others, b)
		}
	}
	return append(results, others...)
}

// encodeBlock encodes a part; nil: the API does not support it.
func (d anthropic) encodeBlock(p Part) object {
	switch p.Type {
	case TextPart:
		if strings.TrimSpace(p.Text) == "" {
			return nil // the API refuses it
		}
		return object{"type": "text", "text": p.Text}
	case ThinkingPart:
		s := signatureOf(Anthropic, p.Signature)
		if data, ok := strings.CutPrefix(s, redactedPrefix); ok {
			return object{"type": "redacted_thinking", "data": data}
		}
		if s == "" {
			return nil // the API refuses it
		}
		return object{"type": "thinking", "thinking": p.Text, "signature": s}
	case ImagePart, FilePart:
		return d.encodeImage(p)
	case ToolUse:
		return object{"type": "tool_use", "id": toolID(p.ID), "name": p.Name, "input": inputObject(string(p.Input))}
	case ToolResult:
		b := object{"type": "tool_result", "tool_use_id": toolID(p.ID)}
		if blocks := d.encodeContent(p.Parts); len(blocks) > 0 {
			b["content"] = blocks
		}
		if p.Failed {
			b["is_error"] = true
		}
		return b
	}
	return nil
}

func (anthropic) encodeImage(p Part) object {
	source := object{"type": "base64", "media_type": imageType(p.MediaType, p.Data), "data": encode64(p.Data)}
	switch {
	case p.URL != "":
		source = object{"type": "url", "url": p.URL}
	case p.Type == FilePart && p.MediaType != "application/pdf":
		source = object{"type": "text", "media_type": "text/plain", "data": strings.ToValidUTF8(string(p.Data), "\uFFFD")}
	}
	if p.Type == ImagePart {
		return object{"type": "image", "source": source}
	}
	b := object{"type": "document", "source": source}
	if p.Name != "" {
		b["title"] = p.Name
	}
	return b
}
