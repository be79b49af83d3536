package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// body is a JSON object whose fields are looked at and set without touching the
// others.
type body struct {
	names  []string
	values []json.RawMessage
}

// governed are the fields that the endpoint decides by; spelled otherwise they
// could mean something to the API and nothing here.
var governed = []string{
	"model", "stream", "stream_options", "metadata", "max_tokens", "max_completion_tokens", "max_output_tokens", "n", "user", "safety_identifier",
	"previous_response_id", "background", "store", "container", "mcp_servers", "generationConfig", "candidateCount", "service_tier",
	"tools", "tool_choice", "toolConfig", "parallel_tool_calls", "web_search_options", "plugins", "conversation", "prompt", "cachedContent", "cached_content",
	"messages", "system", "input", "contents", "systemInstruction", "system_instruction", "instructions", "thinking",
}

// parse reads an object. One that names a field twice is ErrInvalid: the API
// might believe the other.
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
		if i := slices.IndexFunc(governed, func(g string) bool { return g != name && strings.EqualFold(g, name) }); i >= 0 {
			return nil, fmt.Errorf("%w: %s: it is spelled %s", atoll.ErrInvalid, name, governed[i])
		}
		if len(o.names) >= mostFields {
			return nil, fmt.Errorf("%w: the body: it has more than %d fields", atoll.ErrInvalid, mostFields)
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

const mostFields = 200

// get reads a field into v; one that is not there, or not of v's type, leaves it.
func (o *body) get(name string, v any) {
	if i := slices.Index(o.names, name); i >= 0 {
		_ = json.Unmarshal(o.values[i], v) // the API will tell
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

// most is how much output is asked for, in tokens; 0: it is not said.
func (o *body) most() int64 {
	n := int64(0)
	for _, name := range outputs {
		o.get(name, &n)
	}
	config := struct{ MaxOutputTokens int64 }{}
	o.get("generationConfig", &config)
	return max(n, config.MaxOutputTokens)
}

// lower lowers how much output is asked for to what there is; where it is not
// said, and where thoughts have a share of it, it stays.
func (o *body) lower(to int64) {
	if slices.Contains(o.names, "thinking") {
		return
	}
	for _, name := range outputs {
		n := int64(0)
		if o.get(name, &n); n > to {
			_ = o.set(name, to) // a number is always written
		}
	}
}

// outputs are the names of what bounds an answer.
var outputs = []string{"max_tokens", "max_completion_tokens", "max_output_tokens"}

func (o *body) remove(name string) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.names, o.values = slices.Delete(o.names, i, i+1), slices.Delete(o.values, i, i+1)
	}
}

// bytes writes the object, fields in their order.
func (o *body) bytes() []byte {
	n := 2
	for i := range o.names {
		n += len(o.names[i]) + len(o.values[i]) + 8
	}
	b := append(make([]byte, 0, n), '{')
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		k, _ := json.Marshal(name) // a string is always written
		b = append(append(append(b, k...), ':'), o.values[i]...)
	}
	return append(b, '}')
}
