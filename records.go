package atoll

import (
	"hash/fnv"
	"math"
	"time"
)

// Info is a sandbox with what its fleet knows about it.
type Info struct {
	Status

	Owner    Owner     `json:"owner"`
	Config   Config    `json:"config"` // as requested; values of secrets are "***"
	Started  time.Time `json:"started,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // when it is removed or stopped unless it is used; zero: never
	Features Features  `json:"features"`
	Commands int       `json:"commands"` // running now
}

// WorkspaceMount mounts a workspace in a sandbox.
type WorkspaceMount struct {
	Workspace string `json:"workspace"`           // its name
	Target    string `json:"target,omitempty"`    // empty: DefaultDir
	ReadOnly  bool   `json:"read_only,omitempty"` // the sandbox can't change its files
}

// At returns the mount point of the workspace.
func (w WorkspaceMount) At() string {
	if w.Target == "" {
		return DefaultDir
	}
	return w.Target
}

// Workspace is a named set of files that outlives sandboxes.
type Workspace struct {
	Name      string            `json:"name"`
	Owner     Owner             `json:"owner"`
	Labels    map[string]string `json:"labels,omitempty"`
	Created   time.Time         `json:"created"`
	Used      time.Time         `json:"used"`                // when it was last mounted, or one of its files read or written
	Keep      time.Duration     `json:"keep,omitempty"`      // nanoseconds after its last use; 0: the fleet's retention, negative: for ever
	Expires   time.Time         `json:"expires,omitzero"`    // when retention may remove it; zero: never
	Sandboxes []string          `json:"sandboxes,omitempty"` // ids of the sandboxes that mount it
	Bytes     int64             `json:"bytes"`
	Files     int               `json:"files"`
}

// PruneResult lists the workspaces that retention removed, or would remove in a dry run.
type PruneResult struct {
	Workspaces []Workspace `json:"workspaces"`
	Bytes      int64       `json:"bytes"`
	DryRun     bool        `json:"dry_run,omitempty"`
}

// Process is a command in the process table of a sandbox. It stays there for a while after it
// has ended.
type Process struct {
	ID       string    `json:"id"`
	Sandbox  string    `json:"sandbox"`
	Command  string    `json:"command"`            // as shell text, secrets redacted
	Args     []string  `json:"args,omitempty"`     // of a command that its client stays attached to, secrets redacted
	Running  bool      `json:"running"`            //
	Detached bool      `json:"detached"`           // runs on without an attached client
	TTY      bool      `json:"tty"`                //
	Internal bool      `json:"internal,omitempty"` // of atoll itself: see Cmd.Internal
	Started  time.Time `json:"started"`            //
	Ended    time.Time `json:"ended,omitzero"`     //
	Code     int       `json:"code"`               // exit status, after its end
	Signal   string    `json:"signal,omitempty"`   // signal that killed it
	Error    string    `json:"error,omitempty"`    // why atoll ended it, if it did
	Output   int64     `json:"output"`             // bytes written so far to both streams
}

// Number returns a positive number of 31 bits that identifies the process in its sandbox, for
// clients whose protocol has only numbers. It is derived from the ID: every process of atoll and
// every server returns the same. It is no process id inside.
func (p *Process) Number() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.ID)) // never fails
	return max(int(h.Sum32()&math.MaxInt32), 1)
}

// Pool is a set of sandboxes that wait ready to be claimed.
type Pool struct {
	Name    string    `json:"name"`
	Config  Config    `json:"config"` // of each sandbox; name, secrets, workspaces and lifecycle are set by the claim
	Size    int       `json:"size"`   // number of sandboxes to keep ready
	Ready   int       `json:"ready"`  // number of sandboxes that are ready
	Created time.Time `json:"created"`
	Error   string    `json:"error,omitempty"` // why fewer are ready, if the last attempt failed
}

// Event is something that happened in a fleet.
type Event struct {
	ID      int64             `json:"id"` // increases; a listener resumes after it
	Time    time.Time         `json:"time"`
	Type    string            `json:"type"` // "sandbox.running", "workspace.removed", "process.exited"…
	Owner   Owner             `json:"owner"`
	Object  string            `json:"object"` // the sandbox's id, the workspace's name…
	Name    string            `json:"name,omitempty"`
	Message string            `json:"message,omitempty"`
	Data    map[string]string `json:"data,omitempty"`
}

// Audit is the record of one call by a client, or of one action of the fleet itself.
type Audit struct {
	ID       int64         `json:"id"`
	Time     time.Time     `json:"time"`
	Owner    Owner         `json:"owner"`           // the caller; "atoll/atoll" for the fleet itself
	Token    string        `json:"token,omitempty"` // id of the caller's token
	Action   string        `json:"action"`          // "create", "exec", "workspace remove"…
	Object   string        `json:"object,omitempty"`
	Detail   string        `json:"detail,omitempty"` // the command of an exec, the path of a file; secrets redacted
	Outcome  string        `json:"outcome"`          // "ok", or the reason of the error
	Duration time.Duration `json:"duration"`         // nanoseconds
}

// Change is an update of a sandbox. Nil fields stay as they are.
type Change struct {
	Name      *string           `json:"name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // replaces all labels
	Lifecycle *Lifecycle        `json:"lifecycle,omitempty"`

	PublicPorts *bool `json:"public_ports,omitempty"`
}

// DriverInfo describes a driver and its abilities on this machine.
type DriverInfo struct {
	Name     string    `json:"name"`
	Default  bool      `json:"default,omitempty"`
	Features *Features `json:"features,omitempty"`
	Error    string    `json:"error,omitempty"` // why it can't work here
}

// Server describes a server to its caller.
type Server struct {
	Version string       `json:"version"`
	Drivers []DriverInfo `json:"drivers"`
	Owner   Owner        `json:"owner"`           // the caller
	Scopes  []Scope      `json:"scopes"`          // what the caller may do
	Token   string       `json:"token,omitempty"` // id of the caller's token; empty: the call needed none
	Link    *Link        `json:"link,omitempty"`  // restriction of that token; nil: none besides the scopes

	// Provider is the login provider or client certificate that the token was given for; empty: none.
	Provider string `json:"provider,omitempty"`

	// Addresses are the listeners for clients with tokens. Browsers find the web page below
	// /ui/: "http://127.0.0.1:7081".
	Addresses []string `json:"addresses,omitempty"`
}
