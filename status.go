package atoll

import "time"

// State is a stage in the life of a sandbox.
type State string

// The states. Drivers report them as facts. The fleet's table defines the transitions.
const (
	Created   State = "created"
	Starting  State = "starting"
	Running   State = "running"
	Pausing   State = "pausing"
	Paused    State = "paused"
	Stopping  State = "stopping"
	Stopped   State = "stopped"
	Archived  State = "archived" // stopped, and its files are in the archive storage of the server
	Failed    State = "error"
	Destroyed State = "destroyed"
)

// Status describes a sandbox at one moment.
type Status struct {
	ID         string            `json:"id"`
	Name       string            `json:"name,omitempty"`
	Driver     string            `json:"driver"`
	State      State             `json:"state"`
	Conditions []Condition       `json:"conditions,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Isolation  string            `json:"isolation,omitempty"` // as in Features
	Created    time.Time         `json:"created"`
	Active     time.Time         `json:"active"` // last command, transfer or activity inside
}

// Condition is one aspect of a Status. The condition of type "ready" is always present.
type Condition struct {
	Type    string    `json:"type"`
	True    bool      `json:"status"`
	Reason  string    `json:"reason,omitempty"`  // one word, machine-readable
	Message string    `json:"message,omitempty"` // one line, human-readable
	Since   time.Time `json:"since,omitzero"`
}

// Ready reports whether the sandbox accepts commands.
func (s Status) Ready() bool {
	for _, c := range s.Conditions {
		if c.Type == "ready" {
			return c.True
		}
	}
	return false
}

// Features describes the abilities of a driver on this machine. It is plain data. The
// conformance suite checks that it is true.
type Features struct {
	Isolation string `json:"isolation"` // kind of isolation: "process", "namespace", "container", "emulated", "machine"

	Programs bool          `json:"programs"`           // runs real programs, not only built-in ones
	Session  bool          `json:"session"`            // Cmd.Session
	Persist  bool          `json:"persist"`            // sandboxes outlive the process that created them
	Files    bool          `json:"files"`              // FS, directly
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
	HostRoot bool          `json:"host_root"`          // sandboxes without an image see the programs of the host
	Users    bool          `json:"users"`              // Spec.User, Cmd.User
	TTY      bool          `json:"tty"`                // Cmd.TTY
	Signals  bool          `json:"signals"`            // Cmd.Signals
	Watch    bool          `json:"watch"`              // Watcher
	Mounts   bool          `json:"mounts"`             // Spec.Mounts
	Detach   bool          `json:"detach"`             // Detacher, CommandResumer
	Terminal bool          `json:"terminal"`           // Terminals
	Notices  bool          `json:"notices"`            // Notifier
	Egress   bool          `json:"gate"`               // NetworkController
	Fresh    bool          `json:"fresh"`              // FreshStarter
	Disks    bool          `json:"disks"`              // DiskKeeper, and the driver is a DiskStore
	Archive  bool          `json:"archive,omitempty"`  // of a server: stopped sandboxes can be moved to its archive storage
	Runtimes []string      `json:"runtimes,omitempty"` // Spec.Runtime, besides the driver's own
	Networks []NetworkMode `json:"networks"`           // Spec.Network.Mode
	Notes    []string      `json:"notes,omitempty"`    // further remarks for users

	// Lacks names the laws of the conformance suite that the driver can't keep by its nature,
	// each with the reason. For these the suite checks that the driver returns a clear
	// ErrUnsupported instead of differing silently.
	Lacks map[string]string `json:"lacks,omitempty"`
}

// IsVM reports whether the sandboxes are virtual machines, which Spec.VM configures.
func (f *Features) IsVM() bool { return f.Isolation == "machine" || f.Isolation == "emulated" }

// Has reports whether the features include an ability, given as a nil *Stopper, *Pauser…
// It helps to implement [AbilityReporter].
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
	case *Detacher, *CommandResumer:
		return f.Detach
	case *Terminals, *TerminalAttacher:
		return f.Terminal
	case *Notifier, *PortLister:
		return f.Notices
	case *NetworkController:
		return f.Egress
	case *FreshStarter:
		return f.Fresh
	case *DiskKeeper:
		return f.Disks
	}
	return false
}

// Stats is the current resource usage of a sandbox.
type Stats struct {
	ID         string        `json:"id"`
	Files      int           `json:"files"`       // files and directories
	DiskUsed   int64         `json:"disk_used"`   // bytes
	DiskLimit  int64         `json:"disk_limit"`  // bytes; 0: none
	MemoryUsed int64         `json:"memory_used"` // bytes
	Processes  int           `json:"processes"`
	Commands   int64         `json:"commands"` // run since it was created
	CPUTime    time.Duration `json:"cpu_time,omitempty"`
	Dir        string        `json:"dir,omitempty"` // working directory of the persistent shell
	Created    time.Time     `json:"created"`
	Active     time.Time     `json:"active"`
}

// Result is one command in the history of a sandbox. Execute returns it too.
type Result struct {
	Command  string        `json:"command"`
	Stdout   string        `json:"stdout"`
	Stderr   string        `json:"stderr"`
	ExitCode int           `json:"exit_code"`
	Success  bool          `json:"success"` // ExitCode == 0
	Duration time.Duration `json:"duration"`

	Truncated bool      `json:"truncated,omitempty"` // output was dropped
	Internal  bool      `json:"internal,omitempty"`  // of atoll itself: see Cmd.Internal
	Error     string    `json:"error,omitempty"`     // why the command was killed, if it was
	Time      time.Time `json:"time"`                // start
}

// SnapshotInfo describes a snapshot, from which a sandbox can be restored or forked.
type SnapshotInfo struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Sandbox string    `json:"sandbox"`
	Created time.Time `json:"created"`
	Size    int64     `json:"size"`  // bytes of its files
	Files   int       `json:"files"` // files and directories
}
