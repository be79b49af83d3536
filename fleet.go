package atoll

import "time"

// Info is a sandbox as a fleet knows it.
type Info struct {
	Status

	Owner    Owner     `json:"owner"`
	Config   Config    `json:"config"` // as it was asked for; values of secrets are "***"
	Started  time.Time `json:"started,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // when it ends if nobody uses it; zero: never
	Features Features  `json:"features"`
	Commands int       `json:"commands"` // under way
}

// WorkspaceMount puts a workspace into a sandbox.
type WorkspaceMount struct {
	Workspace string `json:"workspace"`           // its name
	Target    string `json:"target,omitempty"`    // empty: DefaultDir
	ReadOnly  bool   `json:"read_only,omitempty"` // nothing can be changed from inside
}

// At returns where the workspace is mounted.
func (w WorkspaceMount) At() string {
	if w.Target == "" {
		return DefaultDir
	}
	return w.Target
}

// Workspace holds files that outlive sandboxes.
type Workspace struct {
	Name      string            `json:"name"`
	Owner     Owner             `json:"owner"`
	Labels    map[string]string `json:"labels,omitempty"`
	Created   time.Time         `json:"created"`
	Used      time.Time         `json:"used"`                // last mounted, or a file of it read or written
	Keep      time.Duration     `json:"keep,omitempty"`      // nanoseconds after its last use; 0: the fleet's retention, negative: for ever
	Expires   time.Time         `json:"expires,omitzero"`    // when retention may remove it; zero: never
	Sandboxes []string          `json:"sandboxes,omitempty"` // that mount it
	Bytes     int64             `json:"bytes"`
	Files     int               `json:"files"`
}

// Pruned is what retention removed, or would remove.
type Pruned struct {
	Workspaces []Workspace `json:"workspaces"`
	Bytes      int64       `json:"bytes"`
	DryRun     bool        `json:"dry_run,omitempty"`
}

// Process is a command in the table of a sandbox's commands, where it stays
// for a while after its end.
type Process struct {
	ID       string    `json:"id"`
	Sandbox  string    `json:"sandbox"`
	Command  string    `json:"command"`          // as shell text, secrets redacted
	Running  bool      `json:"running"`          //
	Detached bool      `json:"detached"`         // goes on when nobody is attached
	TTY      bool      `json:"tty"`              //
	Started  time.Time `json:"started"`          //
	Ended    time.Time `json:"ended,omitzero"`   //
	Code     int       `json:"code"`             // once it has ended
	Signal   string    `json:"signal,omitempty"` // likewise
	Error    string    `json:"error,omitempty"`  // why it was ended, if it was
	Output   int64     `json:"output"`           // bytes written so far, to both streams
}

// Pool is a set of sandboxes that are ready to be claimed.
type Pool struct {
	Name    string    `json:"name"`
	Config  Config    `json:"config"` // of each; its name, secrets, workspaces and lifecycle come with the claim
	Size    int       `json:"size"`   // that the fleet keeps ready
	Ready   int       `json:"ready"`  // that are
	Created time.Time `json:"created"`
	Error   string    `json:"error,omitempty"` // why there are fewer, if the last try failed
}

// Event is something that happened in a fleet.
type Event struct {
	ID      int64             `json:"id"` // grows; what a listener resumes from
	Time    time.Time         `json:"time"`
	Type    string            `json:"type"` // "sandbox.running", "workspace.removed", "process.exited"…
	Owner   Owner             `json:"owner"`
	Object  string            `json:"object"` // the sandbox's id, the workspace's name…
	Name    string            `json:"name,omitempty"`
	Message string            `json:"message,omitempty"`
	Data    map[string]string `json:"data,omitempty"`
}

// Audit is one call that somebody made, or the fleet by itself.
type Audit struct {
	ID       int64         `json:"id"`
	Time     time.Time     `json:"time"`
	Owner    Owner         `json:"owner"`           // who called; the fleet is "atoll/atoll"
	Token    string        `json:"token,omitempty"` // its id
	Action   string        `json:"action"`          // "create", "exec", "workspace remove"…
	Object   string        `json:"object,omitempty"`
	Detail   string        `json:"detail,omitempty"` // the command of an exec, the path of a file; secrets redacted
	Outcome  string        `json:"outcome"`          // "ok", or the kind of the error
	Duration time.Duration `json:"duration"`         // nanoseconds
}

// Change is what can be changed of a sandbox later; nil fields stay.
type Change struct {
	Name      *string           `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // all of them
	Lifecycle *Lifecycle        `json:"lifecycle,omitempty"`
}

// DriverInfo is a driver and what it does on this machine.
type DriverInfo struct {
	Name     string    `json:"name"`
	Default  bool      `json:"default,omitempty"`
	Features *Features `json:"features,omitempty"`
	Error    string    `json:"error,omitempty"` // why it can't work here
}

// Server is a server as it shows itself to one who calls it.
type Server struct {
	Version string       `json:"version"`
	Drivers []DriverInfo `json:"drivers"`
	Owner   Owner        `json:"owner"`           // who calls
	Scopes  []Scope      `json:"scopes"`          // what he may
	Token   string       `json:"token,omitempty"` // the id of the token shown; empty: none was needed
	Link    *Link        `json:"link,omitempty"`  // what that token is good for; nil: all that the scopes allow

	// Addresses are where the server listens for clients with tokens, and
	// browsers find its page below /ui/: "http://127.0.0.1:7081".
	Addresses []string `json:"addresses,omitempty"`
}
