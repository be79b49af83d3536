package project

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Bounds of what is looked at inside.
const (
	mostTrees  = 200    // working trees
	mostRefs   = 10_000 // branches, or tags
	mostNested = 100    // repositories inside
	mostStash  = 1000
)

// insideTree is a working tree of the sandbox.
type insideTree struct {
	Path   string
	Branch string // empty: on none
	Commit string // empty: none yet
}

// trees lists the working trees of a repository inside, the main one first.
func (g guest) trees(ctx context.Context) ([]insideTree, error) {
	out, err := g.output(ctx, "worktree", "list", "--porcelain", "-z")
	end := "\x00"
	if isGuestError(err) { // before 2.36
		out, err = g.output(ctx, "worktree", "list", "--porcelain")
		end = "\n"
	}
	if err != nil {
		return nil, err
	}
	return parseTrees(out, end)
}

func parseTrees(out, end string) ([]insideTree, error) {
	var list []insideTree
	gone := false
	for _, line := range split(out, end) {
		word, rest, _ := strings.Cut(line, " ")
		if word == "worktree" {
			if gone {
				list = list[:len(list)-1]
			}
			list, gone = append(list, insideTree{Path: rest}), false
			if len(list) > mostTrees {
				return nil, fmt.Errorf("%w: the sandbox has more than %d working trees", ErrTooLarge, mostTrees)
			}
			continue
		}
		if len(list) == 0 {
			continue
		}
		t := &list[len(list)-1]
		switch word {
		case "HEAD":
			if !isObject(rest) {
				return nil, fmt.Errorf("%w: HEAD %q of a working tree", ErrUnsafe, shown(rest))
			}
			if strings.Trim(rest, "0") != "" {
				t.Commit = rest
			}
		case "branch":
			t.Branch = strings.TrimPrefix(rest, "refs/heads/")
		case "prunable", "bare":
			gone = true
		}
	}
	if gone {
		list = list[:len(list)-1]
	}
	if len(list) == 0 || !path.IsAbs(list[0].Path) {
		return nil, fmt.Errorf("%w: no working tree in the sandbox", ErrNoRepository)
	}
	return list, nil
}

