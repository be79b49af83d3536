package wire

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
