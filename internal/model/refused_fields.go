package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// hostedFields are fields that make an API connect to other servers itself.
var hostedFields = []string{"mcp_servers", "container", "web_search_options", "plugins", "background"}

// storedFields are fields that refer to data stored by the API, which may belong to other
// users of the same key.
var storedFields = []string{"previous_response_id", "conversation", "prompt", "cachedContent", "cached_content"}

// clientToolTypes are the types of tools that a client runs; a type that ends with "_" is
// a prefix. The API may run tools of all other types.
var clientToolTypes = map[dialect.Name][]string{
	dialect.Anthropic: {"custom", "bash_", "text_editor_", "computer_", "memory_"},
	dialect.OpenAI:    {"function", "custom"},
	dialect.Responses: {"function", "custom", "namespace", "local_shell", "apply_patch", "tool_search"},
}

// refuseRemote refuses a body that makes the API fetch a URL, or refers to stored data.
func (c *Connector) refuseRemote(b []byte, o *body) error {
	if c.Hosted {
		return nil
	}
	for _, name := range storedFields {
		var v json.RawMessage
		if o.get(name, &v); len(v) > 0 && string(v) != "null" {
			return fmt.Errorf("%w: %s: what the API keeps may not be named here: send all of it", atoll.ErrInvalid, name)
		}
	}
	name, err := dialect.FindRemoteURL(b)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: %s: the API may not fetch URLs: send an image or a file as data", atoll.ErrInvalid, name)
	}
	return err
}

// refuseRemoteParts is refuseRemote for a decoded request.
func (c *Connector) refuseRemoteParts(parts []dialect.Part) error {
	for i := range parts {
		if c.Hosted {
			return nil
		}
		if parts[i].URL != "" {
			return fmt.Errorf("%w: url: the API may not fetch URLs: send an image or a file as data", atoll.ErrInvalid)
		}
		if err := c.refuseRemoteParts(parts[i].Parts); err != nil {
			return err
		}
	}
	return nil
}

// removeHostedTools removes tools that an API would run itself with its own network, which
// the sandbox may not have: searches, fetches, MCP servers.
func (c *Connector) removeHostedTools(api dialect.Name, o *body) error {
	if c.Hosted {
		return nil
	}
	for _, name := range hostedFields {
		o.removeField(name)
	}
	tier := ""
	if o.get("service_tier", &tier); tier != "default" && tier != "auto" {
		o.removeField("service_tier")
	}
	left, err := clientTools(api, o)
	if err != nil {
		return err
	}
	if left == 0 {
		for _, name := range []string{"tools", "tool_choice", "toolConfig", "tool_config", "parallel_tool_calls"} {
			o.removeField(name)
		}
	}
	return nil
}

// clientTools keeps only the tools that the client runs, and returns their number; -1:
// the object has no tools.
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
		k, err := keepClientTool(api, t)
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

// keepClientTool returns the part of a tool that the client runs; nil: there is none. A
// tool whose fields could have another meaning for the API is ErrInvalid.
func keepClientTool(api dialect.Name, tool json.RawMessage) (json.RawMessage, error) {
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
		return keepGeminiFunctions(o), nil
	}
	kind := ""
	if i := slices.Index(o.names, "type"); i >= 0 && json.Unmarshal(o.values[i], &kind) != nil {
		return nil, nil
	}
	switch {
	case kind == "" && api == dialect.Anthropic:
		return tool, nil
	case !slices.ContainsFunc(clientToolTypes[api], func(s string) bool { return s == kind || strings.HasSuffix(s, "_") && strings.HasPrefix(kind, s) }):
		return nil, nil
	case kind != "namespace":
		return tool, nil
	}
	if n, err := clientTools(api, o); err != nil || n == 0 {
		return nil, err
	}
	return o.encode(), nil
}

// keepGeminiFunctions keeps only the functions of a tool.
func keepGeminiFunctions(o *body) json.RawMessage {
	for _, name := range slices.Clone(o.names) {
		if name != "functionDeclarations" && name != "function_declarations" {
			o.removeField(name)
		}
	}
	if len(o.names) == 0 {
		return nil
	}
	return o.encode()
}
