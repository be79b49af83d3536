package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/dialect"
)

// hostedFields are those of a body that make an API reach out by itself.
var hostedFields = []string{"mcp_servers", "container", "web_search_options", "plugins", "background"}

// keptFields are those of a body that name what an API keeps, which may be
// anybody's who has the same key.
var keptFields = []string{"previous_response_id", "conversation", "prompt", "cachedContent", "cached_content"}

// own are the tools that a client runs, by their types, or the beginnings of
// them that end with "_"; all others an API may run.
var own = map[dialect.Name][]string{
	dialect.Anthropic: {"custom", "bash_", "text_editor_", "computer_", "memory_"},
	dialect.OpenAI:    {"function", "custom"},
	dialect.Responses: {"function", "custom", "namespace", "local_shell", "apply_patch", "tool_search"},
}

// alone refuses a body that has the API fetch something, or name what it keeps.
func (c *Connector) alone(b []byte, o *body) error {
	if c.Hosted {
		return nil
	}
	for _, name := range keptFields {
		var v json.RawMessage
		if o.get(name, &v); len(v) > 0 && string(v) != "null" {
			return fmt.Errorf("%w: %s: what the API keeps may not be named here: send all of it", atoll.ErrInvalid, name)
		}
	}
	name, err := dialect.Reaches(b)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: %s: the API may not fetch from elsewhere here: send a picture or a file as data", atoll.ErrInvalid, name)
	}
	return err
}

// aloneOf is alone for a request that was read.
func (c *Connector) aloneOf(parts []dialect.Part) error {
	for i := range parts {
		if c.Hosted {
			return nil
		}
		if parts[i].URL != "" {
			return fmt.Errorf("%w: url: the API may not fetch from elsewhere here: send a picture or a file as data", atoll.ErrInvalid)
		}
		if err := c.aloneOf(parts[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

// unhost takes out of a body what an API would run itself, with a network that
// the one who asks may not have: searches, fetches, servers of tools.
func (c *Connector) unhost(api dialect.Name, o *body) error {
	if c.Hosted {
		return nil
	}
	for _, name := range hostedFields {
		o.remove(name)
	}
	tier := ""
	if o.get("service_tier", &tier); tier != "default" && tier != "auto" {
		o.remove("service_tier")
	}
	left, err := clientTools(api, o)
	if err != nil {
		return err
	}
	if left == 0 {
		for _, name := range []string{"tools", "tool_choice", "toolConfig", "tool_config", "parallel_tool_calls"} {
			o.remove(name)
		}
	}
	return nil
}

// clientTools leaves the tools in an object that the client runs. It returns
// how many; -1: there were none before.
func clientTools(api dialect.Name, o *body) (int, error) {
	i := slices.Index(o.names, "tools")
	if i < 0 || string(o.values[i]) == "null" {
		return -1, nil
	}
	var tools, keep []json.RawMessage
	if err := json.Unmarshal(o.values[i], &tools); err != nil {
		return 0, fmt.Errorf("%w: tools: it must be a list", atoll.ErrInvalid)
	}
	if len(tools) == 0 {
		return -1, nil
	}
	for _, t := range tools {
		k, err := kept(api, t)
		if err != nil {
			return 0, fmt.Errorf("tools: %w", err)
		}
		if k != nil {
			keep = append(keep, k)
		}
	}
	if slices.EqualFunc(tools, keep, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return len(keep), nil
	}
	return len(keep), o.set("tools", keep)
}

// kept is what of a tool the client runs; nil: nothing. A tool whose fields
// could mean something else to the API is ErrInvalid.
func kept(api dialect.Name, tool json.RawMessage) (json.RawMessage, error) {
	o, err := parse(tool)
	if err != nil {
		return nil, err
	}
	for i, name := range o.names {
		if strings.EqualFold(name, "type") && name != "type" || slices.ContainsFunc(o.names[:i], func(s string) bool { return strings.EqualFold(s, name) }) {
			return nil, fmt.Errorf("%w: %s: it is there twice, or in another case", atoll.ErrInvalid, name)
		}
	}
	if api == dialect.Gemini {
		return keptOfGemini(o), nil
	}
	kind := ""
	if i := slices.Index(o.names, "type"); i >= 0 && json.Unmarshal(o.values[i], &kind) != nil {
		return nil, nil
	}
	switch {
	case kind == "" && api == dialect.Anthropic:
		return tool, nil
	case !slices.ContainsFunc(own[api], func(s string) bool { return s == kind || strings.HasSuffix(s, "_") && strings.HasPrefix(kind, s) }):
		return nil, nil
	case kind != "namespace":
		return tool, nil
	}
	if n, err := clientTools(api, o); err != nil || n == 0 {
		return nil, err
	}
	return o.bytes(), nil
}

// keptOfGemini keeps the functions of a tool.
func keptOfGemini(o *body) json.RawMessage {
	for _, name := range slices.Clone(o.names) {
		if name != "functionDeclarations" && name != "function_declarations" {
			o.remove(name)
		}
	}
	if len(o.names) == 0 {
		return nil
	}
	return o.bytes()
}
