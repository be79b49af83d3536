package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// WorktreesDir is the directory of the working trees of branches in a sandbox. Each has its branch's name.
const WorktreesDir = Workspace + "/.worktrees"

// Worktree is a working tree of a sandbox.
type Worktree struct {
	Branch string // safe to print; empty: detached
	Path   string // safe to print
	Commit string // empty: none yet
	Main   bool   // it is the workspace itself
}

// Worktrees lists the working trees of a sandbox's repository, the main one
// first.
func Worktrees(ctx context.Context, sb atoll.Sandbox) ([]Worktree, error) {
	trees, err := guest{sb: sb, dir: Workspace}.listTrees(ctx)
	if err != nil {
		return nil, &atoll.Error{Op: "list worktrees", ID: sb.ID(), Err: err}
	}
	list := make([]Worktree, len(trees))
	for i, t := range trees {
		list[i] = Worktree{Branch: printable(t.Branch), Path: printable(t.Path), Commit: t.Commit, Main: i == 0}
	}
	return list, nil
}

// AddWorktree creates a working tree for a branch of the sandbox. A missing branch is created at the
// commit of the main working tree. The new tree gets the imported files that git does not track. A branch
// that has a working tree is ErrExists.
func AddWorktree(ctx context.Context, sb atoll.Sandbox, branch string) (Worktree, error) {
	t, err := addWorktree(ctx, guest{sb: sb, dir: Workspace}, branch)
	if err != nil {
		return t, &atoll.Error{Op: "add worktree", ID: sb.ID(), Err: err}
	}
	return t, nil
}

func addWorktree(ctx context.Context, g guest, branch string) (Worktree, error) {
	if err := CheckBranch(branch); err != nil {
		return Worktree{}, err
	}
	trees, err := g.listTrees(ctx)
	if err != nil {
		return Worktree{}, err
	}
	where := path.Join(WorktreesDir, branch)
	for _, t := range trees {
		switch {
		case t.Branch == branch:
			return Worktree{}, fmt.Errorf("%w: branch %s has the working tree %s", atoll.ErrExists, branch, printable(t.Path))
		case strings.HasPrefix(where, t.Path+"/") && strings.HasPrefix(t.Path, WorktreesDir+"/"):
			return Worktree{}, fmt.Errorf("%w: %s would be inside of the working tree %s", atoll.ErrExists, where, printable(t.Path))
		}
	}
	if trees[0].Commit == "" {
		return Worktree{}, fmt.Errorf("%w: the sandbox's repository has no commit yet", atoll.ErrState)
	}
	if _, err := atoll.Stat(ctx, g.sb, where); !errors.Is(err, atoll.ErrNotFound) {
		if err == nil {
			err = fmt.Errorf("%w: %s is another file or directory", atoll.ErrExists, where)
		}
		return Worktree{}, err
	}
	_, code, err := g.runStatus(ctx, "show-ref", "--verify", "--quiet", "refs/heads/"+branch)
	if err != nil {
		return Worktree{}, err
	}
	args := []string{"worktree", "add", "--quiet"}
	if code == 0 {
		args = append(args, where, branch)
	} else {
		args = append(args, "--no-track", "-b", branch, where, trees[0].Commit)
	}
	if err := g.run(ctx, nil, nil, args...); err != nil {
		if isGuestError(err) {
			err = g.wrapLocked(ctx, branch, err)
		}
		return Worktree{}, err
	}
	if err := g.copyImported(ctx, where); err != nil {
		return Worktree{}, err
	}
	commit, err := g.runObjectID(ctx, "rev-parse", "--verify", "refs/heads/"+branch)
	return Worktree{Branch: branch, Path: where, Commit: commit}, err
}

// wrapLocked makes an error of git inside ErrLocked if a lock file exists that prevents a new working tree.
func (g guest) wrapLocked(ctx context.Context, branch string, err error) error {
	dir := path.Join(g.dir, ".git")
	for _, name := range []string{"index", "HEAD", "config", "packed-refs", "refs/heads/" + branch, "worktrees/" + path.Base(branch) + "/index", "worktrees/" + path.Base(branch) + "/HEAD"} {
		lock := path.Join(dir, name+".lock")
		if info, serr := atoll.Stat(ctx, g.sb, lock); serr == nil {
			return fmt.Errorf("%w: %s is there since %s, in the sandbox: if no git is at work there, remove it, and say it again (%w)", ErrLocked, lock, info.ModTime().Format(time.DateTime), err)
		}
	}
	return err
}

