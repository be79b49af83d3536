// Package hook runs users' JavaScript and TypeScript before and after a turn, with
// limits of memory and time.
package hook

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Script is a compiled file of hooks. It is safe for concurrent use.
type Script struct {
	name      string
	code      string
	lines     *sourceMap
	functions []string
	slots     chan struct{} // holds a token for each running call
}

// maxConcurrent is the number of concurrent calls of one script; others wait.
const maxConcurrent = 32

// HasFunction reports whether the script has a function of that name: "Create", "Next".
func (s *Script) HasFunction(function string) bool { return slices.Contains(s.functions, function) }

// Functions returns the names of the script's functions.
func (s *Script) Functions() []string { return slices.Clone(s.functions) }

// Scope is the content of a hook's ctx.
type Scope struct {
	Values map[string]any // fields of ctx: chat_id, assistant_id, authorized, locale, metadata…

	// Sandbox is ctx.sandbox, ctx.computer and ctx.workspace; relative paths are
	// beneath Dir. Nil: ctx has none of them.
	Sandbox atoll.Sandbox
	Dir     string // empty: the sandbox's own

	Output  Output  // nil: messages are dropped
	Memory  Memory  // nil: a memory for this call
	Process Process // nil: none
	Log     *slog.Logger
	Limits  Limits
}

// Output receives the messages of ctx.Send and its variants.
type Output interface {
	// Message handles a message: {"type":"text","props":{"content":"…"}}. op is
	// "send" (whole), "stream" (first part), "append", "merge", "replace", "end";
	// with "end" the message may be nil. It returns the message's id, a new one if
	// id is empty.
	Message(ctx context.Context, op, id string, message json.RawMessage) (string, error)
}

// Memory stores values; space is "user", "team", "chat" or "context".
type Memory interface {
	Get(ctx context.Context, space, key string) (json.RawMessage, error) // nil: none
	Set(ctx context.Context, space, key string, value json.RawMessage, ttl time.Duration) error
	Delete(ctx context.Context, space, key string) error
	Keys(ctx context.Context, space string) ([]string, error)
}

// Process calls a process of the host, as Process("name", …) does.
type Process func(ctx context.Context, name string, args []any) (any, error)

// Limits limit a call of a hook.
type Limits struct {
	Memory int64         // bytes; 0: 64 MiB
	Time   time.Duration // of the script itself, without waiting; 0: 5 s
	Total  time.Duration // including waiting; 0: 5 min
}

// withDefaults returns the limits with defaults for zero fields.
func (l Limits) withDefaults() Limits {
	if l.Memory <= 0 {
		l.Memory = 64 << 20
	}
	if l.Time <= 0 {
		l.Time = 5 * time.Second
	}
	if l.Total <= 0 {
		l.Total = 5 * time.Minute
	}
	return l
}

// Limits of one call of a hook, besides its Limits.
const (
	maxArgs     = 32 << 20 // bytes of ctx and arguments, as JSON
	maxResult   = 16 << 20 // bytes of the returned value, as JSON
	maxRead     = 16 << 20 // bytes of a file that it reads
	maxExec     = 4 << 20  // bytes of each output stream of a command
	maxChunk    = 64 << 10 // bytes of output passed to a callback at once
	maxMessage  = 1 << 20  // bytes of a message
	maxMessages = 10_000
	maxValue    = 1 << 20  // bytes of a value in its memory
	maxKey      = 1 << 10  // bytes of a key
	maxKeys     = 10_000   // in a memory for one call
	maxLogLines = 1000     // logged lines; later ones are counted
	maxLogLine  = 8 << 10  // bytes
	maxStack    = 16 << 10 // bytes of a reported stack
	maxStreams  = 16       // concurrent streaming commands
)

// ThrownError is an exception that a hook threw: the request is rejected.
type ThrownError struct {
	Message string
	Stack   string
	Value   json.RawMessage // nil: an Error
}

func (t *ThrownError) Error() string { return t.Message }
