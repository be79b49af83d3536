package project

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Relation compares a branch of a sandbox with the host's branch of the same name.
type Relation = wire.Relation

// The relations.
const (
	Equal         Relation = "equal"
	Ahead         Relation = "ahead"          // the sandbox has commits that the host's branch does not have
	Behind        Relation = "behind"         // the reverse
	Diverged      Relation = "diverged"       // both
	OnlyInside    Relation = "only-inside"    // the host has no such branch
	OnlyHost      Relation = "only-host"      // it was never imported
	RemovedInside Relation = "removed-inside" // it was imported, and the sandbox has no such branch now
	RemovedHost   Relation = "removed-host"   // it was imported, and the host has no such branch now
)

// What a comparison of both sides finds, as the API reports it.
type (
	BranchState = wire.BranchState
	Ledger      = wire.Ledger
)

// insideTip is a branch or a detached HEAD of a sandbox.
type insideTip struct{ kind, name, object string }

// compareBranches sets the states of all branches of one repository. isNested is a repository whose
// work is never merged into branches of the host: there all refs count as home.
func (r *Repo) compareBranches(ctx context.Context, q *quarantine, w *remoteState, isNested bool) error {
	prefixes := []string{w.names.base}
	if !strings.Contains(w.names.base, "/"+kindNested) {
		prefixes = append(prefixes, "refs/heads/")
	}
	fetched, err := r.listRefs(ctx, prefixes...)
	if err != nil {
		return err
	}
	host := make(map[string]string)
	for ref, object := range fetched {
		if strings.HasPrefix(ref, "refs/heads/") {
			host[ref] = object
			delete(fetched, ref)
		}
	}
	inside := make(map[string]bool)
	for _, t := range w.tips {
		switch t.kind {
		case kindBranch, kindHead:
		default:
			continue
		}
		b := BranchState{Name: printable(t.kind + t.name), Sandbox: t.object, SandboxTree: w.trees[t.kind+t.name], SandboxDirty: w.dirty[t.kind+t.name]}
		if t.kind == kindBranch {
			inside[t.name] = true
			b.Host, b.Imported, b.Synced = host["refs/heads/"+t.name], fetched[w.names.base+importedHeads+t.name], fetched[w.names.base+t.name]
		} else {
			b.Synced = fetched[w.names.base+kindHead+t.name]
		}
		w.Branches = append(w.Branches, b)
	}
	for ref, object := range host {
		if name := strings.TrimPrefix(ref, "refs/heads/"); !inside[name] {
			b := BranchState{Name: printable(name), Relation: OnlyHost, Host: object, Home: true, Imported: fetched[w.names.base+importedHeads+name], Synced: fetched[w.names.base+name]}
			if b.Imported != "" {
				b.Relation = RemovedInside
			}
			w.Branches = append(w.Branches, b)
		}
	}
	slices.SortFunc(w.Branches, func(a, b BranchState) int { return cmp.Compare(a.Name, b.Name) })
	return q.countBranches(ctx, w, isNested)
}

// notHome selects, for 'git rev-list', the commits that are on no branch, tag or remote-tracking branch of the
// host. Remotes of sandboxes do not count.
var notHome = []string{"--not", "--branches", "--tags", "--exclude=sandbox-*", "--remotes"}

