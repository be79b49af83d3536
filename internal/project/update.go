package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// UpdateMode selects what an update does if both sides have commits.
type UpdateMode string

// The modes.
const (
	UpdateForward UpdateMode = ""       // only fast-forward
	UpdateMerge   UpdateMode = "merge"  // merge the host's commits inside
	UpdateRebase  UpdateMode = "rebase" // rebase the sandbox's commits on the host's
)

// UpdateOptions describes what to bring from the host into a sandbox.
type UpdateOptions struct {
	Name string // name of the sandbox

	// Source is a branch of the host or one of its remotes: "main", "origin/main". Empty: all branches of
	// the host, and the working tree's branch is updated from that of its name.
	Source string

	Tree   string     // branch of the working tree inside that is updated; empty: the main working tree
	Mode   UpdateMode // for that working tree; other branches are only fast-forwarded
	DryRun bool       // examine and check, but change nothing
	Limits Limits     // of what is fetched before

	// OnSent, if not nil, is called with the number of bytes of objects that have been sent, from one
	// goroutine at a time.
	OnSent func(n int64)
}

// UpdateResult is the result of an update, or of its dry run.
type UpdateResult struct {
	Branch    string     // branch of the updated working tree, safe to print; empty: it is on none
	TreePath  string     // its path inside, safe to print
	Source    string     // branch of the host that it was updated from; empty: none
	Mode      UpdateMode // how
	OldCommit string     // commit of the working tree before
	NewCommit string     // and after; equal: it did not move. Empty: a merge or rebase that was not done, or has conflicts
	Commits   int        // commits of the source that the branch did not have
	Conflicts []string   // files with conflicts inside, safe to print. In a dry run: those of a merge
	Moved     []string   // other branches that were fast-forwarded or created
	Left      []LeftBranch
	Sent      int64 // bytes of objects

	Fetched *FetchResult // work of the sandbox that was fetched before
}

// LeftBranch is a branch of the sandbox that an update did not move.
type LeftBranch struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// hostRemote is the prefix of the refs inside that have the host's branches.
const hostRemote = "refs/remotes/host/"

// Update brings commits of the host into a sandbox. It first fetches, so that the host has all that the
// sandbox had. Then it sends the missing objects, sets refs/remotes/host/BRANCH and fast-forwards the
// branches of the same names inside, and creates those that were never imported, in one transaction. At
// last it fast-forwards, merges or rebases the working tree.
//
// Uncommitted work inside is never overwritten: ErrUnsaved. ErrDiverged: both sides have commits, and
// there is no mode. ErrConflict: the merge or rebase waits inside for the conflicts to be resolved, or
// another one does already. With these three the result is not nil. ErrNoNewWork: the sandbox has
// everything.
func (r *Repo) Update(ctx context.Context, sb atoll.Sandbox, u UpdateOptions) (*UpdateResult, error) {
	sb, done := r.trackCommands(ctx, sb)
	defer done()
	res, err := r.updateSandbox(ctx, guest{sb: sb, dir: Workspace}, u)
	if err != nil {
		return res, &atoll.Error{Op: "update", ID: u.Name, Err: err}
	}
	return res, nil
}

func (r *Repo) updateSandbox(ctx context.Context, g guest, u UpdateOptions) (*UpdateResult, error) {
	if err := checkSandboxName(u.Name); err != nil {
		return nil, err
	}
	if err := r.checkComplete(ctx); err != nil {
		return nil, err
	}
	if err := g.checkIdle(ctx); err != nil {
		return nil, err
	}
	sources, err := r.chooseSources(ctx, u)
	if err != nil {
		return nil, err
	}
	got, q, err := r.fetchRepository(ctx, g, FetchOptions{Name: u.Name, DryRun: u.DryRun, Limits: u.Limits}, refPrefix(u.Name), false)
	if err != nil {
		return nil, err
	}
	p := &updatePlan{UpdateOptions: u, repo: r, q: q, sources: sources, res: &UpdateResult{Fetched: got, Mode: u.Mode}}
	err = p.execute(ctx, g)
	return p.res, errors.Join(err, q.remove())
}

// source is a branch of the host that is brought in.
type source struct {
	name   string // "main", "origin/main"
	branch string // branch inside that it belongs to
	commit string
}

