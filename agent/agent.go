// Package agent runs coding agents, such as Claude Code, in sandboxes.
//
// An [Agent] consists of pure functions, implemented in the packages below this
// one: the files to place, the command to run and the protocol of its streams.
// [Run] runs one turn, [StartSession] a conversation of several. Both work with
// every driver and need no server.
package agent

// Agent is a coding CLI. Its methods do no I/O and are safe for concurrent use.
type Agent interface {
	// Name returns the agent's name: "claude", "codex"…
	Name() string

	// Features returns what the agent can do.
	Features() Features

	// Plan returns the files to place and the command to run for a turn. It
	// returns ErrInvalid or ErrUnsupported, with every reason named, for a turn
	// that the agent can't run.
	Plan(t *Turn, at Environment) (*Plan, error)

	// NewConversation returns the protocol state for a process of such a plan.
	NewConversation(t *Turn, at Environment) Conversation
}

// Features are the abilities and needs of an agent.
type Features struct {
	Approvals bool `json:"approvals"` // requests permission before it uses a tool, if Turn.Ask is set
	Interrupt bool `json:"interrupt"` // its current work can be stopped without stopping the process
	Resume    bool `json:"resume"`    // Turn.Session
	Turns     bool `json:"turns"`     // one process accepts many prompts; see AcceptsPrompts
	Deltas    bool `json:"deltas"`    // streams text as the model writes it
	Usage     bool `json:"usage"`     // reports the tokens it used
	System    bool `json:"system"`    // Turn.System
	Skills    bool `json:"skills"`    // Turn.Skills
	Tools     bool `json:"tools"`     // Environment.Tools
	Images    bool `json:"images"`    // images in a prompt, not only as files
	Steer     bool `json:"steer"`     // reads messages while it works, in a process that accepts many prompts
	MaxTurns  bool `json:"max_turns"` // Turn.MaxTurns; without it, limit the requests to its model

	// API is the dialect of the agent's requests to its model: "anthropic",
	// "openai" (chat completions), "responses", "gemini". Empty: none that the
	// host can serve; the agent's credentials must then be in the sandbox.
	API string `json:"api,omitempty"`

	// TurnsBy is the argument of a turn, a boolean, with which one process accepts many
	// prompts though Turns is false, as it does with Turn.Ask. Empty: none.
	TurnsBy string `json:"turns_by,omitempty"`

	// Needs are the programs besides its own that must be in the sandbox.
	Needs []string `json:"needs,omitempty"`

	// Package is the npm package that holds the agent's program; nil: there is
	// none.
	Package *Package `json:"package,omitempty"`

	// Arguments are the names that Turn.Arguments may have, each with a line
	// that describes it.
	Arguments map[string]string `json:"arguments,omitempty"`
}

// AcceptsPrompts reports whether a process that runs t accepts further prompts.
func (f Features) AcceptsPrompts(t *Turn) bool {
	if f.Turns || f.TurnsBy == "" {
		return f.Turns
	}
	on := false
	return t.DecodeArgument(f.TurnsBy, &on) == nil && (on || t.Ask)
}

// Package is a package of the npm registry that holds an agent's program.
type Package struct {
	Name    string `json:"name"`           // "{arch}" in it is replaced by x64 or arm64, "{machine}" by x86_64 or aarch64
	Version string `json:"version"`        // the version that this package was tested with; same placeholders
	Program string `json:"program"`        // file in the package; same placeholders
	Node    bool   `json:"node,omitempty"` // the program is JavaScript
}

// Environment describes the sandbox that a turn runs in. Paths and addresses are those
// inside the sandbox.
type Environment struct {
	Dir   string // the workspace; absolute
	State string // the agent's own directory, which outlives the sandbox; absolute, not beneath Dir or /tmp
	Model string // base URL of the model endpoint, "http://127.0.0.1:41234"; empty: none
	Root  bool   // the agent runs as user 0

	// Tools is a command that speaks the Model Context Protocol on its standard
	// streams, the same for every agent. Nil: no tools.
	Tools []string
}

// Plan is the files to place and the command to run.
type Plan struct {
	Files []File   // written before the command runs; existing files are replaced
	Args  []string // the program and its arguments, never the prompt; the program is looked up on PATH inside
	Env   []string // "K=V"
	Dir   string   // empty: Environment.Dir

	// Stdin is the beginning of the process's standard input. Bytes that the
	// Conversation sends follow it.
	Stdin []byte
}

// File is a file that is placed in the sandbox before the agent runs.
type File struct {
	Path string // absolute
	Data []byte
	Mode uint32 // permission bits; 0: 0600
}

// Conversation is the protocol state of one running agent. It does no I/O: it is
// called with the process's output and writes events and input to an [Exchange].
// It need not be safe for concurrent use.
type Conversation interface {
	// Begin is called once, when the process has started. It sends the first
	// prompt if that is not in Plan.Stdin.
	Begin(x Exchange)

	// HandleLine decodes a line of the process's standard output, without its
	// line end. A line that it can't decode becomes an event of type Raw.
	HandleLine(x Exchange, line []byte)

	// Prompt sends a further prompt. It returns ErrUnsupported if a process of
	// this agent accepts only one.
	Prompt(x Exchange, p []Content) error

	// Decide answers an event of type PermissionRequested. It returns
	// ErrNotFound for an id without an open request. The caller emits
	// PermissionResolved; the Conversation emits it only when the agent
	// withdraws a request.
	Decide(x Exchange, id string, d Decision) error

	// Interrupt asks the agent to stop its work. It returns false if the agent
	// can't be asked.
	Interrupt(x Exchange) bool

	// IsFinished reports whether the prompt has its result and the agent has
	// finished all work for it.
	IsFinished() bool

	// Result returns the outcome of the last prompt as far as it is known. exit
	// is nil while the process runs. The zero Outcome means that the agent
	// reported none.
	Result(exit *Exit) Result
}

// Exchange receives the output of a Conversation's methods.
type Exchange interface {
	Emit(e Event)  // emits an event; the callee fills in Seq, Time and Turn
	Send(b []byte) // writes to the process's standard input
	Close()        // closes the process's standard input
}

// Exit is how an agent's process ended.
type Exit struct {
	Code   int
	Stderr []byte // the end of its standard error, at most 64 KiB
}

// Decision is the answer to a request for permission.
type Decision struct {
	Allow   bool           `json:"allow"`
	Always  bool           `json:"always,omitempty"`  // for the rest of the session, if the agent supports that
	Input   map[string]any `json:"input,omitempty"`   // replaces the tool's input; nil: unchanged
	Message string         `json:"message,omitempty"` // reason of a refusal; the model reads it
}