// refs lists refs inside, which all begin with a prefix, without it.
func (g guest) refs(ctx context.Context, prefix string, patterns ...string) ([]ref, error) {
	out, err := g.output(ctx, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var list []ref
	for _, l := range splitLines(out) {
		object, name, _ := strings.Cut(l, " ")
		name, ok := strings.CutPrefix(name, prefix)
		if !ok || !isObject(object) {
			return nil, fmt.Errorf("%w: the sandbox's git listed %q", ErrUnsafe, shown(l))
		}
		if list = append(list, ref{name, object}); len(list) > mostRefs {
			return nil, fmt.Errorf("%w: the sandbox has more than %d of %s", ErrTooLarge, mostRefs, prefix)
		}
	}
	return list, nil
}

// stashes lists what is stashed inside, newest first.
func (g guest) stashes(ctx context.Context) ([]string, error) {
	if _, code, err := g.status(ctx, "rev-parse", "-q", "--verify", "refs/stash"); err != nil || code != 0 {
		return nil, err
	}
	out, err := g.output(ctx, "rev-list", "--walk-reflogs", fmt.Sprintf("--max-count=%d", mostStash+1), "refs/stash")
	if err != nil {
		return nil, err
	}
	list := splitLines(out)
	if len(list) > mostStash {
		return nil, fmt.Errorf("%w: the sandbox has more than %d stashes", ErrTooLarge, mostStash)
	}
	for _, id := range list {
		if !isObject(id) {
			return nil, fmt.Errorf("%w: the sandbox's git listed the stash %q", ErrUnsafe, shown(id))
		}
	}
	return list, nil
}

// work makes a commit inside of what a working tree has and HEAD has not,
// untracked files too, without touching its index; empty: nothing. Its first
// parent is HEAD, its second, where that differs from both, what is staged.
// nested are repositories inside the tree: they are not part of it.
func (g guest) work(ctx context.Context, t insideTree) (commit string, nested []string, err error) {
	g = g.in(t.Path)
	gitDir, err := g.word(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", nil, err
	}
	if err := g.removeOldIndexes(ctx, gitDir, time.Now()); err != nil {
		return "", nil, err
	}
	// A name that nobody has used: what a git that was killed has left beside it
	// must not be in the way.
	index := path.Join(gitDir, fmt.Sprintf("%s%d-%s", indexPrefix, time.Now().Unix(), rand.Text()))
	defer closed(&err, func() error { return g.removeIndex(context.WithoutCancel(ctx), index) })
	said := &tail{max: 2000}
	exit, err := g.sb.Exec(ctx, atoll.Cmd{Args: []string{"cp", "-p", "--", path.Join(gitDir, "index"), index}, Env: []string{"LC_ALL=C"}, Stderr: said, Timeout: guestTime})
	if err != nil {
		return "", nil, err
	}
	if exit.Code != 0 {
		if _, err := atoll.Stat(ctx, g.sb, path.Join(gitDir, "index")); !errors.Is(err, atoll.ErrNotFound) {
			return "", nil, errors.Join(fmt.Errorf("copy the index of %s in the sandbox: exit status %d: %s", shown(t.Path), exit.Code, said.text()), err)
		}
	}
	g = g.with(append(identity, "GIT_INDEX_FILE="+index)...)
	modules, others, err := g.nested(ctx)
	if err != nil {
		return "", nil, err
	}
	staged, err := g.object(ctx, "write-tree")
	if err != nil && !isGuestError(err) { // a merge is under way: nothing is staged as such
		return "", nil, err
	}
	if err := g.addAll(ctx, others); err != nil {
		return "", nil, fmt.Errorf("uncommitted work in %s: %w", shown(t.Path), err)
	}
	date := "86400"
	if t.Commit != "" {
		// Work that is the same makes the same commit.
		if date, err = g.word(ctx, "log", "-1", "--format=%ct", t.Commit); err != nil {
			return "", nil, err
		}
	}
	if strings.Trim(date, "0123456789") != "" {
		return "", nil, fmt.Errorf("%w: commit %s is of the time %q", ErrUnsafe, t.Commit, shown(date))
	}
	g = g.with("GIT_AUTHOR_DATE=@"+date+" +0000", "GIT_COMMITTER_DATE=@"+date+" +0000")
	commit, err = g.commitWork(ctx, t, staged)
	return commit, append(modules, others...), err
}

// indexPrefix begins the names of indexes that atoll makes; a time follows.
const indexPrefix = "atoll-index-"

// removeOldIndexes takes away what was left when the wire was lost.
func (g guest) removeOldIndexes(ctx context.Context, gitDir string, now time.Time) error {
	entries, err := atoll.ReadDir(ctx, g.sb, gitDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), indexPrefix)
		at, _, _ := strings.Cut(rest, "-")
		made, err := strconv.ParseInt(at, 10, 64)
		if !ok || err != nil || now.Sub(time.Unix(made, 0)) < 2*guestTime || !plain(e.Name()) {
			continue
		}
		if err := atoll.Remove(ctx, g.sb, path.Join(gitDir, e.Name())); err != nil && !errors.Is(err, atoll.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (g guest) removeIndex(ctx context.Context, index string) error {
	var errs []error
	for _, name := range []string{index, index + ".lock"} {
		if err := atoll.Remove(ctx, g.sb, name); !errors.Is(err, atoll.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// addAll stages everything but what is in repositories that git does not track.
func (g guest) addAll(ctx context.Context, others []string) error {
	specs := ":/\x00"
	for _, n := range others {
		specs += ":(top,exclude,literal)" + n + "\x00"
	}
	g = g.with("GIT_LITERAL_PATHSPECS=0")
	_, err := g.feed(ctx, specs, "add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul")
	return err
}

// nested lists the repositories in a working tree: submodules, and others that
// somebody made or cloned there.
func (g guest) nested(ctx context.Context) (modules, others []string, err error) {
	tracked, err := g.output(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range split(tracked, "\x00") {
		if info, name, ok := strings.Cut(e, "\t"); ok && strings.HasPrefix(info, "160000 ") {
			if modules, err = g.appendRepository(ctx, modules, name); err != nil {
				return nil, nil, err
			}
		}
	}
	untracked, err := g.output(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range split(untracked, "\x00") {
		if name, ok := strings.CutSuffix(e, "/"); ok {
			if others, err = g.appendRepository(ctx, others, name); err != nil {
				return nil, nil, err
			}
		}
	}
	return modules, others, nil
}

// appendRepository appends a directory if a repository is there.
func (g guest) appendRepository(ctx context.Context, list []string, name string) ([]string, error) {
	dir := path.Join(g.dir, name)
	if strings.TrimSuffix(g.dir, "/")+"/"+name != dir {
		return nil, fmt.Errorf("%w: the sandbox's git listed the repository %q", ErrUnsafe, shown(name))
	}
	_, err := atoll.Stat(ctx, g.sb, path.Join(dir, ".git"))
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return list, nil // a submodule that is not checked out
	case err != nil:
		return nil, err
	case len(list) >= mostNested:
		return nil, fmt.Errorf("%w: %s holds more than %d other repositories", ErrTooLarge, shown(g.dir), mostNested)
	}
	return append(list, name), nil
}

// commitWork makes the commit of an index that has everything.
func (g guest) commitWork(ctx context.Context, t insideTree, staged string) (string, error) {
	tree, err := g.object(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	if t.Commit == "" {
		empty, err := g.object(ctx, "hash-object", "-t", "tree", "--stdin")
		if err != nil || tree == empty {
			return "", err
		}
		return g.object(ctx, "commit-tree", tree, "-m", "uncommitted work")
	}
	head, err := g.object(ctx, "rev-parse", "--verify", t.Commit+"^{tree}")
	if err != nil {
		return "", err
	}
	ofIndex := staged != "" && staged != head && staged != tree
	if tree == head && !ofIndex {
		return "", nil
	}
	args := []string{"commit-tree", tree, "-m", "uncommitted work", "-p", t.Commit}
	if ofIndex {
		index, err := g.object(ctx, "commit-tree", staged, "-m", "staged work", "-p", t.Commit)
		if err != nil {
			return "", err
		}
		args = append(args, "-p", index)
	}
	return g.object(ctx, args...)
}
