package dialect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// gemini is Google's generateContent API.
type gemini struct{}

func (gemini) Name() Name { return Gemini }

type geminiRequest struct {
	Contents []geminiContent `json:"contents"`
	System   json.RawMessage `json:"systemInstruction"`
	Tools    []struct {
		Functions []geminiFunction `json:"functionDeclarations"`
	} `json:"tools"`
	ToolConfig struct {
		Calling struct {
			Mode    string   `json:"mode"`
			Allowed []string `json:"allowedFunctionNames"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Config struct {
		Temperature *float64        `json:"temperature"`
		TopP        *float64        `json:"topP"`
		TopK        float64         `json:"topK"`
		MaxTokens   int             `json:"maxOutputTokens"`
		Stop        []string        `json:"stopSequences"`
		MIME        string          `json:"responseMimeType"`
		Schema      json.RawMessage `json:"responseSchema"`
		JSONSchema  json.RawMessage `json:"responseJsonSchema"`
		Candidates  int             `json:"candidateCount"`
		Thinking    *struct {
			Budget int    `json:"thinkingBudget"`
			Level  string `json:"thinkingLevel"`
		} `json:"thinkingConfig"`
	} `json:"generationConfig"`
	Whole *geminiRequest `json:"generateContentRequest"` // of countTokens
}

type geminiFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Schema      json.RawMessage `json:"parametersJsonSchema"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text      string `json:"text"`
	Thought   bool   `json:"thought"`
	Signature string `json:"thoughtSignature"`
	Inline    *struct {
		MIME string `json:"mimeType"`
		Data string `json:"data"`
	} `json:"inlineData"`
	File *struct {
		MIME string `json:"mimeType"`
		URI  string `json:"fileUri"`
	} `json:"fileData"`
	Call *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Response *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
		Parts    []geminiPart    `json:"parts"`
	} `json:"functionResponse"`
}

// ReadRequest decodes POST /v1beta/models/MODEL:generateContent, :streamGenerateContent and
// :countTokens.
func (d gemini) ReadRequest(r *http.Request, body []byte) (*Request, error) {
	var in geminiRequest
	if err := readBody(body, &in); err != nil {
		return nil, err
	}
	if in.Whole != nil {
		in = *in.Whole
	}
	if in.Config.Candidates > 1 {
		return nil, fmt.Errorf("%w: generationConfig.candidateCount: %d; there is one answer", atoll.ErrInvalid, in.Config.Candidates)
	}
	c := &in.Config
	q := &Request{Temperature: c.Temperature, TopP: c.TopP, TopK: int(c.TopK), MaxTokens: c.MaxTokens, Stop: c.Stop}
	q.Model, q.Stream = geminiPath(r)
	if t := c.Thinking; t != nil {
		q.ThinkTokens, q.Effort = max(t.Budget, 0), strings.ToLower(t.Level)
	}
	switch {
	case !isAbsent(c.JSONSchema):
		q.Schema = c.JSONSchema
	case !isAbsent(c.Schema):
		q.Schema = lowerTypes(c.Schema)
	case c.MIME == "application/json":
		q.Schema = anyObject
	}
	d.readTools(q, &in)
	if text, ok := parseText(in.System); ok {
		q.Messages = append(q.Messages, Message{Role: System, Parts: []Part{{Type: TextPart, Text: text}}})
	} else if !isAbsent(in.System) {
		var s geminiContent
		if err := read(in.System, &s); err != nil {
			return nil, fmt.Errorf("systemInstruction: %w", err)
		}
		g := geminiScan{}
		parts, err := g.readParts(s.Parts)
		if err != nil {
			return nil, fmt.Errorf("systemInstruction: %w", err)
		}
		q.Messages = append(q.Messages, Message{Role: System, Parts: parts})
	}
	g := geminiScan{}
	for i, m := range in.Contents {
		parts, err := g.readParts(m.Parts)
		if err != nil {
			return nil, fmt.Errorf("contents[%d]: %w", i, err)
		}
		role := User
		if m.Role == "model" {
			role = Assistant
		}
		if len(parts) > 0 {
			q.Messages = append(q.Messages, Message{Role: role, Parts: parts})
		}
	}
	return q, nil
}

func (gemini) readTools(q *Request, in *geminiRequest) {
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			s := f.Schema
			if isAbsent(s) {
				s = lowerTypes(f.Parameters)
			}
			q.Tools = append(q.Tools, Tool{Name: f.Name, Description: f.Description, Schema: schemaOrDefault(s)})
		}
	}
	switch c := in.ToolConfig.Calling; c.Mode {
	case "NONE":
		q.ToolChoice = "none"
	case "ANY":
		q.ToolChoice = "required"
		if len(c.Allowed) == 1 {
			q.ToolChoice = c.Allowed[0]
		}
	}
}

