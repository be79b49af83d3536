// Package tool offers functions of the host to agents, as tools of the Model Context
// Protocol: Go functions, commands, HTTP calls, and the tools of other servers. A
// request lists only the tools that it may call.
package tool

import (
	"context"
	"encoding/json"

	"github.com/atoll-sandbox/atoll"
)

// Caller identifies the turn that calls a tool.
type Caller struct {
	Owner     atoll.Owner
	Chat      string
	Assistant string
	Turn      string
}

// Tool is a tool that an agent may call.
type Tool struct {
	Server      string // server that it belongs to; an agent sees the tools of all servers in one list
	Name        string
	Description string
	Schema      json.RawMessage // of its input; nil: any object

	// ServerValidates means that the tool's server checks the input too: a schema that
	// can't be compiled here is passed on, not refused.
	ServerValidates bool

	// Call runs the tool and returns when ctx is done. The model reads the text of
	// an *Error; for any other error it reads only that the tool failed, and the
	// error itself is in the Event. Call may take as long as it needs: the client
	// is notified that it still runs.
	Call func(ctx context.Context, c Call) (Result, error)
}

// Call is one call of a tool.
type Call struct {
	Caller Caller
	Input  json.RawMessage // an object that matches the schema

	// Progress reports progress to the client; total 0: unknown. It never
	// blocks, and is never nil.
	Progress func(done, total float64, message string)
}

// Result is the result of a tool.
type Result struct {
	Text       string
	Structured any // nil: none; a value that is no JSON object is returned as text
	Images     []Image
	Failed     bool // the tool failed, and Text explains it
}

// Image is an image.
type Image struct {
	Type string // its media type
	Data []byte
}

// Error is a failure with a text for the model.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Event reports a call, for the audit log.
type Event struct {
	Caller Caller
	Server string
	Tool   string
	Err    string // empty: success; else the whole error, which models do not see
	Millis int64
}

// Func is a Go function that tools may call by name.
type Func func(ctx context.Context, who Caller, args []any) (any, error)

// Processes are the functions of the host, by name: "models.user.find".
type Processes map[string]Func
