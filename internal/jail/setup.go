package jail

import "encoding/json"

// Birth says how process 1 of a sandbox is started.
type Birth struct {
	UIDs []IDs `json:"uids"`
	GIDs []IDs `json:"gids"`
	UID  int   `json:"uid"` // inside, of process 1 while it sets up
	GID  int   `json:"gid"`

	// Groups says that process 1 may leave the groups of who makes it: for
	// makers with privileges.
	Groups bool `json:"groups,omitempty"`

	// Enter are control groups of version 1 that process 1 starts in, and Leave
	// those that the spawner is in otherwise: files that threads enter by.
	Enter []string `json:"enter,omitempty"`
	Leave []string `json:"leave,omitempty"`

	// Bare makes nothing but a user namespace.
	Bare bool `json:"bare,omitempty"`
}

// IDs maps user or group numbers.
type IDs struct {
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	Count   int `json:"count"`
}

// Setup says what process 1 makes of its namespaces before it serves.
type Setup struct {
	Hostname string   `json:"hostname"`
	Root     Source   `json:"root"`             // what becomes /
	Layers   []Source `json:"layers,omitempty"` // of an image, the upper ones first; Root then holds what is changed of it
	Steps    []Step   `json:"steps"`            // in order
	Limits   []Limit  `json:"limits,omitempty"`
	Keep     []int    `json:"keep,omitempty"`  // capabilities that process 1 keeps
	Listener int      `json:"listener"`        // file on which the guest takes connections
	Cgroup   int      `json:"cgroup"`          // file: a cgroup v2 directory for commands; negative: none
	Gated    bool     `json:"gated,omitempty"` // connections must be led to the gate, or there is no sandbox

	Guest json.RawMessage `json:"guest"` // the guest's own configuration
}

// Source is a tree of files.
type Source struct {
	// File is the number of a file that comes with the setup: a detached mount,
	// or, where Path is set, what Path must be.
	File int `json:"file"`
	// Path is opened by process 1 itself, which then has no privileges outside.
	Path string `json:"path,omitempty"`
}

// Action is what a step does.
type Action string

// The actions.
const (
	MakeDir  Action = "directory" // Path, and those above it
	MakeLink Action = "link"      // Path leads to Text
	Tree     Action = "mount"     // Source on Path
	Tmpfs    Action = "tmpfs"     // an empty file system on Path
	Device   Action = "device"    // the host's device of the same Path
	Devpts   Action = "devpts"    // a terminal file system of its own on Path
	Proc     Action = "proc"      // of the own process namespace on Path
	Mask     Action = "mask"      // nothing is seen at Path, if it is there
	Freeze   Action = "freeze"    // Path becomes read-only, if it is there
	Own      Action = "file"      // Text is seen in the place of Path's content
	Seal     Action = "seal"      // what is mounted at Path becomes read-only
	Write    Action = "setting"   // Text is written to Path, if it is there
)

// Step is one thing to do. Path is relative to the root.
type Step struct {
	Do   Action `json:"do"`
	Path string `json:"path"`
	Text string `json:"text,omitempty"`

	Source Source `json:"source,omitzero"`

	ReadOnly bool `json:"read_only,omitempty"`
	NoExec   bool `json:"no_exec,omitempty"`
	Deep     bool `json:"deep,omitempty"` // what is mounted beneath the source comes too

	Size int64  `json:"size,omitempty"` // bytes of a tmpfs; 0: the kernel's default
	Mode uint32 `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
}

// Limit is a resource limit of process 1 and all that it starts.
type Limit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// reply is what process 1 says of its setup.
type reply struct {
	Error string `json:"error,omitempty"`
}

// born is what the spawner says of a birth.
type born struct {
	PID   int    `json:"pid"`
	In    bool   `json:"in,omitempty"` // it started in all its control groups
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
}