// geminiPath returns the model in the path, and whether to stream.
func geminiPath(r *http.Request) (model string, stream bool) {
	if r == nil || r.URL == nil {
		return "", false
	}
	_, rest, _ := strings.Cut(r.URL.Path, "/models/")
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return rest, false
	}
	return rest[:i], rest[i+1:] == "streamGenerateContent"
}

// lowerTypes returns a schema with its types in lower case, as in JSON Schema.
func lowerTypes(raw json.RawMessage) json.RawMessage {
	if isAbsent(raw) {
		return nil
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	b, err := encode(lowerTypesIn(v, 0))
	if err != nil {
		return raw
	}
	return b
}

const maxDepth = 64 // of a schema

func lowerTypesIn(v any, depth int) any {
	if depth > maxDepth {
		return v
	}
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			if s, ok := e.(string); ok && k == "type" {
				t[k] = strings.ToLower(s)
				continue
			}
			t[k] = lowerTypesIn(e, depth+1)
		}
	case []any:
		for i, e := range t {
			t[i] = lowerTypesIn(e, depth+1)
		}
	}
	return v
}

// geminiScan decodes a conversation whose calls may have no ids.
type geminiScan struct {
	calls int
	open  []Part // calls without a result
}

func (g *geminiScan) readParts(list []geminiPart) ([]Part, error) {
	var parts []Part
	for i := range list {
		p, ok, err := g.readPart(&list[i])
		if err != nil {
			return nil, err
		}
		if ok {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func (g *geminiScan) readPart(p *geminiPart) (Part, bool, error) {
	signature := ""
	if p.Signature != "" {
		signature = string(Gemini) + ":" + p.Signature
	}
	switch {
	case p.Call != nil:
		g.calls++
		u := Part{Type: ToolUse, ID: originalID(p.Call.ID), Name: p.Call.Name, Input: p.Call.Args, Signature: signature}
		if u.ID == "" {
			u.ID = fmt.Sprintf("call_%d", g.calls)
		}
		if isAbsent(u.Input) {
			u.Input = json.RawMessage("{}")
		}
		g.open = append(g.open, u)
		return u, true, nil
	case p.Response != nil:
		return g.readResult(p)
	case p.Inline != nil:
		data, err := decode64(p.Inline.Data)
		if err != nil {
			return Part{}, false, fmt.Errorf("%w: inlineData.data: %w", atoll.ErrInvalid, err)
		}
		t := FilePart
		if strings.HasPrefix(p.Inline.MIME, "image/") {
			t = ImagePart
		}
		return Part{Type: t, MediaType: p.Inline.MIME, Data: data}, true, nil
	case p.File != nil:
		t := FilePart
		if strings.HasPrefix(p.File.MIME, "image/") {
			t = ImagePart
		}
		return Part{Type: t, MediaType: p.File.MIME, URL: p.File.URI}, true, nil
	case p.Thought:
		return Part{Type: ThinkingPart, Text: p.Text, Signature: signature}, true, nil
	}
	return Part{Type: TextPart, Text: p.Text}, p.Text != "", nil
}

// readResult decodes the result of the call with its id, or of the first open one with its
// name.
func (g *geminiScan) readResult(p *geminiPart) (Part, bool, error) {
	r := Part{Type: ToolResult, ID: originalID(p.Response.ID)}
	for i, u := range g.open {
		if r.ID == u.ID || r.ID == "" && u.Name == p.Response.Name {
			r.ID = u.ID
			g.open = append(g.open[:i], g.open[i+1:]...)
			break
		}
	}
	if r.ID == "" {
		g.calls++
		r.ID = fmt.Sprintf("call_%d", g.calls)
	}
	var said struct {
		Output json.RawMessage `json:"output"`
		Error  json.RawMessage `json:"error"`
	}
	text := string(p.Response.Response)
	if json.Unmarshal(p.Response.Response, &said) == nil {
		if s, ok := parseText(said.Output); ok {
			text = s
		} else if s, ok := parseText(said.Error); ok {
			text, r.Failed = s, true
		}
	}
	inner, err := g.readParts(p.Response.Parts)
	r.Parts = append([]Part{{Type: TextPart, Text: text}}, inner...)
	return r, true, err
}

// NewRequest returns a request of POST models/MODEL:generateContent.
func (d gemini) NewRequest(base, key string, q *Request) (*http.Request, error) {
	t, err := NewTarget(Gemini, base, key, q.Model, q.Stream)
	if err != nil {
		return nil, err
	}
	system, contents := d.encodeContents(q)
	body := object{"contents": contents}
	if len(system) > 0 {
		body["systemInstruction"] = object{"parts": system}
	}
	if c := d.encodeConfig(q); len(c) > 0 {
		body["generationConfig"] = c
	}
	if len(q.Tools) > 0 {
		var list []object
		for _, t := range q.Tools {
			f := object{"name": t.Name, "parametersJsonSchema": schemaOrDefault(t.Schema)}
			if t.Description != "" {
				f["description"] = t.Description
			}
			list = append(list, f)
		}
		body["tools"] = []object{{"functionDeclarations": list}}
		calling := object{}
		switch q.ToolChoice {
		case "":
		case "none":
			calling["mode"] = "NONE"
		case "required":
			calling["mode"] = "ANY"
		default:
			calling["mode"], calling["allowedFunctionNames"] = "ANY", []string{q.ToolChoice}
		}
		if len(calling) > 0 {
			body["toolConfig"] = object{"functionCallingConfig": calling}
		}
	}
	return t.newPost(body)
}

func (gemini) encodeConfig(q *Request) object {
	c := object{}
	if q.MaxTokens > 0 {
		c["maxOutputTokens"] = q.MaxTokens
	}
	if q.Temperature != nil {
		c["temperature"] = *q.Temperature
	}
	if q.TopP != nil {
		c["topP"] = *q.TopP
	}
	if q.TopK > 0 {
		c["topK"] = q.TopK
	}
	if len(q.Stop) > 0 {
		c["stopSequences"] = q.Stop
	}
	if q.Schema != nil {
		c["responseMimeType"] = "application/json"
		if !isAnyObject(q.Schema) {
			c["responseJsonSchema"] = q.Schema
		}
	}
	if n := thinkingTokens(q); n > 0 {
		c["thinkingConfig"] = object{"thinkingBudget": n, "includeThoughts": true}
	}
	return c
}

// noSignature is accepted by Gemini instead of the signature of another model's call.
const noSignature = "skip_thought_signature_validator"

// encodeContents returns the system's texts and the conversation with alternating roles.
func (d gemini) encodeContents(q *Request) (system, list []object) {
	names := map[string]string{}
	list = []object{}
	last := Role("")
	for _, m := range q.Messages {
		var parts []object
		role := m.Role
		if role == System && len(list) == 0 {
			system = append(system, object{"text": textOf(m.Parts)})
			continue
		}
		if role == System { // the API allows none in the middle
			role = User
			m.Parts = []Part{{Type: TextPart, Text: "<system>\n" + textOf(m.Parts) + "\n</system>"}}
		}
		for _, p := range m.Parts {
			if p.Type == ToolUse {
				names[p.ID] = p.Name
			}
			if o := d.encodePart(p, names, q.Model); o != nil {
				parts = append(parts, o)
			}
		}
		if len(parts) == 0 {
			continue
		}
		if n := len(list); n > 0 && last == role {
			before, _ := list[n-1]["parts"].([]object)
			list[n-1]["parts"] = append(before, parts...)
			continue
		}
		last = role
		name := "user"
		if role == Assistant {
			name = "model"
		}
		list = append(list, object{"role": name, "parts": parts})
	}
	return system, list
}

// encodePart encodes a part; nil: the API does not support it.
func (d gemini) encodePart(p Part, names map[string]string, model string) object {
	switch p.Type {
	case TextPart:
		if p.Text == "" {
			return nil
		}
		return object{"text": p.Text}
	case ThinkingPart:
		if s := signatureOf(Gemini, p.Signature); s != "" {
			return object{"text": p.Text, "thought": true, "thoughtSignature": s}
		}
		return nil
	case ImagePart, FilePart:
		if p.URL != "" {
			return object{"fileData": object{"mimeType": mediaOf(p), "fileUri": p.URL}}
		}
		return object{"inlineData": object{"mimeType": mediaOf(p), "data": encode64(p.Data)}}
	case ToolUse:
		o := object{"functionCall": object{"name": p.Name, "args": inputObject(string(p.Input))}}
		if s := signatureOf(Gemini, p.Signature); s != "" {
			o["thoughtSignature"] = s
		} else if !strings.HasPrefix(model, "gemini-1") && !strings.HasPrefix(model, "gemini-2") {
			o["thoughtSignature"] = noSignature
		}
		return o
	case ToolResult:
		name := names[p.ID]
		if name == "" {
			name = "tool"
		}
		key := "output"
		if p.Failed {
			key = "error"
		}
		r := object{"name": name, "response": object{key: textOf(p.Parts)}}
		var inner []object
		for _, in := range p.Parts {
			if in.Type == ImagePart || in.Type == FilePart {
				inner = append(inner, d.encodePart(in, names, model))
			}
		}
		if inner != nil {
			r["parts"] = inner
		}
		return object{"functionResponse": r}
	}
	return nil
}

func mediaOf(p Part) string {
	if p.Type == ImagePart {
		if p.URL != "" && p.MediaType == "" {
			return "image/jpeg"
		}
		return imageType(p.MediaType, p.Data)
	}
	if p.MediaType == "" {
		return "application/pdf"
	}
	return p.MediaType
}

// isList reports whether a stream is a JSON list, as it is without alt=sse.
func isList(b []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) }
