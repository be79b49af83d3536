package atoll

import "time"

// State is where a sandbox is in its life.
type State string

// The states. Drivers report them as facts; which may follow which is the
// fleet's table.
const (
	Created   State = "created"
	Starting  State = "starting"
	Running   State = "running"
	Pausing   State = "pausing"
	Paused    State = "paused"
	Stopping  State = "stopping"
	Stopped   State = "stopped"
	Failed    State = "error"
	Destroyed State = "destroyed"
)

// Status is what is true of a sandbox at one moment.
type Status struct {
	ID         string            `json:"id"`
	Name       string            `json:"name,omitempty"`
	Driver     string            `json:"driver"`
	State      State             `json:"state"`
	Conditions []Condition       `json:"conditions,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Isolation  string            `json:"isolation,omitempty"` // as Features has it
	Created    time.Time         `json:"created"`
	Active     time.Time         `json:"active"` // the last command or transfer, or activity inside
}

// Condition is one aspect of a Status. The one called "ready" is always there.
type Condition struct {
	Type    string    `json:"type"`
	True    bool      `json:"status"`
	Reason  string    `json:"reason,omitempty"`  // one word, for programs
	Message string    `json:"message,omitempty"` // one line, for people
	Since   time.Time `json:"since,omitzero"`
}

// Ready reports whether the sandbox answers commands.
func (s Status) Ready() bool {
	for _, c := range s.Conditions {
		if c.Type == "ready" {
			return c.True
		}
	}
	return false
}

// Features says what a driver does on this machine. It is plain data, for
// people, APIs and tests; the conformance suite checks that it is true.
type Features struct {
	Isolation string `json:"isolation"` // the wall, in a word: "process", "namespace", "container", "emulated", "machine"

	Programs bool          `json:"programs"`           // runs real programs, not only the sandbox's own
	Session  bool          `json:"session"`            // Cmd.Session
	Persist  bool          `json:"persist"`            // sandboxes outlive the process that made them
	Files    bool          `json:"files"`              // FS, without a detour
	Stop     bool          `json:"stop"`               // Stopper
	Pause    bool          `json:"pause"`              // Pauser
	Snapshot bool          `json:"snapshot"`           // Snapshotter
	Fork     bool          `json:"fork"`               // Forker
	Dial     bool          `json:"dial"`               // Dialer
	Listen   bool          `json:"listen"`             // Listener
	Stats    bool          `json:"stats"`              // Meter
	History  bool          `json:"history"`            // Historian
	CPULimit bool          `json:"cpu_limit"`          // Spec.Limits.CPU
	Images   bool          `json:"images"`             // Spec.Image
	Users    bool          `json:"users"`              // Spec.User, Cmd.User
	TTY      bool          `json:"tty"`                // Cmd.TTY
	Signals  bool          `json:"signals"`            // Cmd.Signals
	Watch    bool          `json:"watch"`              // Watcher
	Mounts   bool          `json:"mounts"`             // Spec.Mounts
	Detach   bool          `json:"detach"`             // Detacher
	Terminal bool          `json:"terminal"`           // Terminals
	Notices  bool          `json:"notices"`            // Notifier
	Gate     bool          `json:"gate"`               // Gated
	Fresh    bool          `json:"fresh"`              // Fresher
	Disks    bool          `json:"disks"`              // DiskKeeper, and the driver is a DiskStore
	Runtimes []string      `json:"runtimes,omitempty"` // Spec.Runtime, besides the driver's own
	Networks []NetworkMode `json:"networks"`           // Spec.Network.Mode
	Notes    []string      `json:"notes,omitempty"`    // what else a person should know

	// Lacks names the laws of the suite that the driver can't keep by its
	// nature, each with the reason. The suite then checks the reason's
	// visible side: a clear ErrUnsupported, never a silent difference.
	Lacks map[string]string `json:"lacks,omitempty"`
}

// Has reports whether the features promise an ability, given as a nil
// *Stopper, *Pauser…: what a [Chooser] needs.
func (f *Features) Has(ability any) bool {
	switch ability.(type) {
	case *Stopper:
		return f.Stop
	case *Pauser:
		return f.Pause
	case *Snapshotter, *SnapshotKeeper:
		return f.Snapshot
	case *Forker:
		return f.Fork
	case *Listener:
		return f.Listen
	case *Dialer:
		return f.Dial
	case *FS, *DirFS:
		return f.Files
	case *Meter:
		return f.Stats
	case *Historian:
		return f.History
	case *Watcher:
		return f.Watch
	case *Detacher:
		return f.Detach
	case *Terminals, *TerminalUser:
		return f.Terminal
	case *Notifier, *Porter:
		return f.Notices
	case *Gated:
		return f.Gate
	case *Fresher:
		return f.Fresh
	case *DiskKeeper:
		return f.Disks
	}
	return false
}

// Stats is what a sandbox uses now.
type Stats struct {
	ID         string        `json:"id"`
	Files      int           `json:"files"`       // files and directories
	DiskUsed   int64         `json:"disk_used"`   // bytes
	DiskLimit  int64         `json:"disk_limit"`  // bytes; 0: none
	MemoryUsed int64         `json:"memory_used"` // bytes
	Processes  int           `json:"processes"`
	Commands   int64         `json:"commands"` // run since it was created
	CPUTime    time.Duration `json:"cpu_time,omitempty"`
	Dir        string        `json:"dir,omitempty"` // of the session
	Created    time.Time     `json:"created"`
	Active     time.Time     `json:"active"`
}

// Result is one command of a sandbox's history, and what Execute returns.
type Result struct {
	Command  string        `json:"command"`
	Stdout   string        `json:"stdout"`
	Stderr   string        `json:"stderr"`
	ExitCode int           `json:"exit_code"`
	Success  bool          `json:"success"` // ExitCode == 0
	Duration time.Duration `json:"duration"`

	Truncated bool      `json:"truncated,omitempty"` // the output above is not all there was
	Error     string    `json:"error,omitempty"`     // why the command was ended, if it was
	Time      time.Time `json:"time"`                // when it began
}

// SnapshotInfo describes a point to go back to, or to fork from.
type SnapshotInfo struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Sandbox string    `json:"sandbox"`
	Created time.Time `json:"created"`
	Size    int64     `json:"size"`  // bytes of its files
	Files   int       `json:"files"` // files and directories
}
