// Package dialect reads and writes the formats of model APIs: Anthropic messages, OpenAI
// chat completions and responses, Gemini generateContent. Each is decoded to and encoded
// from one common form, whole or as a stream, so that each can be translated to any other.
package dialect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/atoll-sandbox/atoll"
)

// Name names a dialect.
type Name string

// The dialects.
const (
	Anthropic Name = "anthropic" // POST /v1/messages
	OpenAI    Name = "openai"    // POST /v1/chat/completions
	Responses Name = "responses" // POST /v1/responses
	Gemini    Name = "gemini"    // POST /v1beta/models/M:generateContent, :streamGenerateContent
)

// Role is the author of a message.
type Role string

// The roles. A tool's result is a part of a user's message.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Request is a request to a model.
type Request struct {
	Model        string
	Messages     []Message // including those of the system
	Tools        []Tool
	ToolChoice   string // "" auto, "none", "required", or a tool's name
	MaxTokens    int    // 0: the dialect's default
	Temperature  *float64
	TopP         *float64
	Stop         []string
	Stream       bool
	ThinkTokens  int             // tokens for thinking; 0: not set
	Effort       string          // of thinking: "low", "medium", "high"…
	TopK         int             // 0: not set
	SingleTool   bool            // at most one tool call in an answer
	Schema       json.RawMessage // of the answer; nil: none
	User         string          // end user's name
	IncludeUsage bool            // OpenAI: a stream ends with its usage
	Metadata     map[string]string
}

// Message is a message of a conversation.
type Message struct {
	Role  Role
	Parts []Part
}

// Part is a part of a message. Type determines the used fields.
type Part struct {
	Type PartType

	Text      string // Text, Thinking
	MediaType string // Image, File: its media type
	Data      []byte // Image, File
	URL       string // Image, File, instead of Data
	Name      string // File; ToolUse: the tool

	ID     string          // ToolUse, ToolResult: of the call
	Input  json.RawMessage // ToolUse: a JSON object
	Parts  []Part          // ToolResult: text and images
	Failed bool            // ToolResult

	// Signature must be returned unchanged with Thinking, and with ToolUse to
	// Gemini. A signature of another dialect than Anthropic's has the prefix of
	// the dialect's name; other dialects drop it.
	Signature string
}

// PartType is the type of a part.
type PartType string

// The types of parts.
const (
	TextPart     PartType = "text"
	ThinkingPart PartType = "thinking"
	ImagePart    PartType = "image"
	FilePart     PartType = "file"
	ToolUse      PartType = "tool_use"
	ToolResult   PartType = "tool_result"
)

// Tool is a tool that a model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // of its input
	Namespace   string          // Responses: namespace of the name
	FreeText    bool            // Responses: its input is a text, here {"input": text}
}

// Stop is the reason why a model stopped.
type Stop string

// The reasons.
const (
	StopEnd     Stop = "end"
	StopTool    Stop = "tool"
	StopLength  Stop = "length"
	StopText    Stop = "stop" // one of Request.Stop
	StopRefused Stop = "refused"
)

// Usage is the usage of a request, in tokens; Input does not include the cache.
type Usage struct{ Input, Output, CacheRead, CacheWrite int64 }

// Response is a model's answer.
type Response struct {
	ID    string
	Model string
	Parts []Part
	Stop  Stop
	Usage Usage
}

// Delta is a part of a streamed answer. Type determines the used fields.
type Delta struct {
	Type DeltaType

	ID    string // Begin: of the response; ToolBegin: of the call
	Model string // Begin
	Name  string // ToolBegin
	Text  string // TextDelta, ThinkingDelta; ToolDelta: more JSON of the input; ThinkingEnd, ToolBegin: the signature
	Stop  Stop   // End
	Usage Usage  // UsageTold, End: all so far
	Err   *Error // Failed
}

// DeltaType is the type of a delta.
type DeltaType string

// The types of deltas. Blocks do not overlap: a new one ends the previous one.
const (
	Begin         DeltaType = "begin"
	TextDelta     DeltaType = "text"
	ThinkingDelta DeltaType = "thinking"
	ThinkingEnd   DeltaType = "thinking.end"
	ToolBegin     DeltaType = "tool"
	ToolDelta     DeltaType = "tool.input"
	UsageReported DeltaType = "usage"
	End           DeltaType = "end"
	Failed        DeltaType = "failed" // only written: readers return the error
)

// Error is an error of a model API.
type Error struct {
	Status     int    // HTTP status
	Code       string // "authentication", "permission", "invalid_request", "not_found", "rate_limit", "overloaded", "budget", "internal", "timeout"
	Message    string
	RetryAfter int // seconds until a retry; 0: unknown
}

func (e *Error) Error() string { return fmt.Sprintf("model: %d %s: %s", e.Status, e.Code, e.Message) }

// Unwrap returns the matching error of atoll.
func (e *Error) Unwrap() error {
	switch e.Code {
	case "budget":
		return atoll.ErrQuota
	case "authentication", "permission":
		return atoll.ErrDenied
	case "invalid_request":
		return atoll.ErrInvalid
	case "not_found":
		return atoll.ErrNotFound
	case "timeout":
		return atoll.ErrTimeout
	}
	return atoll.ErrUnavailable
}

// Dialect reads and writes the format of one API.
type Dialect interface {
	Name() Name

	// ReadRequest decodes a client's request. Errors in it are ErrInvalid, with
	// the field named.
	ReadRequest(r *http.Request, body []byte) (*Request, error)
	// WriteResponse writes a whole answer to a client.
	WriteResponse(w http.ResponseWriter, q *Request, a *Response) error
	// NewWriter returns a writer that streams an answer to a client.
	NewWriter(w http.ResponseWriter, q *Request) Writer
	// WriteError writes an error to a client, in the format of the API.
	WriteError(w http.ResponseWriter, e *Error)

	// NewRequest returns a request for q to the API at base
	// ("https://api.example.com/v1", or without the version), with the key in the
	// API's header.
	NewRequest(base, key string, q *Request) (*http.Request, error)
	// ReadResponse decodes an answer that is not a stream, or an error, which
	// is an *Error.
	ReadResponse(r *http.Response) (*Response, error)
	// ReadStream calls f for each delta of an answer, until its end; a truncated
	// answer is an error.
	ReadStream(r io.Reader, f func(Delta) error) error
}

// Writer streams an answer.
type Writer interface {
	Write(d Delta) error // flushed
}

// Of returns the dialect with a name; an unknown name is ErrInvalid.
func Of(n Name) (Dialect, error) {
	switch n {
	case Anthropic:
		return anthropic{}, nil
	case OpenAI:
		return openai{}, nil
	case Responses:
		return responses{}, nil
	case Gemini:
		return gemini{}, nil
	}
	return nil, fmt.Errorf("%w: dialect %q; known are anthropic, openai, responses and gemini", atoll.ErrInvalid, n)
}
