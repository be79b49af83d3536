package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// body is a JSON object whose fields can be read and set without changing the others.
type body struct {
	names  []string
	values []json.RawMessage
}

// checkedFields are the fields that the endpoint checks; in another case the API might
// accept them and the endpoint would miss them.
var checkedFields = []string{
	"model", "stream", "stream_options", "metadata", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "user", "safety_identifier",
	"previous_response_id", "background", "store", "container", "mcp_servers", "generationConfig", "candidateCount", "service_tier",
	"tools", "tool_choice", "toolConfig", "parallel_tool_calls", "web_search_options", "plugins", "conversation", "prompt", "cachedContent", "cached_content",
	"messages", "system", "input", "contents", "systemInstruction", "system_instruction", "instructions", "thinking",
}

// parse parses an object. A repeated field is ErrInvalid: the API might use the other
// value.
func parse(b []byte) (*body, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("%w: the body: it must be a JSON object", atoll.ErrInvalid)
	}
	o := &body{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: the body: %w", atoll.ErrInvalid, err)
		}
		name, _ := t.(string)
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%w: the body: %s: %w", atoll.ErrInvalid, name, err)
		}
		if slices.Contains(o.names, name) {
			return nil, fmt.Errorf("%w: %s: it is there twice", atoll.ErrInvalid, name)
		}
		if i := slices.IndexFunc(checkedFields, func(g string) bool { return g != name && strings.EqualFold(g, name) }); i >= 0 {
			return nil, fmt.Errorf("%w: %s: it is spelled %s", atoll.ErrInvalid, name, checkedFields[i])
		}
		if len(o.names) >= maxFields {
			return nil, fmt.Errorf("%w: the body: it has more than %d fields", atoll.ErrInvalid, maxFields)
		}
		o.names, o.values = append(o.names, name), append(o.values, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: the body: %w", atoll.ErrInvalid, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: the body: more follows the object", atoll.ErrInvalid)
	}
	return o, nil
}

const maxFields = 200

// get decodes a field into v; a missing field, or another type, leaves v unchanged.
func (o *body) get(name string, v any) {
	if i := slices.Index(o.names, name); i >= 0 {
		_ = json.Unmarshal(o.values[i], v) // the API reports errors
	}
}

// set sets a field.
func (o *body) set(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if i := slices.Index(o.names, name); i >= 0 {
		o.values[i] = b
		return nil
	}
	o.names, o.values = append(o.names, name), append(o.values, b)
	return nil
}

// maxOutput returns the requested limit of output tokens; 0: there is none.
func (o *body) maxOutput() int64 {
	n := int64(0)
	for _, name := range outputFields {
		o.get(name, &n)
	}
	config := struct{ MaxOutputTokens int64 }{}
	o.get("generationConfig", &config)
	return max(n, config.MaxOutputTokens)
}

// lowerOutput lowers the requested limit of output tokens. It does nothing without a
// limit, and where thinking has a share of it.
func (o *body) lowerOutput(to int64) {
	if slices.Contains(o.names, "thinking") {
		return
	}
	for _, name := range outputFields {
		n := int64(0)
		if o.get(name, &n); n > to {
			_ = o.set(name, to) // can't fail for a number
		}
	}
}

// outputFields are the fields with the limit of output tokens.
var outputFields = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

func (o *body) removeField(name string) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.names, o.values = slices.Delete(o.names, i, i+1), slices.Delete(o.values, i, i+1)
	}
}

// encode returns the object as JSON, its fields in their order.
func (o *body) encode() []byte {
	n := 2
	for i := range o.names {
		n += len(o.names[i]) + len(o.values[i]) + 8
	}
	b := append(make([]byte, 0, n), '{')
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		k, _ := json.Marshal(name) // can't fail for a string
		b = append(append(append(b, k...), ':'), o.values[i]...)
	}
	return append(b, '}')
}
