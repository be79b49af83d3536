package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// unfinished are the files in a git directory that exist while an operation waits for its conflicts to be
// resolved, with the commands that end it.
var unfinished = []struct{ file, what string }{
	{"rebase-merge", "rebase"},
	{"rebase-apply", "rebase"},
	{"MERGE_HEAD", "merge"},
	{"CHERRY_PICK_HEAD", "cherry-pick"},
	{"REVERT_HEAD", "revert"},
}

// checkIdle reports a main working tree in which a merge or another operation is not finished.
func (g guest) checkIdle(ctx context.Context) error {
	what, err := g.findUnfinished(ctx)
	if err != nil || what == "" {
		return err
	}
	return fmt.Errorf("%w: a %s is not finished in %s of the sandbox: resolve it there and run 'git %s --continue', or 'git %s --abort'", ErrConflict, what, printable(g.dir), what, what)
}

// findUnfinished returns the operation that is not finished in the working tree of g, or "".
func (g guest) findUnfinished(ctx context.Context) (string, error) {
	gitDir, err := g.runLine(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", err
	}
	for _, u := range unfinished {
		switch _, err := atoll.Stat(ctx, g.sb, path.Join(gitDir, u.file)); {
		case err == nil:
			return u.what, nil
		case !errors.Is(err, atoll.ErrNotFound):
			return "", err
		}
	}
	return "", nil
}

// findNewRefs returns the changes of refs/remotes/host inside. Refs of branches that the host no longer
// has are removed, unless only one branch is brought in.
func (p *updatePlan) findNewRefs(ctx context.Context, g guest) ([]Update, error) {
	inside, err := g.listRefs(ctx, hostRemote, hostRemote)
	if err != nil {
		return nil, err
	}
	old := make(map[string]string, len(inside))
	for _, r := range inside {
		old[r.name] = r.object
	}
	names := newRefNames("")
	var list []Update
	for _, s := range p.sources {
		names.markUsed(s.name)
		if old[s.name] != s.commit {
			list = append(list, Update{Ref: hostRemote + s.name, Old: old[s.name], New: s.commit})
		}
	}
	for name, object := range old {
		is := slices.ContainsFunc(p.sources, func(s source) bool { return s.name == name })
		if !is && (p.Source == "" || names.isBlocked(name)) {
			list = append(list, Update{Ref: hostRemote + name, Old: object})
		}
	}
	return list, nil
}

// send sends the missing objects, and then changes the refs inside.
func (p *updatePlan) send(ctx context.Context, g guest, missing bool) error {
	fresh, err := p.findNewRefs(ctx, g)
	if err != nil {
		return err
	}
	if missing {
		if err := p.sendObjects(ctx, g, p.tips()); err != nil {
			return err
		}
		if p.source != nil {
			if err := p.repo.sendLFS(ctx, g, p.repo.host, p.source.commit, strings.Join(p.tips(), "\n")+"\n", "--not", "--glob="+refPrefix(p.Name)); err != nil {
				return err
			}
		}
	}
	var removed []Update
	changed := make([]Update, 0, len(fresh)+len(p.moves))
	for _, u := range fresh {
		if u.New == "" { // "a" can't be replaced by "a/b" in the same transaction
			removed = append(removed, u)
		} else {
			changed = append(changed, u)
		}
	}
	for _, m := range p.moves {
		changed = append(changed, Update{Ref: "refs/heads/" + m.branch, Old: m.old, New: m.new})
	}
	for _, list := range [][]Update{removed, changed} {
		if err := g.updateRefs(ctx, p.repo.format, list); err != nil {
			return err
		}
	}
	for _, m := range p.moves {
		p.res.Moved = append(p.res.Moved, printable(m.branch))
	}
	return nil
}

