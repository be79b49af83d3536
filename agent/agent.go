// Package agent runs coding agents, such as Claude Code, in sandboxes.
//
// An [Agent] is what to place, what to run and how to talk with it: pure
// functions, in the packages below this one. [Run] does one turn, [Begin] a
// conversation of several; both know no server and no driver.
package agent

// Agent is a coding CLI. Its methods do no I/O and may be called at once from
// many goroutines.
type Agent interface {
	// Name returns the agent's name: "claude", "codex"…
	Name() string

	// Features says what the agent can do.
	Features() Features

	// Plan says what to place and what to run for a turn. A turn that the
	// agent can't do is ErrInvalid or ErrUnsupported, with every reason named.
	Plan(t *Turn, at Site) (*Plan, error)

	// Talk returns a conversation with a process of such a plan.
	Talk(t *Turn, at Site) Talk
}

// Features says what an agent can do.
type Features struct {
	Approvals bool `json:"approvals"` // asks before it uses a tool, if Turn.Ask is set
	Interrupt bool `json:"interrupt"` // what it does can be ended without ending it
	Resume    bool `json:"resume"`    // Turn.Session
	Turns     bool `json:"turns"`     // one process takes many prompts
	Deltas    bool `json:"deltas"`    // tells text as it comes
	Usage     bool `json:"usage"`     // tells the tokens it used
	System    bool `json:"system"`    // Turn.System
	Skills    bool `json:"skills"`    // Turn.Skills
	Tools     bool `json:"tools"`     // Site.Tools
	Images    bool `json:"images"`    // pictures in a prompt, not only as files
	MaxTurns  bool `json:"max_turns"` // Turn.MaxTurns; else bound the requests of its model

	// API is the dialect in which the agent asks for its model: "anthropic",
	// "openai" (chat completions), "responses", "gemini". Empty: none that can
	// be answered for it; its credentials must then be in the sandbox.
	API string `json:"api,omitempty"`

	// Needs are the programs besides its own that must be in the sandbox.
	Needs []string `json:"needs,omitempty"`

	// Package is where the agent's program comes from, if it is to be had from
	// the npm registry.
	Package *Package `json:"package,omitempty"`

	// Arguments are the names that Turn.Arguments may have, each with a line
	// that says what it does.
	Arguments map[string]string `json:"arguments,omitempty"`
}

// Package is a package of the npm registry that holds an agent's program.
type Package struct {
	Name    string `json:"name"`           // "{arch}" in it is x64 or arm64, "{machine}" x86_64 or aarch64
	Version string `json:"version"`        // that this package was tested with; likewise
	Program string `json:"program"`        // file in the package; likewise
	Node    bool   `json:"node,omitempty"` // it is JavaScript
}

// Site is where a turn takes place, as it is seen inside.
type Site struct {
	Dir   string // the workspace; absolute
	State string // the agent's own directory, which outlives the sandbox; absolute, not beneath Dir or /tmp
	Model string // base URL of the model endpoint, "http://127.0.0.1:41234"; empty: none
	Root  bool   // the agent runs as user 0

	// Tools is a command that speaks the Model Context Protocol on its standard
	// streams, the same for every agent. Nil: no tools.
	Tools []string
}

// Plan is what to place and what to run.
type Plan struct {
	Files []File   // written before Args is run; what is there already is replaced
	Args  []string // the program and its arguments, never the prompt; the program is looked for on PATH inside
	Env   []string // "K=V"
	Dir   string   // empty: Site.Dir

	// Stdin is all that the process gets to read, when it does not talk. What
	// Talk sends comes after it.
	Stdin []byte
}

// File is placed in the sandbox before the agent runs.
type File struct {
	Path string // absolute
	Data []byte
	Mode uint32 // permission bits; 0: 0600
}

// Talk is one conversation with a running agent. It does no I/O: what it reads
// is given to it, what it says goes into an [Exchange]. It need not be safe for
// concurrent use.
type Talk interface {
	// Begin is called once, when the process has started; it says the first
	// prompt, if that is not in Plan.Stdin.
	Begin(x Exchange)

	// Line takes a line of the process's standard output, without its end.
	// Lines that are not understood become events of type Raw.
	Line(x Exchange, line []byte)

	// Prompt says a further prompt. ErrUnsupported where one process has one.
	Prompt(x Exchange, p []Content) error

	// Decide answers an event of type PermissionRequested. An id that asks
	// for nothing (any more) is ErrNotFound. Who calls it tells
	// PermissionResolved; the Talk does only when the agent takes a request
	// back.
	Decide(x Exchange, id string, d Decision) error

	// Interrupt asks the agent to stop what it does; false: it can't be asked.
	Interrupt(x Exchange) bool

	// Settled reports that the prompt has its result and nothing that the
	// agent does for it is under way.
	Settled() bool

	// Result returns what is known of the last prompt's outcome. exit is nil
	// while the process runs. The zero Outcome means that the agent said
	// nothing of it.
	Result(exit *Exit) Result
}

// Exchange is what a Talk says while it handles something.
type Exchange interface {
	Emit(e Event)  // to those who watch; Seq, Time, Turn are filled in
	Send(b []byte) // to the process
	Close()        // nothing more is sent
}

// Exit is how an agent's process ended.
type Exit struct {
	Code   int
	Stderr []byte // the last of it, at most 64 KiB
}

// Decision is the answer to a request for permission.
type Decision struct {
	Allow   bool           `json:"allow"`
	Always  bool           `json:"always,omitempty"`  // for the rest of the session, if the agent knows that
	Input   map[string]any `json:"input,omitempty"`   // what the tool is called with instead; nil: as asked
	Message string         `json:"message,omitempty"` // why not; the model reads it
}
