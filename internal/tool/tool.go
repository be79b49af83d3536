// Package tool offers processes of the host to agents, as tools of the Model
// Context Protocol: Go functions, commands, HTTP calls, and the tools of other
// servers. A request sees only what it may call.
package tool

import (
	"context"
	"encoding/json"

	"github.com/atoll-sandbox/atoll"
)

// Who calls.
type Who struct {
	Owner     atoll.Owner
	Chat      string
	Assistant string
	Turn      string
}

// Tool is what an agent may call.
type Tool struct {
	Server      string // that it is listed under; the agent sees tools of all servers in one list
	Name        string
	Description string
	Schema      json.RawMessage // of its input; nil: any object

	// Foreign says that who answers checks the input too: a schema that can't
	// be understood here is passed on, not refused.
	Foreign bool

	// Call does it, and returns when ctx is done. An *Error is told to the
	// model as a failure of the tool; any other error is told as "it failed",
	// with the error itself only in the Event. It may take as long as it
	// needs: who waits is told that it is still at work.
	Call func(ctx context.Context, c Call) (Result, error)
}

// Call is one use of a tool.
type Call struct {
	Who   Who
	Input json.RawMessage // an object that follows the schema

	// Progress tells who waits how far it is; total 0: nobody knows. It never
	// blocks, and is never nil.
	Progress func(done, total float64, message string)
}

// Result is what a tool answers.
type Result struct {
	Text       string
	Structured any // nil: none; what is no object in JSON is told as text
	Images     []Image
	Failed     bool // the tool went wrong, and Text says how
}

// Image is a picture.
type Image struct {
	Type string // its media type
	Data []byte
}

// Error is a failure that the model may read.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Event tells of a call, for audit.
type Event struct {
	Who    Who
	Server string
	Tool   string
	Err    string // empty: it went well; else all that is known, not for models
	Millis int64
}

// Func is a Go function as a process that tools may name.
type Func func(ctx context.Context, who Who, args []any) (any, error)

// Processes are the functions of the host, by name: "models.user.find".
type Processes map[string]Func