// sendObjects sends the objects of tips that the sandbox does not have, in one pack.
func (p *updatePlan) sendObjects(ctx context.Context, g guest, tips []string) error {
	known, err := p.repo.listKnownCommits(ctx, p.Name)
	if err != nil {
		return err
	}
	have, err := g.filterKnown(ctx, known)
	if err != nil {
		return err
	}
	err = p.sendPack(ctx, g, tips, have)
	if err == nil {
		err = g.checkConnected(ctx, tips)
	}
	if err == nil || ctx.Err() != nil || !isGuestError(err) {
		return err
	}
	// The sandbox lacks objects of commits that it has: it gets all.
	if err := p.sendPack(ctx, g, tips, nil); err != nil {
		return err
	}
	if err := g.checkConnected(ctx, tips); err != nil {
		if isGuestError(err) && p.repo.shallow {
			return fmt.Errorf("%w: the histories of %s and of the sandbox are shallow and don't fit together: run 'git fetch --unshallow' in the repository (%w)", atoll.ErrState, p.repo.Dir, err)
		}
		return err
	}
	return nil
}

func (p *updatePlan) sendPack(ctx context.Context, g guest, tips, have []string) error {
	var revs strings.Builder
	for _, t := range tips {
		revs.WriteString(t + "\n")
	}
	args := []string{"pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"}
	for _, h := range have {
		revs.WriteString("^" + h + "\n")
	}
	if len(have) > 0 {
		args = append(args, "--thin")
	}
	return runPiped(ctx, func(ctx context.Context, w io.Writer) error {
		meter := &progressWriter{w: w, n: p.res.Sent, report: func(n int64) {
			p.res.Sent = n
			if p.OnSent != nil {
				p.OnSent(n)
			}
		}}
		return p.repo.host.run(ctx, strings.NewReader(revs.String()), meter, args...)
	}, func(ctx context.Context, r io.Reader) error {
		return g.run(ctx, r, nil, "index-pack", "--stdin", "--fix-thin", "--strict")
	})
}

// checkConnected returns an error unless the sandbox has all objects that tips need.
func (g guest) checkConnected(ctx context.Context, tips []string) error {
	return g.run(ctx, strings.NewReader(strings.Join(tips, "\n")+"\n"), nil, "rev-list", "--objects", "--stdin", "--not", "--all", "--quiet")
}

// updateRefs changes refs inside, all or none. A ref that has changed meanwhile is ErrMoved.
func (g guest) updateRefs(ctx context.Context, format string, list []Update) error {
	if len(list) == 0 {
		return nil
	}
	zero := strings.Repeat("0", 40)
	if format == "sha256" {
		zero = strings.Repeat("0", 64)
	}
	var b strings.Builder
	for _, u := range list {
		switch {
		case u.New == "":
			b.WriteString("delete " + u.Ref + "\x00" + u.Old + "\x00")
		case u.Old == "":
			b.WriteString("update " + u.Ref + "\x00" + u.New + "\x00" + zero + "\x00")
		default:
			b.WriteString("update " + u.Ref + "\x00" + u.New + "\x00" + u.Old + "\x00")
		}
	}
	_, err := g.withEnv(identity...).runWithInput(ctx, b.String(), "update-ref", "-m", "atoll: update", "--stdin", "-z")
	if !isGuestError(err) {
		return err
	}
	for _, u := range list {
		if now, nerr := g.runLine(ctx, "rev-parse", "-q", "--verify", u.Ref); now != u.Old && (nerr == nil || isGuestError(nerr)) {
			return fmt.Errorf("%w: %s of the sandbox: try again (%w)", ErrMoved, printable(u.Ref), err)
		}
	}
	return g.wrapInsideLock(ctx, err)
}

// wrapInsideLock makes an error of git inside ErrLocked if a lock file exists there.
func (g guest) wrapInsideLock(ctx context.Context, err error) error {
	gitDir, derr := g.runLine(ctx, "rev-parse", "--absolute-git-dir")
	if derr != nil {
		return err
	}
	for _, name := range []string{"index.lock", "HEAD.lock", "packed-refs.lock"} {
		lock := path.Join(gitDir, name)
		if _, serr := atoll.Stat(ctx, g.sb, lock); serr == nil {
			return fmt.Errorf("%w: %s exists in the sandbox: try again when git has ended there; if none runs, remove it (%w)", ErrLocked, printable(lock), err)
		}
	}
	return err
}

