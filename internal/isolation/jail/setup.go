package jail

import "encoding/json"

// StartConfig describes how process 1 of a sandbox is started.
type StartConfig struct {
	UIDs []IDs `json:"uids"`
	GIDs []IDs `json:"gids"`
	UID  int   `json:"uid"` // inside the namespace, of process 1 during its setup
	GID  int   `json:"gid"`

	// DropGroups lets process 1 drop the supplementary groups of its creator, which must be privileged.
	DropGroups bool `json:"groups,omitempty"`

	// Enter names the task files of the version 1 control groups that process 1 starts in; Leave
	// names those of the groups to which the spawner's thread returns.
	Enter []string `json:"enter,omitempty"`
	Leave []string `json:"leave,omitempty"`

	// Trees names trees of templates whose clones are Process.Trees.
	Trees []Tree `json:"trees,omitempty"`

	// UserNamespaceOnly creates a user namespace only.
	UserNamespaceOnly bool `json:"bare,omitempty"`
}

// IDs maps user or group numbers.
type IDs struct {
	Inside  int `json:"inside"`
	Outside int `json:"outside"`
	Count   int `json:"count"`
}

// Setup describes the namespaces that process 1 builds before it serves.
type Setup struct {
	Hostname         string   `json:"hostname"`
	Root             Source   `json:"root"`             // becomes /
	Layers           []Source `json:"layers,omitempty"` // of an image, the topmost first; Root then holds the changes
	Steps            []Step   `json:"steps"`            // performed in order
	Limits           []Limit  `json:"limits,omitempty"`
	KeepCapabilities []int    `json:"keep,omitempty"`  // capabilities that process 1 keeps
	Listener         int      `json:"listener"`        // index of the socket on which the guest agent accepts connections
	Cgroup           int      `json:"cgroup"`          // index of a cgroup v2 directory for commands; negative: none
	Egress           bool     `json:"gated,omitempty"` // connections must be redirected to the egress proxy, or the setup fails

	Guest json.RawMessage `json:"guest"` // the guest agent's own configuration
}

// Source is a file tree to mount.
type Source struct {
	// File is the index of a file that is sent with the setup: a detached mount or, if Path is set,
	// the file that Path must lead to.
	File int `json:"file"`
	// Path is opened by process 1 itself, which then has no privileges outside.
	Path string `json:"path,omitempty"`
}

// Action is the kind of a step.
type Action string

// The actions.
const (
	MakeDir         Action = "directory" // Path, and its parents
	MakeLink        Action = "link"      // Path is a symbolic link to Text
	BindTree        Action = "mount"     // Source at Path
	Tmpfs           Action = "tmpfs"     // an empty file system on Path
	Device          Action = "device"    // the host's device with the same Path
	BindDevice      Action = "bind"      // the device Source at Path
	Devpts          Action = "devpts"    // a new terminal file system at Path
	Proc            Action = "proc"      // of the new PID namespace at Path
	Mask            Action = "mask"      // Path, or Names below it, are hidden, if they exist
	MakeReadOnly    Action = "freeze"    // Path, or Names below it, become read-only, if they exist
	FileContent     Action = "file"      // Text appears as the content of Path
	RemountReadOnly Action = "seal"      // the mount at Path becomes read-only
	Write           Action = "setting"   // Text is written to Path, if it exists
)

// Step is one step of building the root file system. Path is relative to the root.
type Step struct {
	Action Action `json:"do"`
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`

	Names []string `json:"names,omitempty"` // of Mask and MakeReadOnly

	Source Source `json:"source,omitzero"`

	ReadOnly  bool `json:"read_only,omitempty"`
	NoExec    bool `json:"no_exec,omitempty"`
	Recursive bool `json:"deep,omitempty"` // the mounts below the source are included

	Size int64  `json:"size,omitempty"` // bytes of a tmpfs; 0: the kernel's default
	Mode uint32 `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
}

// Limit is a resource limit of process 1 and its descendants.
type Limit struct {
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// reply is the result of one part of the setup.
type reply struct {
	Error string `json:"error,omitempty"`
}

// Tree names a file tree of a template.
type Tree struct {
	Template int    `json:"template"`
	Path     string `json:"path"`
}

// templateConfig describes a template to build.
type templateConfig struct {
	Steps []Step   `json:"steps"`
	Paths []string `json:"paths"` // of the trees that are cloned
}

// spawnRequest asks the spawner for one thing.
type spawnRequest struct {
	Start    *StartConfig    `json:"start,omitempty"`
	Template *templateConfig `json:"template,omitempty"`
	Drop     int             `json:"drop,omitempty"` // a template to remove
}

// spawnReply is the spawner's reply.
type spawnReply struct {
	PID      int    `json:"pid,omitempty"`
	In       bool   `json:"in,omitempty"`       // it was started in all its control groups
	Template int    `json:"template,omitempty"` // number of the template that was built
	Error    string `json:"error,omitempty"`
	Errno    int    `json:"errno,omitempty"`
}
