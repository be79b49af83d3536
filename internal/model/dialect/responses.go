package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// responses is OpenAI's responses API.
type responses struct{}

func (responses) Name() Name { return Responses }

type responsesRequest struct {
	Model        string          `json:"model"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	Tools        []responsesTool `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Parallel     *bool           `json:"parallel_tool_calls"`
	MaxTokens    int             `json:"max_output_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	Stream       bool            `json:"stream"`
	Background   bool            `json:"background"`
	Previous     string          `json:"previous_response_id"`
	Reasoning    *struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text *struct {
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	User     string            `json:"user"`
	Metadata map[string]string `json:"metadata"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Format      struct {
		Definition string `json:"definition"`
	} `json:"format"` // of a free text
	Tools []responsesTool `json:"tools"` // of a namespace
}

// responsesItem is an item of the input and of the output.
type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
	Tools     []responsesTool `json:"tools"`
	Summary   []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// freeSchema is the schema for a free text in APIs that support only objects.
var freeSchema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`)

// ReadRequest decodes POST /v1/responses.
func (d responses) ReadRequest(_ *http.Request, body []byte) (*Request, error) {
	var in responsesRequest
	if err := readBody(body, &in); err != nil {
		return nil, err
	}
	if in.Previous != "" {
		return nil, fmt.Errorf("%w: previous_response_id: answers are not stored: send the whole input", atoll.ErrInvalid)
	}
	if in.Background {
		return nil, fmt.Errorf("%w: background: answers are given at once", atoll.ErrInvalid)
	}
	q := &Request{
		Model: in.Model, MaxTokens: in.MaxTokens, Temperature: in.Temperature, TopP: in.TopP, Stream: in.Stream,
		User: in.User, Metadata: in.Metadata, SingleTool: in.Parallel != nil && !*in.Parallel,
	}
	if in.Reasoning != nil {
		q.Effort = in.Reasoning.Effort
	}
	if in.Text != nil {
		switch in.Text.Format.Type {
		case "json_object":
			q.Schema = anyObject
		case "json_schema":
			q.Schema = schemaOrDefault(in.Text.Format.Schema)
		}
	}
	if in.Instructions != "" {
		q.Messages = append(q.Messages, Message{Role: System, Parts: []Part{{Type: TextPart, Text: in.Instructions}}})
	}
	d.readTools(q, "", in.Tools)
	if err := d.readInput(q, in.Input); err != nil {
		return nil, err
	}
	choice, err := openaiChoice(in.ToolChoice)
	q.ToolChoice = choice
	return q, err
}

// readTools adds the tools that a client runs, with the names of their namespaces.
func (d responses) readTools(q *Request, space string, list []responsesTool) {
	for _, t := range list {
		tool := Tool{Name: qualifiedName(space, t.Name), Description: t.Description, Schema: schemaOrDefault(t.Parameters), Namespace: space}
		switch t.Type {
		case "function", "":
		case "custom":
			tool.FreeText, tool.Schema = true, freeSchema
			if t.Format.Definition != "" {
				tool.Description += "\n\nThe input is a text of this grammar:\n" + t.Format.Definition
			}
		case "namespace":
			if space == "" {
				d.readTools(q, t.Name, t.Tools)
			}
			continue
		default:
			continue // one that the API runs itself
		}
		q.Tools = append(q.Tools, tool)
	}
}

func qualifiedName(space, name string) string {
	if space == "" {
		return name
	}
	return space + "__" + name
}

// readInput adds the items of a conversation.
func (d responses) readInput(q *Request, raw json.RawMessage) error {
	if text, ok := parseText(raw); ok {
		q.Messages = append(q.Messages, Message{Role: User, Parts: []Part{{Type: TextPart, Text: text}}})
		return nil
	}
	if isAbsent(raw) {
		return nil
	}
	var items []responsesItem
	if err := read(raw, &items); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	for i := range items {
		if items[i].Type == "additional_tools" {
			d.readTools(q, "", items[i].Tools)
			continue
		}
		role, parts, err := d.readItem(&items[i])
		if err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
		if len(parts) == 0 {
			continue
		}
		if n := len(q.Messages); n > 0 && q.Messages[n-1].Role == role && role != System && (role == Assistant || onlyResults(parts) && onlyResults(q.Messages[n-1].Parts)) {
			q.Messages[n-1].Parts = append(q.Messages[n-1].Parts, parts...)
			continue
		}
		q.Messages = append(q.Messages, Message{Role: role, Parts: parts})
	}
	return nil
}

// encryptedPrefix is the prefix of encrypted content that carries another API's signature.
const encryptedPrefix = "atoll:"

func (d responses) readItem(it *responsesItem) (Role, []Part, error) {
	switch it.Type {
	case "message", "":
		parts, err := d.readParts(it.Content)
		switch it.Role {
		case "system", "developer":
			return System, parts, err
		case "user":
			return User, parts, err
		case "assistant":
			return Assistant, parts, err
		}
		return "", nil, fmt.Errorf("%w: role: %q; it is system, developer, user or assistant", atoll.ErrInvalid, it.Role)
	case "function_call":
		f := openaiFunc{Arguments: it.Arguments}
		return Assistant, []Part{{Type: ToolUse, ID: originalID(it.CallID), Name: qualifiedName(it.Namespace, it.Name), Input: inputObject(f.argumentText())}}, nil
	case "custom_tool_call":
		b, err := encode(object{"input": it.Input})
		return Assistant, []Part{{Type: ToolUse, ID: originalID(it.CallID), Name: qualifiedName(it.Namespace, it.Name), Input: b}}, err
	case "function_call_output", "custom_tool_call_output":
		parts, err := d.readParts(it.Output)
		if err != nil { // any other JSON is the tool's output
			parts = []Part{{Type: TextPart, Text: string(it.Output)}}
		}
		return User, []Part{{Type: ToolResult, ID: originalID(it.CallID), Parts: parts}}, nil
	case "reasoning":
		return Assistant, []Part{d.readThought(it)}, nil
	}
	return "", nil, nil
}

func (responses) readThought(it *responsesItem) Part {
	p := Part{Type: ThinkingPart}
	var texts []string
	for _, s := range it.Summary {
		texts = append(texts, s.Text)
	}
	p.Text = strings.Join(texts, "\n\n")
	if s, ok := strings.CutPrefix(it.Encrypted, encryptedPrefix); ok {
		p.Signature = s
	} else if it.Encrypted != "" {
		p.Signature = string(Responses) + ":" + it.Encrypted
	}
	return p
}

// readParts decodes content: a text, or parts.
func (responses) readParts(raw json.RawMessage) ([]Part, error) {
	if isAbsent(raw) {
		return nil, nil
	}
	if text, ok := parseText(raw); ok {
		return []Part{{Type: TextPart, Text: text}}, nil
	}
	var list []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Refusal  string `json:"refusal"`
		ImageURL string `json:"image_url"`
		FileName string `json:"filename"`
		FileData string `json:"file_data"`
		FileURL  string `json:"file_url"`
	}
	if err := read(raw, &list); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	var parts []Part
	for _, p := range list {
		var err error
		part := Part{Type: TextPart, Text: p.Text + p.Refusal}
		switch p.Type {
		case "input_text", "output_text", "text", "refusal":
		case "input_image":
			if p.ImageURL == "" {
				continue // a file that the API stores
			}
			part, err = partOfURL(ImagePart, p.ImageURL)
		case "input_file":
			if p.FileData+p.FileURL == "" {
				continue
			}
			part, err = partOfURL(FilePart, p.FileData+p.FileURL)
			part.Name = p.FileName
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("content: %s: %w", p.Type, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// NewRequest returns a request of POST /v1/responses that stores nothing there.
func (d responses) NewRequest(base, key string, q *Request) (*http.Request, error) {
	t, err := NewTarget(Responses, base, key, q.Model, q.Stream)
	if err != nil {
		return nil, err
	}
	body := object{"model": q.Model, "input": d.encodeItems(q), "store": false}
	if q.MaxTokens > 0 {
		body["max_output_tokens"] = q.MaxTokens
	}
	if q.Stream {
		body["stream"] = true
	}
	if q.Temperature != nil {
		body["temperature"] = *q.Temperature
	}
	if q.TopP != nil {
		body["top_p"] = *q.TopP
	}
	if e := effortWord(q); e != "" {
		body["reasoning"] = object{"effort": e, "summary": "auto"}
		body["include"] = []string{"reasoning.encrypted_content"}
	}
	if isAnyObject(q.Schema) {
		body["text"] = object{"format": object{"type": "json_object"}}
	} else if q.Schema != nil {
		body["text"] = object{"format": object{"type": "json_schema", "name": "answer", "schema": q.Schema, "strict": false}}
	}
	if q.User != "" {
		body["user"] = q.User
	}
	d.writeTools(body, q)
	return t.newPost(body)
}

func (responses) writeTools(body object, q *Request) {
	if len(q.Tools) == 0 {
		return
	}
	var tools []object
	for _, t := range q.Tools {
		f := object{"type": "function", "name": t.Name, "parameters": schemaOrDefault(t.Schema), "strict": false}
		if t.Description != "" {
			f["description"] = t.Description
		}
		tools = append(tools, f)
	}
	body["tools"] = tools
	switch q.ToolChoice {
	case "":
	case "none", "required":
		body["tool_choice"] = q.ToolChoice
	default:
		body["tool_choice"] = object{"type": "function", "name": q.ToolChoice}
	}
	if q.SingleTool {
		body["parallel_tool_calls"] = false
	}
}

// encodeItems encodes the conversation.
func (d responses) encodeItems(q *Request) []object {
	list := []object{}
	for _, m := range q.Messages {
		var content []object
		flush := func() {
			if len(content) > 0 {
				role := string(m.Role)
				list = append(list, object{"type": "message", "role": role, "content": content})
				content = nil
			}
		}
		for _, p := range m.Parts {
			if it := d.writeItem(p); it != nil {
				flush()
				list = append(list, it)
			} else if o := d.writePart(m.Role, p); o != nil {
				content = append(content, o)
			}
		}
		flush()
	}
	return list
}

// writeItem encodes a part that is an item of its own; nil: it is not.
func (d responses) writeItem(p Part) object {
	switch p.Type {
	case ToolUse:
		return object{"type": "function_call", "call_id": responsesCall(p.ID), "name": p.Name, "arguments": string(inputObject(string(p.Input)))}
	case ToolResult:
		out := object{"type": "function_call_output", "call_id": responsesCall(p.ID), "output": textOf(p.Parts)}
		if p.Failed {
			out["output"] = "Error: " + textOf(p.Parts)
		}
		var parts []object
		pictures := false
		for _, in := range p.Parts {
			if o := d.writePart(User, in); o != nil {
				parts = append(parts, o)
				pictures = pictures || in.Type != TextPart
			}
		}
		if pictures {
			out["output"] = parts
		}
		return out
	case ThinkingPart:
		if s := signatureOf(Responses, p.Signature); s != "" {
			summary := []object{}
			if p.Text != "" {
				summary = append(summary, object{"type": "summary_text", "text": p.Text})
			}
			return object{"type": "reasoning", "summary": summary, "encrypted_content": s}
		}
	}
	return nil
}

func responsesCall(id string) string {
	if len(id) <= maxID && id != "" {
		return id
	}
	return callID(id)
}

// writePart encodes a part of a message; nil: the API does not support it.
func (responses) writePart(role Role, p Part) object {
	switch p.Type {
	case TextPart:
		if role == Assistant {
			return object{"type": "output_text", "text": p.Text}
		}
		return object{"type": "input_text", "text": p.Text}
	case ImagePart:
		u := p.URL
		if u == "" {
			u = toDataURL(imageType(p.MediaType, p.Data), p.Data)
		}
		return object{"type": "input_image", "image_url": u}
	case FilePart:
		if p.URL != "" {
			return object{"type": "input_file", "file_url": p.URL}
		}
		if o := openaiPart(p); o["type"] == "text" {
			return object{"type": "input_text", "text": o["text"]}
		}
		name := p.Name
		if name == "" {
			name = "file"
		}
		return object{"type": "input_file", "filename": name, "file_data": toDataURL(p.MediaType, p.Data)}
	}
	return nil
}