// pullOthers fast-forwards the other working trees. One that git refuses to change stays.
func (p *updatePlan) pullOthers(ctx context.Context, g guest) error {
	for _, t := range p.pulls {
		g := g.inDir(t.tree.Path)
		err := g.checkIdle(ctx)
		if err == nil {
			_, err = p.forwardTree(ctx, g, t.tree, t.to.commit)
		}
		switch {
		case err == nil:
			p.res.Moved = append(p.res.Moved, printable(t.to.branch))
		case errors.Is(err, atoll.ErrState):
			p.leave(t.to.branch, err.Error())
		default:
			return err
		}
	}
	return nil
}

// joinTarget fast-forwards, merges or rebases the working tree.
func (p *updatePlan) joinTarget(ctx context.Context, g guest) (err error) {
	t := p.trees[p.target]
	g = g.inDir(t.Path)
	if err := g.checkIdle(ctx); err != nil {
		return err
	}
	switch p.res.Mode {
	case UpdateMerge, UpdateRebase:
		p.res.NewCommit, err = p.joinInside(ctx, g, t)
	default:
		p.res.NewCommit, err = p.forwardTree(ctx, g, t, p.source.commit)
	}
	return err
}

// forwardTree fast-forwards a working tree inside. Uncommitted files that equal the new version are no
// obstacle.
func (p *updatePlan) forwardTree(ctx context.Context, g guest, t insideTree, to string) (string, error) {
	equal, err := p.checkUnblocked(ctx, g, t, t.Commit, to)
	if err != nil {
		return t.Commit, err
	}
	if len(equal) > 0 {
		if _, err := g.runWithInput(ctx, joinNUL(equal), "update-index", "--add", "--remove", "-z", "--stdin"); err != nil {
			return t.Commit, g.wrapInsideLock(ctx, err)
		}
	}
	if err := g.run(ctx, nil, nil, "merge", "--ff-only", "--no-overwrite-ignore", "--no-stat", "--quiet", to); err != nil {
		return t.Commit, g.wrapUnsaved(ctx, t, err)
	}
	return to, nil
}

// wrapUnsaved makes an error of git's own checks inside ErrUnsaved: git has changed nothing.
func (g guest) wrapUnsaved(ctx context.Context, t insideTree, err error) error {
	if !isGuestError(err) {
		return err
	}
	if lerr := g.wrapInsideLock(ctx, err); errors.Is(lerr, ErrLocked) {
		return lerr
	}
	return fmt.Errorf("%w: in %s of the sandbox: %w", ErrUnsaved, printable(t.Path), err)
}

