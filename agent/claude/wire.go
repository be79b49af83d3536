package claude

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/agent/internal/jsonlines"
)

// line has the members that lines of all types share.
type line struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Parent  string `json:"parent_tool_use_id"`
	Request string `json:"request_id"`
}

// isUsableID reports whether an id is not empty and short enough to be remembered.
func isUsableID(id string) bool { return id != "" && len(id) <= maxID }

// maxID is the longest id, in bytes.
const maxID = 256

// initMessage is a line of type system and subtype init.
type initMessage struct {
	Version string   `json:"claude_code_version"`
	Model   string   `json:"model"`
	Tools   []string `json:"tools"`
	Skills  []string `json:"skills"`

	Capabilities []string `json:"capabilities"`

	MCP []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"mcp_servers"`
}

// systemMessage is a line of type system and another subtype.
type systemMessage struct {
	Status  json.RawMessage `json:"status"` // a string, or null
	Content string          `json:"content"`
	Message string          `json:"message"`
	ToolID  string          `json:"tool_use_id"`
	Tool    string          `json:"tool_name"`
	TaskID  string          `json:"task_id"`
	Tasks   json.RawMessage `json:"tasks"`
	Behind  bool            `json:"is_backgrounded"`

	Attempt int     `json:"attempt"`
	Code    int     `json:"error_status"`
	Error   string  `json:"error"`
	Delay   float64 `json:"retry_delay_ms"`
}

// message is a line of type assistant or user.
type message struct {
	Message struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"` // text, or blocks
	} `json:"message"`
	Error   json.RawMessage `json:"error"` // a string; set in messages that are not from the model
	APIType string          `json:"api_error_type"`
	Status  int             `json:"api_error_status"`

	Result json.RawMessage `json:"tool_use_result"`
	Meta   []struct {
		ID       string `json:"id"`
		Kept     string `json:"non_execution_kind"`
		Decision struct {
			Decision string `json:"decision"`
		} `json:"permission_decision"`
	} `json:"tool_result_meta"`
}

// block is a part of a message.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	ToolID   string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"` // text, or blocks
	IsError  bool            `json:"is_error"`
}

// streamEvent is an event of the model's stream, forwarded by the agent.
type streamEvent struct {
	Event struct {
		Type    string `json:"type"`
		Message struct {
			ID string `json:"id"`
		} `json:"message"`
		Delta struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
		} `json:"delta"`
	} `json:"event"`
}

// resultMessage is a line of type result.
type resultMessage struct {
	Subtype    string                `json:"subtype"`
	IsError    bool                  `json:"is_error"`
	Reason     string                `json:"terminal_reason"`
	Stop       string                `json:"stop_reason"`
	Result     string                `json:"result"`
	Errors     []string              `json:"errors"`
	Status     int                   `json:"api_error_status"`
	APIError   string                `json:"api_error"`
	Structured json.RawMessage       `json:"structured_output"`
	Queued     int                   `json:"queued_turn_count"`
	Cost       float64               `json:"total_cost_usd"` // of the session or of the process, depending on the version
	Usage      *apiUsage             `json:"usage"`
	Since      map[string]modelUsage `json:"model_usage_since_last_result"`
	Denials    []struct {
		Name  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

// apiUsage is the token usage as the model's API reports it.
type apiUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

// modelUsage is the usage of one model as the agent reports it.
type modelUsage struct {
	Input      int64   `json:"inputTokens"`
	Output     int64   `json:"outputTokens"`
	CacheRead  int64   `json:"cacheReadInputTokens"`
	CacheWrite int64   `json:"cacheCreationInputTokens"`
	Cost       float64 `json:"costUSD"`
}

// permissionRequest is a line of type control_request.
type permissionRequest struct {
	Request struct {
		Subtype     string          `json:"subtype"`
		Tool        string          `json:"tool_name"`
		ToolID      string          `json:"tool_use_id"`
		Input       json.RawMessage `json:"input"`
		Description string          `json:"description"`
		Suggestions []struct {
			Type     string          `json:"type"`
			Behavior string          `json:"behavior"`
			Rules    json.RawMessage `json:"rules"`
		} `json:"permission_suggestions"`
	} `json:"request"`
}

// parseBlocks returns the blocks of a message; a plain string is one text block.
func parseBlocks(content json.RawMessage) []block {
	var text string
	if json.Unmarshal(content, &text) == nil && text != "" {
		return []block{{Type: "text", Text: text}}
	}
	var list []json.RawMessage
	jsonlines.Decode(content, &list)
	parts := make([]block, 0, len(list))
	for _, raw := range list {
		var b block
		if jsonlines.Decode(raw, &b) {
			parts = append(parts, b)
		}
	}
	return parts
}

// stringValue returns the value of a JSON string, and "" for other JSON.
func stringValue(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// rawJSON returns a line as JSON: itself if it is valid JSON, else a string of it.
func rawJSON(line []byte) json.RawMessage {
	if json.Valid(line) && utf8.Valid(line) {
		return append(json.RawMessage(nil), line...)
	}
	b, err := json.Marshal(strings.ToValidUTF8(string(line), "\uFFFD"))
	if err != nil {
		return json.RawMessage(`""`)
	}
	return b
}
