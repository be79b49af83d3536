package wire

import "time"

// The acts on a project: the repository on the server's host and the copy in a sandbox.
const (
	ProjectSync   = "sync"         // fetch, then fast-forward the host's branch and working tree
	ProjectMerge  = "merge"        // merge a branch of the sandbox into the host's branch
	ProjectApply  = "apply"        // apply changes to the host's working tree, without committing them
	ProjectUpdate = "update"       // bring commits of the host into the sandbox
	ProjectPR     = "pull_request" // push a branch to a remote of the repository and open a pull request
)

// ProjectAct is an act on a project.
type ProjectAct struct {
	Act         string `json:"act" enum:"sync,merge,apply,update,pull_request" required:"true"`
	Branch      string `json:"branch,omitempty" doc:"Branch of the sandbox; of an update, of the host. By default that of the sandbox's main working tree."`
	DryRun      bool   `json:"dry_run,omitempty" doc:"Examine and check, but change nothing."`
	Tip         string `json:"tip,omitempty" doc:"The commit that was reviewed, from a dry run; if the branch has moved since, nothing is done. Of merge, apply and pull_request."`
	AcceptRisks bool   `json:"accept_risks,omitempty" doc:"Merge, apply or push although there are files that can run code on the host."`
	Mode        string `json:"mode,omitempty" enum:"merge,rebase" doc:"Of an update, if both sides have commits; by default it only fast-forwards."`
	Message     string `json:"message,omitempty" maxLength:"65536" doc:"Of a merge, the commit's message; of a pull request, its text."`
	Title       string `json:"title,omitempty" maxLength:"300" doc:"Of a pull request."`
}

// ProjectResult is the result of an act on a project, or of its dry run. Texts come from the sandbox and are
// safe to print.
type ProjectResult struct {
	Act         string        `json:"act"`
	DryRun      bool          `json:"dry_run"`
	Nothing     bool          `json:"nothing"`               // there is nothing new
	Branch      string        `json:"branch,omitempty"`      // of the sandbox
	Into        string        `json:"into,omitempty"`        // branch that was or would be changed
	Tip         string        `json:"tip,omitempty"`         // commit of Branch
	Commit      string        `json:"commit,omitempty"`      // new commit of Into
	FastForward bool          `json:"fast_forward"`          // of a merge
	Switched    bool          `json:"switched"`              // a sync switched the host's working tree to Into
	Commits     int           `json:"commits"`               // new ones
	Files       int           `json:"files"`                 // that differ
	Conflicts   []string      `json:"conflicts"`             // files
	Risks       []ProjectRisk `json:"risks"`                 // files to review first
	Overwritten []string      `json:"overwritten,omitempty"` // uncommitted files of the host that still were as imported
	Rescue      string        `json:"rescue,omitempty"`      // ref that has their old content
	Left        []string      `json:"left,omitempty"`        // branches that an update did not move, with the reason
	URL         string        `json:"url,omitempty"`         // of the pull request, or of the page that opens it
	Opened      bool          `json:"opened"`                // the pull request is open; false: open it at URL
}

// ProjectRisk is a file that can run code on the host.
type ProjectRisk struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Relation compares a branch of a sandbox with the host's branch of the same name: "equal", "ahead", "behind",
// "diverged", "only-inside", "only-host", "removed-inside", "removed-host".
type Relation string

// BranchState is the state of one branch, or of the detached HEAD of a working tree, on both sides.
// Commits are empty where there is no such branch.
type BranchState struct {
	Repository string   `json:"repository,omitempty"` // path of a nested repository; empty: the project's own
	Name       string   `json:"name"`                 // safe to print; "head/TREE": the detached HEAD of a working tree
	Relation   Relation `json:"relation"`
	Home       bool     `json:"home"`   // branches, tags or remote-tracking branches of the host contain all commits of the sandbox's branch
	Ahead      int      `json:"ahead"`  // commits of the sandbox that the host's branch does not have
	Behind     int      `json:"behind"` // the reverse

	Host     string `json:"host,omitempty"`     // commit of the host's branch
	Sandbox  string `json:"sandbox,omitempty"`  // commit of the sandbox's branch
	Imported string `json:"imported,omitempty"` // commit of the host that was last brought into the sandbox
	Synced   string `json:"synced,omitempty"`   // commit that was last fetched
	Rescue   string `json:"rescue,omitempty"`   // ref of the newest rescue of this branch

	HostTree     string `json:"host_tree,omitempty"`    // working tree of the host that is on the branch
	SandboxTree  string `json:"sandbox_tree,omitempty"` // working tree inside, the first if there are several; safe to print
	HostDirty    bool   `json:"host_dirty"`             // it, or another one on the branch, has uncommitted changes or untracked files
	SandboxDirty bool   `json:"sandbox_dirty"`
}

// Ledger is the state of all branches and working trees of a project on the host and in one sandbox.
type Ledger struct {
	Live       bool          `json:"live"`                  // the sandbox was examined; false: this is what was fetched from it
	Branch     string        `json:"branch,omitempty"`      // of the sandbox's main working tree, safe to print
	HostBranch string        `json:"host_branch,omitempty"` // of the host's working tree
	Branches   []BranchState `json:"branches"`
	Commits    int           `json:"commits"`     // commits of the sandbox that no branch or tag of the host has
	Work       bool          `json:"uncommitted"` // uncommitted work that was not imported and that the host's files do not have
	Stashes    int           `json:"stashes"`     // stashes inside that are in no rescue
	Rescued    time.Time     `json:"rescued,omitzero"`
}

// IsHome reports whether the host has all work of the sandbox.
func (l *Ledger) IsHome() bool { return l.Commits == 0 && !l.Work && l.Stashes == 0 }

// Pending returns the branches whose commits the host's branches and tags do not have.
func (l *Ledger) Pending() []BranchState { return PendingBranches(l.Branches) }

// PendingBranches returns the branches whose commits the host's branches and tags do not have.
func PendingBranches(all []BranchState) []BranchState {
	var list []BranchState
	for _, b := range all {
		if b.Sandbox != "" && !b.Home {
			list = append(list, b)
		}
	}
	return list
}

// ProjectState is a project of a sandbox and the state of its branches on both sides.
type ProjectState struct {
	Path string `json:"path"` // the working tree on the server's host

	Ledger
}