// countBranches sets the relations and counts of the branches that are inside.
func (q *quarantine) countBranches(ctx context.Context, w *remoteState, isNested bool) error {
	known := slices.Clone(notHome)
	if isNested {
		known = []string{"--not", "--all"}
	} else if head, err := q.repo.readDetachedHead(ctx); err != nil {
		return err
	} else if head != "" {
		known = append(known, head)
	}
	var tips []string
	for _, b := range w.Branches {
		if b.Sandbox != "" && b.Sandbox != b.Host {
			tips = append(tips, b.Sandbox)
		}
	}
	if len(tips) > 0 {
		n, err := q.count(ctx, append(tips, known...)...)
		if err != nil {
			return err
		}
		w.PendingCommits = n
	}
	for i := range w.Branches {
		switch b := &w.Branches[i]; {
		case b.Sandbox == "":
		case b.Sandbox == b.Host:
			b.Relation, b.Home = Equal, true
		default:
			pending := w.PendingCommits // that of the only branch
			if len(tips) > 1 && pending > 0 {
				var err error
				if pending, err = q.count(ctx, append([]string{b.Sandbox}, known...)...); err != nil {
					return err
				}
			}
			if err := q.compareBranch(ctx, b, pending); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareBranch sets the relation and the counts of one branch. pending is the number of its commits that are not at home.
func (q *quarantine) compareBranch(ctx context.Context, b *BranchState, pending int) error {
	b.Home = pending == 0
	if b.Host == "" {
		b.Relation, b.Ahead = OnlyInside, pending
		if b.Imported != "" {
			b.Relation = RemovedHost
		}
		return nil
	}
	out, err := q.runOutput(ctx, "rev-list", "--count", "--left-right", b.Sandbox+"..."+b.Host)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(out, &b.Ahead, &b.Behind); err != nil {
		return fmt.Errorf("git rev-list printed %q: %w", printable(out), err)
	}
	switch {
	case b.Behind == 0:
		b.Relation = Ahead
	case b.Ahead == 0:
		b.Relation = Behind
	default:
		b.Relation = Diverged
	}
	return nil
}

// count returns the number of commits that 'git rev-list' selects.
func (q *quarantine) count(ctx context.Context, revs ...string) (int, error) {
	out, err := q.runOutput(ctx, append([]string{"rev-list", "--count"}, revs...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(out))
}

// ReadLedger returns the ledger of a sandbox. got is the result of a sync or its dry run just before; nil:
// the sandbox does not run, and the ledger is read from what was fetched from it.
func (r *Repo) ReadLedger(ctx context.Context, name string, got *SyncResult) (*Ledger, error) {
	if err := checkSandboxName(name); err != nil {
		return nil, err
	}
	l := &Ledger{Live: got != nil}
	if got == nil {
		w, err := r.readFetched(ctx, name)
		if err != nil {
			return nil, err
		}
		got = &SyncResult{FetchResult: w.FetchResult}
	}
	l.Branch, l.Work = printable(got.Branch), got.PendingWork
	addRepository(l, "", &got.FetchResult)
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	l.HostBranch = head.Branch
	if err := r.addHostTrees(ctx, l); err != nil {
		return nil, err
	}
	return l, r.addRescues(ctx, name, l, got.stashes)
}

// addRepository adds the branches of a repository and its nested ones to a ledger.
func addRepository(l *Ledger, where string, got *FetchResult) {
	l.Commits += got.PendingCommits
	l.Branches = slices.Grow(l.Branches, len(got.Branches)+1)
	for _, b := range got.Branches {
		b.Repository = where
		l.Branches = append(l.Branches, b)
	}
	if l.Branches == nil {
		l.Branches = []BranchState{}
	}
	names := make([]string, 0, len(got.Modules))
	for name := range got.Modules {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		m := got.Modules[name]
		addRepository(l, name, &m)
	}
}

// readFetched returns the state of a sandbox as it was last fetched or rescued.
func (r *Repo) readFetched(ctx context.Context, name string) (*remoteState, error) {
	base := refPrefix(name)
	refs, err := r.listRefs(ctx, base)
	if err != nil {
		return nil, err
	}
	w := newRemoteState(base)
	for ref, object := range refs {
		at := strings.TrimPrefix(ref, base)
		work, isWork := strings.CutPrefix(at, kindWork)
		tree, isHead := strings.CutPrefix(at, kindHead)
		switch {
		case isWork:
			w.dirty[work] = true
		case isHead:
			w.tips = append(w.tips, insideTip{kindHead, tree, object})
		case !slices.ContainsFunc(refKinds, func(k string) bool { return strings.HasPrefix(at, k) }):
			w.tips = append(w.tips, insideTip{kindBranch, at, object})
		}
	}
	q := r.checkedObjects()
	return w, r.compareBranches(ctx, q, w, false)
}

// addHostTrees adds the working trees of the host.
func (r *Repo) addHostTrees(ctx context.Context, l *Ledger) error {
	trees, err := r.listHostTrees(ctx)
	if err != nil {
		return err
	}
	for _, t := range trees {
		i := slices.IndexFunc(l.Branches, func(b BranchState) bool {
			return b.Repository == "" && t.Branch != "" && b.Name == printable(t.Branch)
		})
		if i < 0 {
			continue
		}
		git := r.host
		if t.Path != r.Dir {
			git.dir, git.gitDir, git.workTree = t.Path, "", ""
		}
		dirty, err := git.runOutput(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames")
		if err != nil {
			return err
		}
		b := &l.Branches[i]
		if b.HostTree == "" {
			b.HostTree = t.Path
		}
		b.HostDirty = b.HostDirty || dirty != ""
	}
	return nil
}

// addRescues adds the newest rescue of each branch, and counts the stashes that are in none.
func (r *Repo) addRescues(ctx context.Context, name string, l *Ledger, stashes []string) error {
	prefix := refPrefix(name) + kindRescue
	refs, err := r.listRefs(ctx, prefix)
	if err != nil {
		return err
	}
	saved := make(map[string]bool)
	newest := make(map[string]string) // ref by name
	for ref, object := range refs {
		at, what, _ := strings.Cut(strings.TrimPrefix(ref, prefix), "/")
		when, err := time.Parse(rescueTimeFormat, at)
		if err != nil {
			continue
		}
		if when.After(l.Rescued) {
			l.Rescued = when
		}
		if strings.HasPrefix(what, kindStash) {
			saved[object] = true
		}
		if ref > newest[what] { // the time sorts
			newest[what] = ref
		}
	}
	for i, b := range l.Branches {
		if b.Repository == "" {
			l.Branches[i].Rescue = newest[b.Name]
		}
	}
	for _, s := range stashes {
		if !saved[s] {
			l.Stashes++
		}
	}
	return nil
}
