package project

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// Limits of a list of changes.
const (
	maxChangedFiles    = 2000
	maxChangedBranches = 500
)

// ChangesOptions select the changes of a repository in a sandbox.
type ChangesOptions struct {
	Dir    string // directory inside that is in the repository
	Branch string // empty: the one of the working tree at Dir
	Base   string // branch or commit that the branch is compared with; empty: chosen, see chooseBase
	View   string // wire.AllChanges…; empty: all
}

// ListChanges lists the changes of a repository in a sandbox, as its own git reports them: the host needs no
// git, and no repository. A sandbox without a repository at Dir: ErrNoRepository.
func ListChanges(ctx context.Context, sb atoll.Sandbox, o ChangesOptions) (*wire.Changes, error) {
	g := guest{sb: sb, dir: o.Dir}
	r := changeReader{guest: g}
	l, err := r.list(ctx, o)
	if err != nil {
		return nil, &atoll.Error{Op: "changes", ID: sb.ID(), Err: err}
	}
	return l, nil
}

// changeReader reads the changes of one repository.
type changeReader struct{ guest }

func (r changeReader) list(ctx context.Context, o ChangesOptions) (*wire.Changes, error) {
	trees, at, err := r.openRepository(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	l := &wire.Changes{Dir: at.Path, Branch: at.Branch, Files: []wire.ChangedFile{}}
	if l.Branches, l.Truncated, err = r.listBranches(ctx, trees); err != nil {
		return nil, err
	}
	tip := at.Commit
	if o.Branch != "" && o.Branch != at.Branch {
		i := slices.IndexFunc(l.Branches, func(b wire.ChangedBranch) bool { return b.Name == o.Branch })
		if i < 0 {
			return nil, fmt.Errorf("%w: branch %q", atoll.ErrNotFound, printable(o.Branch))
		}
		l.Branch, tip = o.Branch, l.Branches[i].Commit
		l.Tree = l.Branches[i].Tree
	} else {
		l.Tree = at.Path
	}
	if l.Tree != "" {
		l.Dir = l.Tree
		r.guest = r.inDir(l.Tree)
	}
	if err := r.choosePoints(ctx, l, o, tip, trees[0]); err != nil {
		return nil, err
	}
	changes, err := r.compare(ctx, l, trees)
	if err != nil {
		return nil, err
	}
	if len(changes) > maxChangedFiles {
		changes, l.Truncated = changes[:maxChangedFiles], true
	}
	return l, r.describe(ctx, l, changes)
}

// openRepository returns the working trees of the repository at dir, and the one that dir is in.
func (r changeReader) openRepository(ctx context.Context, dir string) ([]insideTree, insideTree, error) {
	top, err := r.runLine(ctx, "rev-parse", "--show-toplevel")
	if isGuestError(err) || errors.Is(err, atoll.ErrNotFound) {
		return nil, insideTree{}, fmt.Errorf("%w at %s in the sandbox", ErrNoRepository, printable(dir))
	}
	if err != nil {
		return nil, insideTree{}, err
	}
	trees, err := r.listTrees(ctx)
	if err != nil {
		return nil, insideTree{}, err
	}
	if i := slices.IndexFunc(trees, func(t insideTree) bool { return t.Path == top }); i >= 0 {
		return trees, trees[i], nil
	}
	return trees, trees[0], nil
}

// listBranches lists the branches with their working trees.
func (r changeReader) listBranches(ctx context.Context, trees []insideTree) (list []wire.ChangedBranch, more bool, err error) {
	list = []wire.ChangedBranch{}
	out, err := r.runOutput(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
	if err != nil {
		return nil, false, err
	}
	for _, line := range splitLines(out) {
		id, ref, _ := strings.Cut(line, " ")
		name, ok := strings.CutPrefix(ref, "refs/heads/")
		if !ok || !isObjectID(id) || !utf8.ValidString(name) {
			continue // the sandbox's git is not trusted to print only valid names
		}
		if len(list) == maxChangedBranches {
			return list, true, nil
		}
		b := wire.ChangedBranch{Name: name, Commit: id}
		if i := slices.IndexFunc(trees, func(t insideTree) bool { return t.Branch == name }); i >= 0 {
			b.Tree = trees[i].Path
		}
		list = append(list, b)
	}
	return list, false, nil
}

// choosePoints sets the two states that are compared. tip is the newest commit of the branch; empty: it has
// none yet.
func (r changeReader) choosePoints(ctx context.Context, l *wire.Changes, o ChangesOptions, tip string, first insideTree) error {
	uncommitted := l.Tree != "" && o.View != wire.CommittedChanges
	if !uncommitted {
		l.Tree, l.To = "", tip
	}
	if o.View == wire.UncommittedChanges {
		if !uncommitted { // the branch is in no working tree
			l.To = tip
		}
		l.From = tip
		return nil
	}
	if tip == "" {
		return nil
	}
	base, err := r.chooseBase(ctx, l.Branch, o.Base, first)
	if err != nil {
		return err
	}
	if base == "" {
		l.From = tip
		return nil
	}
	l.Base = base
	l.From, _, err = r.runStatus(ctx, "merge-base", base, tip)
	if l.From = strings.TrimSuffix(l.From, "\n"); err == nil && l.From != "" && !isObjectID(l.From) {
		err = fmt.Errorf("git merge-base in the sandbox: %w: it printed %q", ErrUnsafe, printable(l.From))
	}
	return err
}

// chooseBase returns the name or id of the commit that a branch is compared with: asked if it is set, else its
// upstream branch, else the branch of the main working tree, else the commit at which the branch came into this
// repository, by its reflog. Empty: there is none.
func (r changeReader) chooseBase(ctx context.Context, branch, asked string, first insideTree) (string, error) {
	if asked != "" {
		if !isObjectID(asked) {
			if err := CheckBranch(asked); err != nil {
				return "", err
			}
		}
		_, code, err := r.runStatus(ctx, "rev-parse", "--verify", "--quiet", asked+"^{commit}")
		if err == nil && code != 0 {
			err = fmt.Errorf("%w: base %q", atoll.ErrNotFound, printable(asked))
		}
		return asked, err
	}
	if branch == "" {
		return "", nil
	}
	up, err := r.runLine(ctx, "for-each-ref", "--format=%(upstream:short)", "refs/heads/"+branch)
	if err != nil {
		return "", err
	}
	if up != "" && CheckBranch(up) == nil {
		if _, code, err := r.runStatus(ctx, "rev-parse", "--verify", "--quiet", up+"^{commit}"); err != nil || code == 0 {
			return up, err
		}
	}
	if first.Branch != branch && first.Commit != "" && CheckBranch(first.Branch) == nil {
		return first.Branch, nil
	}
	log, err := r.runOutput(ctx, "reflog", "show", "--format=%H", "refs/heads/"+branch)
	if isGuestError(err) {
		return "", nil // it has no reflog
	}
	lines := splitLines(log)
	if err != nil || len(lines) == 0 || !isObjectID(lines[len(lines)-1]) {
		return "", err
	}
	return lines[len(lines)-1], nil
}

// compare lists the changes between the two states, untracked files last; their oldMode and mode are empty.
// Repositories inside are listed, but not the working trees of this one.
func (r changeReader) compare(ctx context.Context, l *wire.Changes, trees []insideTree) ([]change, error) {
	from := l.From
	if from == "" {
		tree, err := r.runObjectID(ctx, "hash-object", "-t", "tree", "--stdin")
		if err != nil {
			return nil, err
		}
		from = tree
	}
	args := []string{"diff", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-abbrev", from}
	if l.To != "" {
		args = append(args, l.To)
	}
	out, err := r.runOutput(ctx, append(args, "--")...)
	if err != nil {
		return nil, err
	}
	list, err := parseChanges(out)
	if err != nil || l.To != "" || l.Tree == "" {
		return list, err
	}
	out, err = r.runOutput(ctx, "ls-files", "--others", "--exclude-standard", "-z")
	for _, name := range splitTerminated(out, "\x00") {
		c := change{name: name}
		if nested, ok := strings.CutSuffix(name, "/"); ok { // a directory with a repository of its own
			c = change{name: nested, oldMode: "000000", mode: "160000"}
			if slices.ContainsFunc(trees, func(t insideTree) bool { return t.Path == path.Join(l.Tree, nested) }) {
				continue
			}
		}
		list = append(list, c)
	}
	return list, err
}

// ReadChange returns the content of a file in two states: of the commits from and to, or of the working tree
// dir if to is empty. Neither: the file does not exist there.
func ReadChange(ctx context.Context, sb atoll.Sandbox, dir, from, to, name string) (*wire.FileChange, error) {
	r := changeReader{guest{sb: sb, dir: dir}}
	c, err := r.readChange(ctx, from, to, name)
	if err != nil {
		return nil, &atoll.Error{Op: "changes", ID: sb.ID(), Err: err}
	}
	return c, nil
}

func (r changeReader) readChange(ctx context.Context, from, to, name string) (*wire.FileChange, error) {
	for _, commit := range []string{from, to} {
		if commit != "" && !isObjectID(commit) {
			return nil, fmt.Errorf("%w: %q must be the id of a commit", atoll.ErrInvalid, printable(commit))
		}
	}
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, "\x00") {
		return nil, fmt.Errorf("%w: %q must be a path in the repository", atoll.ErrInvalid, printable(name))
	}
	c := &wire.FileChange{Path: name}
	var err error
	if from != "" {
		if c.Old, err = r.readBlob(ctx, from, name); err != nil {
			return nil, err
		}
	}
	if to != "" {
		c.New, err = r.readBlob(ctx, to, name)
	} else {
		c.New, err = r.readTreeFile(ctx, name)
	}
	return c, err
}
