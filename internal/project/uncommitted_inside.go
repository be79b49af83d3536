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

// Limits of a repository inside.
const (
	maxTrees   = 200    // working trees
	maxRefs    = 10_000 // branches, or tags
	maxNested  = 100    // nested repositories
	maxStashes = 1000
)

// insideTree is a working tree of the sandbox.
type insideTree struct {
	Path   string
	Branch string // empty: detached
	Commit string // empty: none yet
}

// listTrees lists the working trees of a repository inside, the main one first.
func (g guest) listTrees(ctx context.Context) ([]insideTree, error) {
	out, err := g.runOutput(ctx, "worktree", "list", "--porcelain", "-z")
	end := "\x00"
	if isGuestError(err) { // before 2.36
		out, err = g.runOutput(ctx, "worktree", "list", "--porcelain")
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
	for _, line := range splitTerminated(out, end) {
		word, rest, _ := strings.Cut(line, " ")
		if word == "worktree" {
			if gone {
				list = list[:len(list)-1]
			}
			list, gone = append(list, insideTree{Path: rest}), false
			if len(list) > maxTrees {
				return nil, fmt.Errorf("%w: the sandbox has more than %d working trees", ErrTooLarge, maxTrees)
			}
			continue
		}
		if len(list) == 0 {
			continue
		}
		t := &list[len(list)-1]
		switch word {
		case "HEAD":
			if !isObjectID(rest) {
				return nil, fmt.Errorf("%w: HEAD %q of a working tree", ErrUnsafe, printable(rest))
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

// listRefs lists refs inside. All must begin with prefix, which is removed from their names.
func (g guest) listRefs(ctx context.Context, prefix string, patterns ...string) ([]ref, error) {
	out, err := g.runOutput(ctx, append([]string{"for-each-ref", "--format=%(objectname) %(refname)"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var list []ref
	for _, l := range splitLines(out) {
		object, name, _ := strings.Cut(l, " ")
		name, ok := strings.CutPrefix(name, prefix)
		if !ok || !isObjectID(object) {
			return nil, fmt.Errorf("%w: the sandbox's git listed %q", ErrUnsafe, printable(l))
		}
		if list = append(list, ref{name, object}); len(list) > maxRefs {
			return nil, fmt.Errorf("%w: the sandbox has more than %d of %s", ErrTooLarge, maxRefs, prefix)
		}
	}
	return list, nil
}

// listStashes lists the stashes inside, newest first.
func (g guest) listStashes(ctx context.Context) ([]string, error) {
	if _, code, err := g.runStatus(ctx, "rev-parse", "-q", "--verify", "refs/stash"); err != nil || code != 0 {
		return nil, err
	}
	out, err := g.runOutput(ctx, "rev-list", "--walk-reflogs", fmt.Sprintf("--max-count=%d", maxStashes+1), "refs/stash")
	if err != nil {
		return nil, err
	}
	list := splitLines(out)
	if len(list) > maxStashes {
		return nil, fmt.Errorf("%w: the sandbox has more than %d stashes", ErrTooLarge, maxStashes)
	}
	for _, id := range list {
		if !isObjectID(id) {
			return nil, fmt.Errorf("%w: the sandbox's git listed the stash %q", ErrUnsafe, printable(id))
		}
	}
	return list, nil
}

// commitUncommitted creates a commit inside of everything in a working tree that HEAD does not have,
// untracked files too, without touching its index. It returns "" if there is nothing. The first parent is
// HEAD. The second parent, if it differs from both, has the staged changes. nested are the nested
// repositories, which are not part of the commit.
func (g guest) commitUncommitted(ctx context.Context, t insideTree) (commit string, nested []string, err error) {
	g = g.inDir(t.Path)
	gitDir, err := g.runLine(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", nil, err
	}
	if err := g.removeOldIndexes(ctx, gitDir, time.Now()); err != nil {
		return "", nil, err
	}
	// The name is unique, so that files left by a killed git don't collide.
	index := path.Join(gitDir, fmt.Sprintf("%s%d-%s", indexPrefix, time.Now().Unix(), rand.Text()))
	defer joinClose(&err, func() error { return g.removeIndex(context.WithoutCancel(ctx), index) })
	said := &tailBuffer{max: 2000}
	exit, err := g.sb.Exec(ctx, atoll.Cmd{Internal: true, Args: []string{"cp", "-p", "--", path.Join(gitDir, "index"), index}, Env: []string{"LC_ALL=C"}, Stderr: said, Timeout: guestTimeout})
	if err != nil {
		return "", nil, err
	}
	if exit.Code != 0 {
		if _, err := atoll.Stat(ctx, g.sb, path.Join(gitDir, "index")); !errors.Is(err, atoll.ErrNotFound) {
			return "", nil, errors.Join(fmt.Errorf("copy the index of %s in the sandbox: exit status %d: %s", printable(t.Path), exit.Code, said.printable()), err)
		}
	}
	g = g.withEnv(append(identity, "GIT_INDEX_FILE="+index)...)
	modules, others, err := g.listNested(ctx)
	if err != nil {
		return "", nil, err
	}
	staged, err := g.runObjectID(ctx, "write-tree")
	if err != nil && !isGuestError(err) { // during a merge there is no tree of staged changes
		return "", nil, err
	}
	if err := g.addAll(ctx, others); err != nil {
		return "", nil, fmt.Errorf("uncommitted work in %s: %w", printable(t.Path), err)
	}
	date := "86400"
	if t.Commit != "" {
		// Equal work makes an equal commit.
		if date, err = g.runLine(ctx, "log", "-1", "--format=%ct", t.Commit); err != nil {
			return "", nil, err
		}
	}
	if strings.Trim(date, "0123456789") != "" {
		return "", nil, fmt.Errorf("%w: commit %s has the time %q", ErrUnsafe, t.Commit, printable(date))
	}
	g = g.withEnv("GIT_AUTHOR_DATE=@"+date+" +0000", "GIT_COMMITTER_DATE=@"+date+" +0000")
	commit, err = g.commitWork(ctx, t, staged)
	return commit, append(modules, others...), err
}

// indexPrefix is the prefix of temporary indexes; a time follows.
const indexPrefix = "atoll-index-"

// removeOldIndexes removes temporary indexes that were left behind when a connection was lost.
func (g guest) removeOldIndexes(ctx context.Context, gitDir string, now time.Time) error {
	entries, err := atoll.ReadDir(ctx, g.sb, gitDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), indexPrefix)
		at, _, _ := strings.Cut(rest, "-")
		made, err := strconv.ParseInt(at, 10, 64)
		if !ok || err != nil || now.Sub(time.Unix(made, 0)) < 2*guestTimeout || !isPlainName(e.Name()) {
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

// addAll stages everything except the content of untracked nested repositories.
func (g guest) addAll(ctx context.Context, others []string) error {
	specs := ":/\x00"
	for _, n := range others {
		specs += ":(top,exclude,literal)" + n + "\x00"
	}
	g = g.withEnv("GIT_LITERAL_PATHSPECS=0")
	_, err := g.runWithInput(ctx, specs, "add", "-A", "--pathspec-from-file=-", "--pathspec-file-nul")
	return err
}

// listNested lists the nested repositories in a working tree: submodules, and untracked ones.
func (g guest) listNested(ctx context.Context) (modules, others []string, err error) {
	tracked, err := g.runOutput(ctx, "ls-files", "-z", "--stage")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range splitTerminated(tracked, "\x00") {
		if info, name, ok := strings.Cut(e, "\t"); ok && strings.HasPrefix(info, "160000 ") {
			if modules, err = g.appendRepository(ctx, modules, name); err != nil {
				return nil, nil, err
			}
		}
	}
	untracked, err := g.runOutput(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range splitTerminated(untracked, "\x00") {
		if name, ok := strings.CutSuffix(e, "/"); ok {
			if others, err = g.appendRepository(ctx, others, name); err != nil {
				return nil, nil, err
			}
		}
	}
	return modules, others, nil
}

// appendRepository appends a directory if it is a repository.
func (g guest) appendRepository(ctx context.Context, list []string, name string) ([]string, error) {
	dir := path.Join(g.dir, name)
	if strings.TrimSuffix(g.dir, "/")+"/"+name != dir {
		return nil, fmt.Errorf("%w: the sandbox's git listed the repository %q", ErrUnsafe, printable(name))
	}
	_, err := atoll.Stat(ctx, g.sb, path.Join(dir, ".git"))
	switch {
	case errors.Is(err, atoll.ErrNotFound):
		return list, nil // a submodule that is not checked out
	case err != nil:
		return nil, err
	case len(list) >= maxNested:
		return nil, fmt.Errorf("%w: %s holds more than %d other repositories", ErrTooLarge, printable(g.dir), maxNested)
	}
	return append(list, name), nil
}

// commitWork creates the commit of an index that contains everything.
func (g guest) commitWork(ctx context.Context, t insideTree, staged string) (string, error) {
	tree, err := g.runObjectID(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	if t.Commit == "" {
		empty, err := g.runObjectID(ctx, "hash-object", "-t", "tree", "--stdin")
		if err != nil || tree == empty {
			return "", err
		}
		return g.runObjectID(ctx, "commit-tree", tree, "-m", "uncommitted work")
	}
	head, err := g.runObjectID(ctx, "rev-parse", "--verify", t.Commit+"^{tree}")
	if err != nil {
		return "", err
	}
	ofIndex := staged != "" && staged != head && staged != tree
	if tree == head && !ofIndex {
		return "", nil
	}
	args := []string{"commit-tree", tree, "-m", "uncommitted work", "-p", t.Commit}
	if ofIndex {
		index, err := g.runObjectID(ctx, "commit-tree", staged, "-m", "staged work", "-p", t.Commit)
		if err != nil {
			return "", err
		}
		args = append(args, "-p", index)
	}
	return g.runObjectID(ctx, args...)
}