// chooseSources returns the branches of the host that are brought in.
func (r *Repo) chooseSources(ctx context.Context, u UpdateOptions) ([]source, error) {
	heads, err := r.listRefs(ctx, "refs/heads/")
	if err != nil {
		return nil, err
	}
	var list []source
	if u.Source == "" {
		for ref, commit := range heads {
			name := strings.TrimPrefix(ref, "refs/heads/")
			list = append(list, source{name, name, commit})
		}
		slices.SortFunc(list, func(a, b source) int { return strings.Compare(a.name, b.name) })
		return list, nil
	}
	if commit := heads["refs/heads/"+u.Source]; commit != "" {
		return []source{{u.Source, u.Source, commit}}, nil
	}
	remotes, err := r.listRefs(ctx, "refs/remotes/")
	if err != nil {
		return nil, err
	}
	var names []string
	for ref := range heads {
		names = append(names, strings.TrimPrefix(ref, "refs/heads/"))
	}
	for ref, commit := range remotes {
		name := strings.TrimPrefix(ref, "refs/remotes/")
		_, branch, _ := strings.Cut(name, "/")
		if name == u.Source && branch != "HEAD" && branch != "" && !strings.HasPrefix(name, remoteName("")) {
			return []source{{name, branch, commit}}, nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("branch %s of %s: %w%s; there is: %s", printable(u.Source), r.Dir, atoll.ErrNotFound, suggest.Hint(u.Source, names), summarizeNames(names))
}

// updatePlan is an update in progress.
type updatePlan struct {
	UpdateOptions

	repo    *Repo
	q       *quarantine
	sources []source
	res     *UpdateResult

	trees  []insideTree
	target int       // index of the working tree that is updated
	source *source   // that it is updated from; nil: none
	moves  []refMove // of branches without a working tree
	pulls  []treePull
}

// refMove is a change of a branch inside that no working tree is on.
type refMove struct{ branch, old, new string }

// treePull is a fast-forward of a working tree inside.
type treePull struct {
	tree insideTree
	to   source
}

func (p *updatePlan) execute(ctx context.Context, g guest) error {
	var err error
	if p.trees, err = g.listTrees(ctx); err != nil {
		return err
	}
	if err := p.chooseTarget(ctx); err != nil {
		return err
	}
	if err := p.planMoves(ctx); err != nil {
		return err
	}
	joins, jerr := p.examineTarget(ctx)
	if jerr != nil && !errors.Is(jerr, ErrDiverged) {
		return jerr
	}
	tips := p.tips()
	missing := len(tips) > 0 && g.checkConnected(ctx, tips) != nil
	if p.DryRun {
		return p.checkDryRun(ctx, joins, jerr, missing)
	}
	if err := p.send(ctx, g, missing); err != nil {
		return err
	}
	if err := p.pullOthers(ctx, g); err != nil {
		return err
	}
	if jerr == nil && joins {
		jerr = p.joinTarget(ctx, g)
	}
	if jerr == nil && !joins && !missing && len(p.res.Moved)+len(p.res.Left) == 0 {
		jerr = ErrNoNewWork
	}
	return errors.Join(jerr, p.record(ctx))
}

// tips returns the commits that are brought in.
func (p *updatePlan) tips() []string {
	var list []string
	for _, s := range p.sources {
		list = append(list, s.commit)
	}
	return list
}

// chooseTarget finds the working tree and its source.
func (p *updatePlan) chooseTarget(ctx context.Context) error {
	if p.Tree != "" {
		p.target = slices.IndexFunc(p.trees, func(t insideTree) bool { return t.Branch == p.Tree })
		if p.target < 0 {
			return fmt.Errorf("working tree of branch %s in the sandbox: %w; 'atoll worktree list' shows what there is", printable(p.Tree), atoll.ErrNotFound)
		}
	}
	t := p.trees[p.target]
	p.res.Branch, p.res.TreePath, p.res.OldCommit, p.res.NewCommit = printable(t.Branch), printable(t.Path), t.Commit, t.Commit
	for i, s := range p.sources {
		if s.branch == t.Branch || p.Source != "" && p.Mode != UpdateForward {
			p.source, p.res.Source = &p.sources[i], s.name
		}
	}
	if p.source != nil || p.Mode == UpdateForward {
		return nil
	}
	name := "BRANCH"
	if head, err := p.repo.Head(ctx); err != nil {
		return err
	} else if head.Branch != "" {
		name = head.Branch
	}
	return fmt.Errorf("%w: the sandbox is on %s, and you have no branch of that name: name the one to %s: 'atoll update %s %s --%s'", atoll.ErrInvalid, orDetached(p.res.Branch), p.Mode, p.Name, name, p.Mode)
}

// planMoves plans the fast-forwards of all branches but that of the working tree.
func (p *updatePlan) planMoves(ctx context.Context) error {
	imported, err := p.repo.listRefs(ctx, refPrefix(p.Name)+importedHeads)
	if err != nil {
		return err
	}
	target := p.trees[p.target].Branch
	for _, s := range p.sources {
		if s.branch == target {
			continue
		}
		old := p.res.Fetched.Heads[s.branch]
		if old == "" {
			// A branch that was removed inside stays removed, unless it is named.
			if p.Source != "" || imported[refPrefix(p.Name)+importedHeads+s.branch] == "" {
				p.moves = append(p.moves, refMove{s.branch, "", s.commit})
			}
			continue
		}
		if old == s.commit {
			continue
		}
		state, err := p.q.relate(ctx, old, s.commit)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(p.trees, func(t insideTree) bool { return t.Branch == s.branch })
		switch {
		case state == Diverged:
			p.leave(s.branch, "both sides have commits")
		case state == Behind && i >= 0:
			p.pulls = append(p.pulls, treePull{p.trees[i], s})
		case state == Behind:
			p.moves = append(p.moves, refMove{s.branch, old, s.commit})
		}
	}
	return nil
}

func (p *updatePlan) leave(branch, reason string) {
	p.res.Left = append(p.res.Left, LeftBranch{printable(branch), reason})
}

// relate compares a commit of a sandbox with one of the host.
func (q *quarantine) relate(ctx context.Context, inside, home string) (Relation, error) {
	ahead, err := q.isNotAncestor(ctx, inside, home)
	if err != nil {
		return "", err
	}
	behind, err := q.isNotAncestor(ctx, home, inside)
	switch {
	case ahead && behind:
		return Diverged, err
	case ahead:
		return Ahead, err
	case behind:
		return Behind, err
	}
	return Equal, err
}

// examineTarget reports whether the working tree changes. ErrDiverged: it would have to be merged or
// rebased.
func (p *updatePlan) examineTarget(ctx context.Context) (joins bool, err error) {
	t := p.trees[p.target]
	if p.source == nil {
		return false, nil
	}
	if t.Commit == "" {
		return false, fmt.Errorf("%w: branch %s of the sandbox has no commit yet: 'atoll up --fresh' imports yours", atoll.ErrState, p.res.Branch)
	}
	if p.res.Commits, err = p.q.count(ctx, p.source.commit, "^"+t.Commit); err != nil {
		return false, err
	}
	state, err := p.q.relate(ctx, t.Commit, p.source.commit)
	switch {
	case err != nil:
		return false, err
	case state == Behind:
		p.res.Mode = UpdateForward
		return true, nil
	case state != Diverged:
		p.res.Mode = UpdateForward
		return false, nil
	case p.Mode == UpdateForward:
		return false, fmt.Errorf("%w: branch %s has commits in the sandbox that the host's %s does not have, and the reverse", ErrDiverged, p.res.Branch, p.source.name)
	}
	return true, nil
}

// checkDryRun finishes a dry run: it reports the conflicts that a merge would have.
func (p *updatePlan) checkDryRun(ctx context.Context, joins bool, jerr error, missing bool) error {
	for _, m := range p.moves {
		p.res.Moved = append(p.res.Moved, printable(m.branch))
	}
	for _, t := range p.pulls {
		p.res.Moved = append(p.res.Moved, printable(t.to.branch))
	}
	switch {
	case jerr != nil:
		return jerr
	case !joins && !missing && len(p.res.Moved)+len(p.res.Left) == 0:
		return ErrNoNewWork
	case !joins:
		return nil
	case p.res.Mode == UpdateForward:
		p.res.NewCommit = p.source.commit
		return nil
	}
	p.res.NewCommit = ""
	if _, err := p.findBase(ctx, p.trees[p.target]); err != nil || p.Mode == UpdateRebase {
		return err // how a rebase ends is not known before
	}
	out, code, err := p.q.withConfig("merge.conflictStyle=merge").runStatus(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", p.trees[p.target].Commit, p.source.commit)
	if parts := splitTerminated(out, "\x00"); err == nil && code != 0 && len(parts) > 0 {
		for _, name := range parts[1:] {
			p.res.Conflicts = append(p.res.Conflicts, printable(name))
		}
	}
	return err
}

// record records on the host which of its commits the sandbox has now.
func (p *updatePlan) record(ctx context.Context) error {
	heads := make(map[string]string)
	for _, s := range p.sources {
		if s.name == s.branch {
			heads[s.branch] = s.commit
		}
	}
	return p.repo.recordHeads(ctx, p.Name, heads, false)
}