// checkUnblocked returns ErrUnsaved if uncommitted files inside prevent a change from one commit to another.
// It returns those that equal the new version.
func (p *updatePlan) checkUnblocked(ctx context.Context, g guest, t insideTree, from, to string) (equal []string, err error) {
	work, _, err := g.commitUncommitted(ctx, t)
	if err != nil || work == "" {
		return nil, err
	}
	changes, err := p.q.listChanges(ctx, from, to)
	if err != nil {
		return nil, err
	}
	dirty, err := g.listDifferences(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", t.Commit, work)
	if err != nil {
		return nil, err
	}
	staged, err := g.listDifferences(ctx, "diff-index", "--cached", "-z", "--raw", "--no-renames", "--no-abbrev", t.Commit)
	if err != nil {
		return nil, err
	}
	var way []string
	for _, c := range changes {
		now, isDirty := dirty[c.name]
		index, isStaged := staged[c.name]
		comes := c.mode + " " + c.object
		switch {
		case !isDirty && !isStaged:
		case isDirty && now == comes && (!isStaged || index == now):
			equal = append(equal, c.name)
		default:
			way = append(way, c.name)
		}
	}
	if len(way) > 0 {
		return nil, fmt.Errorf("%w: in %s of the sandbox, these files would be overwritten; commit them there first: %s", ErrUnsaved, printable(t.Path), summarizeNames(way))
	}
	return equal, nil
}

// listDifferences parses the output of git's raw format with -z: the new mode and object by name.
func (g guest) listDifferences(ctx context.Context, args ...string) (map[string]string, error) {
	out, err := g.runOutput(ctx, args...)
	if err != nil {
		return nil, err
	}
	list, err := parseChanges(out)
	if err != nil {
		return nil, err
	}
	files := make(map[string]string, len(list))
	for _, c := range list {
		files[c.name] = c.mode + " " + c.object
	}
	return files, nil
}

// joinInside merges the source into the branch of a working tree, or rebases the branch on it. Conflicts
// stay in the working tree: ErrConflict.
func (p *updatePlan) joinInside(ctx context.Context, g guest, t insideTree) (string, error) {
	if err := p.checkJoinable(ctx, g, t); err != nil {
		return t.Commit, err
	}
	if out, code, err := g.runStatus(ctx, "config", "--get", "user.email"); err != nil {
		return t.Commit, err
	} else if code != 0 || out == "" {
		g = g.withEnv(identity...)
	}
	g = g.withEnv("GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_MERGE_AUTOEDIT=no")
	// The full name would make an ugly message.
	from := strings.TrimPrefix(hostRemote, "refs/remotes/") + p.source.name
	args := []string{"merge", "--no-edit", "--no-ff", "--no-overwrite-ignore", "--no-stat", "--quiet", "-m", fmt.Sprintf("Merge %s into %s", from, p.res.Branch), p.source.commit}
	if p.Mode == UpdateRebase {
		args = []string{"-c", "rebase.autoStash=false", "-c", "rebase.updateRefs=false", "rebase", "--no-fork-point", "--no-stat", "--quiet", p.source.commit}
	}
	gerr := g.run(ctx, nil, nil, args...)
	if gerr == nil {
		return g.runObjectID(ctx, "rev-parse", "--verify", "HEAD")
	}
	if !isGuestError(gerr) {
		return "", gerr
	}
	what, err := g.findUnfinished(ctx)
	if err != nil {
		return "", errors.Join(gerr, err)
	}
	if what == "" {
		return t.Commit, g.wrapUnsaved(ctx, t, gerr)
	}
	out, err := g.runOutput(ctx, "diff", "--name-only", "--diff-filter=U", "-z")
	if err != nil {
		return "", err
	}
	names := splitTerminated(out, "\x00")
	for _, name := range names {
		p.res.Conflicts = append(p.res.Conflicts, printable(name))
	}
	if len(names) == 0 { // it has stopped for another reason
		return t.Commit, errors.Join(gerr, g.run(ctx, nil, nil, what, "--abort"))
	}
	return "", fmt.Errorf("%w in %s of the sandbox: %s", ErrConflict, printable(t.Path), summarizeNames(names))
}

// checkJoinable reports uncommitted work that prevents a merge or a rebase.
func (p *updatePlan) checkJoinable(ctx context.Context, g guest, t insideTree) error {
	args := []string{"diff-index", "--name-only", "-z", "--no-renames", "--ignore-submodules=dirty"}
	if p.Mode == UpdateMerge {
		args = append(args, "--cached")
	}
	if _, _, err := g.runStatus(ctx, "update-index", "-q", "--refresh"); err != nil {
		return g.wrapInsideLock(ctx, err)
	}
	out, err := g.runOutput(ctx, append(args, t.Commit)...)
	if err != nil {
		return err
	}
	if names := splitTerminated(out, "\x00"); len(names) > 0 {
		return fmt.Errorf("%w: in %s of the sandbox there are changes that no commit has; commit or stash them there first: %s", ErrUnsaved, printable(t.Path), summarizeNames(names))
	}
	base, err := p.findBase(ctx, t)
	if err != nil {
		return err
	}
	equal, err := p.checkUnblocked(ctx, g, t, base, p.source.commit)
	if err == nil && len(equal) > 0 {
		err = fmt.Errorf("%w: in %s of the sandbox, these files would be overwritten; commit them there first: %s", ErrUnsaved, printable(t.Path), summarizeNames(equal))
	}
	return err
}

// findBase returns the merge base of a working tree and the source. None is "", or ErrUnrelated for a merge.
func (p *updatePlan) findBase(ctx context.Context, t insideTree) (string, error) {
	base, code, err := p.q.runStatus(ctx, "merge-base", t.Commit, p.source.commit)
	if err == nil && code != 0 && p.Mode == UpdateMerge {
		err = fmt.Errorf("%w: branch %s of the sandbox has no commit in common with the host's %s", ErrUnrelated, p.res.Branch, p.source.name)
	}
	return strings.TrimSuffix(base, "\n"), err
}
