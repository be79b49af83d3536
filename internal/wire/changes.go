package wire

// Which changes of a branch are listed.
const (
	AllChanges         = "all"         // the branch's commits since its base, and the work that is in no commit
	CommittedChanges   = "commits"     // only the commits
	UncommittedChanges = "uncommitted" // only the work that is in no commit
)

// Changes are the files of a git repository in a sandbox that differ between two states. All texts
// come from the sandbox and are untrusted.
type Changes struct {
	Tree      string          `json:"tree,omitempty"`   // working tree that is compared; empty: commits only
	Dir       string          `json:"dir"`              // directory of the repository for the contents of files: Tree, or the main working tree
	Branch    string          `json:"branch,omitempty"` // empty: the working tree is on no branch
	Base      string          `json:"base,omitempty"`   // name of the branch, or id of the commit, that Branch is compared with
	From      string          `json:"from,omitempty"`   // older commit; empty: nothing, all files are new
	To        string          `json:"to,omitempty"`     // newer commit; empty: the working tree
	Branches  []ChangedBranch `json:"branches"`         // of the repository
	Files     []ChangedFile   `json:"files"`            // sorted by path
	Truncated bool            `json:"truncated"`        // there are more branches or files than these
}

// ChangedBranch is a branch of a repository in a sandbox.
type ChangedBranch struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
	Tree   string `json:"tree,omitempty"` // working tree that is on the branch
}

// ChangedFile is a file that differs.
type ChangedFile struct {
	Path      string   `json:"path"`
	Status    string   `json:"status"`             // "added", "modified", "deleted", "untracked"
	OldMode   string   `json:"old_mode,omitempty"` // of git: "100644"
	Mode      string   `json:"mode,omitempty"`
	Inserted  int      `json:"inserted"` // lines; 0 for binary and untracked files
	Deleted   int      `json:"deleted"`
	Risks     []string `json:"risks,omitempty"`     // why a reviewer must look at it: hook, run by CI, lockfile, set-user-id…
	Unnamable bool     `json:"unnamable,omitempty"` // its name is not valid text: its content can't be requested
}

// FileChange is the content of a file in the two states.
type FileChange struct {
	Path string   `json:"path"`
	Old  FileSide `json:"old"`
	New  FileSide `json:"new"`
}

// FileSide is the content of a file in one state.
type FileSide struct {
	Exists  bool   `json:"exists"`
	Size    int64  `json:"size"`
	Text    string `json:"text,omitempty"`    // of a symbolic link its target
	Omitted string `json:"omitted,omitempty"` // why there is no text: "binary", "too large", "not a file"
}
