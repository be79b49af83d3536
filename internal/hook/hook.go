// Package hook runs users' JavaScript and TypeScript before and after a turn,
// within bounds of memory and time.
package hook

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Script is a compiled file of hooks. It may be used by many goroutines at once.
type Script struct {
	name      string
	code      string
	lines     *sourceMap
	functions []string
	slots     chan struct{} // a token for each call under way
}

// atOnce is how many calls of one script run at once; others wait.
const atOnce = 32

// Has reports whether the script has a function of that name: "Create", "Next".
func (s *Script) Has(function string) bool { return slices.Contains(s.functions, function) }

// Functions returns the names of the functions that the script has.
func (s *Script) Functions() []string { return slices.Clone(s.functions) }

// Scope is what a hook sees as ctx, besides the plain Values.
type Scope struct {
	Values map[string]any // fields of ctx: chat_id, assistant_id, authorized, locale, metadata…

	// Sandbox is ctx.sandbox, ctx.computer and ctx.workspace; relative paths are
	// beneath Dir. Nil: those are not there.
	Sandbox atoll.Sandbox
	Dir     string // empty: the sandbox's own

	Output  Output  // nil: what is sent is dropped
	Memory  Memory  // nil: one for this call
	Process Process // nil: none
	Log     *slog.Logger
	Limits  Limits
}

// Output is where ctx.Send and its likes go.
type Output interface {
	// Message takes a message: {"type":"text","props":{"content":"…"}}. op is
	// "send" (whole), "stream" (begun), "append", "merge", "replace", "end";
	// with "end" the message may be nil. It returns the message's id, made if
	// id is empty.
	Message(ctx context.Context, op, id string, message json.RawMessage) (string, error)
}

// Memory keeps values; space is "user", "team", "chat", "context".
type Memory interface {
	Get(ctx context.Context, space, key string) (json.RawMessage, error) // nil: none
	Set(ctx context.Context, space, key string, value json.RawMessage, ttl time.Duration) error
	Delete(ctx context.Context, space, key string) error
	Keys(ctx context.Context, space string) ([]string, error)
}

// Process calls a process of the host, as Process("name", …) does.
type Process func(ctx context.Context, name string, args []any) (any, error)

// Limits bound a call of a hook.
type Limits struct {
	Memory int64         // bytes; 0: 64 MiB
	Time   time.Duration // of the script itself, not what it waits for; 0: 5 s
	Total  time.Duration // with what it waits for; 0: 5 min
}

// effective returns the limits with defaults filled in.
func (l Limits) effective() Limits {
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

// What one call of a hook may do, besides its Limits.
const (
	maxArgs     = 32 << 20 // bytes of ctx and arguments, as JSON
	maxResult   = 16 << 20 // bytes of what it returns, as JSON
	maxRead     = 16 << 20 // bytes of a file that it reads
	maxExec     = 4 << 20  // bytes of each output stream of a command
	maxChunk    = 64 << 10 // bytes of output that a callback gets at once
	maxMessage  = 1 << 20  // bytes of a message that it sends
	maxMessages = 10_000
	maxValue    = 1 << 20  // bytes of a value in its memory
	maxKey      = 1 << 10  // bytes of a key
	maxKeys     = 10_000   // of a memory for this call
	maxLogLines = 1000     // that are logged; what comes after is counted
	maxLogLine  = 8 << 10  // bytes
	maxStack    = 16 << 10 // bytes of a stack that is told
	maxStreams  = 16       // commands whose output flows, at once
)

// Thrown is what a hook threw: the request is rejected.
type Thrown struct {
	Message string
	Stack   string
	Value   json.RawMessage // nil: an Error
}

func (t *Thrown) Error() string { return t.Message }
