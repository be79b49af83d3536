// Package dialect knows how model APIs speak: Anthropic messages, OpenAI chat
// completions and responses, Gemini generateContent. Each is read into and
// written from one form, whole or as a stream, so that any can answer for any.
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

// Role says who speaks.
type Role string

// The roles. A tool's result is a part of a user's message.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Request is a question to a model.
type Request struct {
	Model       string
	Messages    []Message // System among them
	Tools       []Tool
	ToolChoice  string // "" auto, "none", "required", or a tool's name
	MaxTokens   int    // 0: the dialect's default
	Temperature *float64
	TopP        *float64
	Stop        []string
	Stream      bool
	Think       int             // tokens for thinking; 0: none asked for
	Effort      string          // of thinking: "low", "medium", "high"…
	TopK        int             // 0: not said
	Serial      bool            // at most one call of a tool in an answer
	Schema      json.RawMessage // that the answer follows; nil: none
	User        string          // whom it is for
	TellUsage   bool            // OpenAI: a stream ends with what was used
	Metadata    map[string]string
}

// Message is one of a conversation.
type Message struct {
	Role  Role
	Parts []Part
}

// Part is a piece of a message: what Type says.
type Part struct {
	Type PartType

	Text  string // Text, Thinking
	Media string // Image, File: its media type
	Data  []byte // Image, File
	URL   string // Image, File that is elsewhere
	Name  string // File; ToolUse: the tool

	ID     string          // ToolUse, ToolResult: of the call
	Input  json.RawMessage // ToolUse: a JSON object
	Parts  []Part          // ToolResult: text and images
	Failed bool            // ToolResult

	// Signature is what must be given back unchanged with Thinking, and with
	// ToolUse to Gemini. That of another dialect than Anthropic's begins with
	// the dialect's name; others drop it.
	Signature string
}

// PartType says what a part is.
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

// Tool is what a model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // of its input
	Space       string          // Responses: the namespace that the name is in
	Free        bool            // Responses: its input is a text, here {"input": text}
}

// Stop says why a model stopped.
type Stop string

// The reasons.
const (
	StopEnd     Stop = "end"
	StopTool    Stop = "tool"
	StopLength  Stop = "length"
	StopText    Stop = "stop" // one of Request.Stop
	StopRefused Stop = "refused"
)

// Usage is what a request used, in tokens; those of the cache are not in Input.
type Usage struct{ Input, Output, CacheRead, CacheWrite int64 }

// Response is a model's answer.
type Response struct {
	ID    string
	Model string
	Parts []Part
	Stop  Stop
	Usage Usage
}

// Delta is a piece of an answer as it comes: what Type says.
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

// DeltaType says what a delta is.
type DeltaType string

// The types of deltas. Blocks don't overlap: what begins ends the one before.
const (
	Begin         DeltaType = "begin"
	TextDelta     DeltaType = "text"
	ThinkingDelta DeltaType = "thinking"
	ThinkingEnd   DeltaType = "thinking.end"
	ToolBegin     DeltaType = "tool"
	ToolDelta     DeltaType = "tool.input"
	UsageTold     DeltaType = "usage"
	End           DeltaType = "end"
	Failed        DeltaType = "failed" // only written: readers return the error
)

// Error is a model API's own error.
type Error struct {
	Status  int    // of HTTP
	Code    string // a word: "authentication", "permission", "invalid_request", "not_found", "rate_limit", "overloaded", "budget", "internal", "timeout"
	Message string
	Retry   int // seconds after which to try again; 0: not said
}

func (e *Error) Error() string { return fmt.Sprintf("model: %d %s: %s", e.Status, e.Code, e.Message) }

// Unwrap returns what kind of error of atoll it is.
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

// Dialect reads and writes one API.
type Dialect interface {
	Name() Name

	// ReadRequest reads what a client sends; its mistakes are ErrInvalid, with
	// the field named.
	ReadRequest(r *http.Request, body []byte) (*Request, error)
	// WriteResponse answers a client, whole.
	WriteResponse(w http.ResponseWriter, q *Request, a *Response) error
	// NewWriter answers a client as the answer comes.
	NewWriter(w http.ResponseWriter, q *Request) Writer
	// WriteError tells a client of an error, as the API would.
	WriteError(w http.ResponseWriter, e *Error)

	// NewRequest asks an API at base ("https://api.example.com/v1" or without
	// the version) for q; the key is put where the API wants it.
	NewRequest(base, key string, q *Request) (*http.Request, error)
	// ReadResponse reads an answer that is not a stream, or an error, which
	// is an *Error.
	ReadResponse(r *http.Response) (*Response, error)
	// ReadStream calls f for each piece of an answer, until its end; an answer
	// cut short is an error.
	ReadStream(r io.Reader, f func(Delta) error) error
}

// Writer writes an answer as it comes.
type Writer interface {
	Write(d Delta) error // flushed
}

// Of returns the dialect of a name; one that is not known is ErrInvalid.
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
