package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// refusedParameters are the parameters of vendor APIs that assistants can't honour, with the values that mean
// nothing. An answer that silently ignored one would not be what the client has asked for.
var refusedParameters = map[dialect.Name]map[string][]string{
	dialect.OpenAI: {
		"seed": nil, "logit_bias": {"{}"}, "logprobs": {"false"}, "top_logprobs": {"0"}, "frequency_penalty": {"0", "0.0"}, "presence_penalty": {"0", "0.0"},
		"audio": nil, "prediction": nil, "web_search_options": nil, "modalities": {`["text"]`}, "n": {"1"},
	},
	dialect.Anthropic: {"container": nil, "mcp_servers": {"[]"}},
}

// knownParts are the types of content parts that assistants take.
var knownParts = map[dialect.Name][]string{
	dialect.OpenAI:    {"text", "refusal", "image_url", "file"},
	dialect.Anthropic: {"text", "thinking", "redacted_thinking", "image", "document", "tool_use", "tool_result", "search_result"},
}

// checkParameters returns an error that names a parameter, or the type of a part, that can't be honoured.
func checkParameters(name dialect.Name, body []byte) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil // the dialect explains what is wrong
	}
	for field, neutral := range refusedParameters[name] {
		v, ok := fields[field]
		if !ok {
			continue
		}
		var text bytes.Buffer
		if json.Compact(&text, v) == nil && text.String() != "null" && !slices.Contains(neutral, text.String()) {
			return newRequestError(http.StatusBadRequest, "%s: assistants do not support this parameter; leave it out", field)
		}
	}
	var messages []struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(fields["messages"], &messages) != nil {
		return nil // likewise
	}
	for i, m := range messages {
		if err := checkPartTypes(fmt.Sprintf("messages[%d].content", i), m.Content, knownParts[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkPartTypes checks the types of the parts of a message.
func checkPartTypes(at string, content json.RawMessage, known []string) error {
	var parts []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return nil // it is a text, or the dialect explains what is wrong
	}
	for i, p := range parts {
		if p.Type != "" && !slices.Contains(known, p.Type) {
			return newRequestError(http.StatusBadRequest, "%s[%d].type: %q is not supported; it must be one of %v", at, i, shorten(p.Type), known)
		}
	}
	return nil
}