// HasBranch reports whether a sandbox's repository has a branch.
func HasBranch(ctx context.Context, sb atoll.Sandbox, branch string) (bool, error) {
	err := CheckBranch(branch)
	code := 0
	if err == nil {
		_, code, err = guest{sb: sb, dir: Workspace}.runStatus(ctx, "show-ref", "--verify", "--quiet", "refs/heads/"+branch)
	}
	if err != nil {
		return false, &atoll.Error{Op: "find branch", ID: sb.ID(), Err: err}
	}
	return code == 0, nil
}

// maxImportedFiles limits the number of imported files that a new working tree gets.
const maxImportedFiles = 1000

// copyImported copies the imported files that git does not track to another working tree. Files that were
// removed since are skipped.
func (g guest) copyImported(ctx context.Context, where string) error {
	rc, err := atoll.OpenFile(ctx, g.sb, path.Join(g.dir, importedFilesName))
	if errors.Is(err, atoll.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := io.ReadAll(io.LimitReader(rc, maxGuestOutput))
	if err = errors.Join(err, rc.Close()); err != nil {
		return err
	}
	list := splitTerminated(string(names), "\x00")
	for _, name := range list[:min(len(list), maxImportedFiles)] {
		from, to := path.Join(g.dir, name), path.Join(where, name)
		if !strings.HasPrefix(to, where+"/") {
			continue
		}
		info, err := atoll.Stat(ctx, g.sb, from)
		if errors.Is(err, atoll.ErrNotFound) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return err
		}
		if err := atoll.Mkdir(ctx, g.sb, path.Dir(to), 0o755); err != nil {
			return err
		}
		exit, err := g.sb.Exec(ctx, atoll.Cmd{Internal: true, Args: []string{"cp", "-p", "--", from, to}, Timeout: guestTimeout})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("copy %s in the sandbox: exit status %d: %s", printable(name), exit.Code, printable(string(exit.Stderr)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveWorktree removes the working tree of a branch and keeps the branch. Uncommitted work is ErrUnsaved
// unless force is Discard; the main working tree is ErrInvalid.
func RemoveWorktree(ctx context.Context, sb atoll.Sandbox, branch string, force Force) error {
	if err := removeWorktree(ctx, guest{sb: sb, dir: Workspace}, branch, force); err != nil {
		return &atoll.Error{Op: "remove worktree", ID: sb.ID(), Err: err}
	}
	return nil
}

// Force is a permission to lose something.
type Force string

// The permissions.
const (
	KeepWork    Force = ""        // lose nothing
	DiscardWork Force = "discard" // discard uncommitted work
)

func removeWorktree(ctx context.Context, g guest, branch string, force Force) error {
	if err := CheckBranch(branch); err != nil {
		return err
	}
	trees, err := g.listTrees(ctx)
	if err != nil {
		return err
	}
	for i, t := range trees {
		if t.Branch != branch {
			continue
		}
		if i == 0 {
			return fmt.Errorf("%w: branch %s is checked out in the workspace itself", atoll.ErrInvalid, branch)
		}
		if force != DiscardWork {
			if err := g.checkSaved(ctx, t); err != nil {
				return err
			}
		}
		// --force twice also removes a locked working tree.
		if err := g.run(ctx, nil, nil, "worktree", "remove", "--force", "--force", t.Path); err != nil {
			return err
		}
		return g.unsetBranchKeys(ctx, branch, "port", "terminal")
	}
	return fmt.Errorf("branch %s has no working tree: %w", branch, atoll.ErrNotFound)
}

// checkSaved reports a working tree with uncommitted changes or untracked files, also in nested
// repositories.
func (g guest) checkSaved(ctx context.Context, t insideTree) error {
	out, err := g.inDir(t.Path).runOutput(ctx, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil {
		return err
	}
	var names []string
	for _, e := range splitTerminated(out, "\x00") {
		if len(e) > 3 {
			names = append(names, e[3:])
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: the working tree %s of branch %s has %s", ErrUnsaved, printable(t.Path), t.Branch, summarizeNames(names))
	}
	return nil
}
