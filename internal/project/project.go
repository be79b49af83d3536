// Package project carries a git repository into a sandbox and its work back
// home. The host's git does git's work, on objects that are checked before they
// are the repository's; nothing that a repository holds is run on the host, and
// nothing inside is ever given a way to reach it.
//
// What comes out of a sandbox is kept beneath refs/sandbox/NAME: a branch as
// NAME/BRANCH, uncommitted work as NAME/wip/BRANCH, what was rescued as
// NAME/rescue/TIME/….
package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/atoll-sandbox/atoll"
)

// The reasons that only projects have; each matches one of atoll's too.
var (
	ErrNoRepository error = &reason{"no git repository", atoll.ErrNotFound}
	ErrUnreadable   error = &reason{"git can't use this repository", ErrNoRepository} // there is one, but it is another's, damaged or closed
	ErrNoGit        error = &reason{"no git", atoll.ErrUnavailable}                   // on the host, or in the sandbox
	ErrBare         error = &reason{"bare repository", atoll.ErrInvalid}              // it has no files to work on
	ErrNothing      error = &reason{"nothing new", atoll.ErrNotFound}                 // there is nothing to bring home
	ErrDirty        error = &reason{"uncommitted work", atoll.ErrState}               // on the host, where something would be written
	ErrDiverged     error = &reason{"branches diverged", atoll.ErrState}              // both sides have commits
	ErrConflict     error = &reason{"merge conflict", atoll.ErrState}                 // git can't join the two
	ErrUnsaved      error = &reason{"unsaved work", atoll.ErrState}                   // inside, in what would be removed
	ErrDetached     error = &reason{"no branch", atoll.ErrState}                      // HEAD is a commit
	ErrUnsafe       error = &reason{"unsafe content", atoll.ErrDenied}                // git's checks refuse what came out
	ErrTooLarge     error = &reason{"more than is taken", atoll.ErrQuota}             // what came out, or would go in
	ErrFull         error = &reason{"no room on the host", ErrTooLarge}               // its disk is full
	ErrLocked       error = &reason{"locked", atoll.ErrState}                         // another git is at work on the host's repository, or was killed
	ErrMoved        error = &reason{"changed meanwhile", atoll.ErrState}              // somebody else was at work; again may work
)

// reason is an error that says more than the one of atoll's that it matches, and
// so does not repeat that.
type reason struct {
	text string
	kind error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.kind }

// Workspace is where the repository is in a sandbox.
const Workspace = atoll.DefaultDir

// Repo is a repository of the host, at one of its working trees. Its methods
// may be called at once from many goroutines and processes.
type Repo struct {
	Dir string // top of the working tree

	host    host
	gitDir  string // of this working tree: .git, or .git/worktrees/x
	common  string // of all working trees
	format  string // "sha1" or "sha256"
	shallow bool
	prefix  string // inside the repository it is a submodule of, with a slash at its end; empty: it is none
}

// Open finds the repository that a directory of the host is in; a linked
// working tree and a submodule are one of their own. ErrNoRepository, ErrBare
// and ErrNoGit say why there is none.
func Open(ctx context.Context, path string) (*Repo, error) {
	git, err := findGit(ctx)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: %w: it must be a directory (%w)", abs, ErrNoRepository, orNotDir(err))
	}
	h := host{path: git, dir: abs}
	facts, err := h.lines(ctx, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--show-object-format", "--is-shallow-repository")
	var bad *gitError
	switch {
	case errors.As(err, &bad):
		return nil, fmt.Errorf("%s: %w", abs, notOne(abs, bad))
	case err != nil:
		return nil, err
	case len(facts) != 4:
		return nil, fmt.Errorf("%s: git rev-parse said %d lines, 4 were expected", abs, len(facts))
	case facts[0] == "true":
		return nil, fmt.Errorf("%s: %w: 'git worktree add' makes a working tree of it", abs, ErrBare)
	case facts[1] != "true":
		return nil, fmt.Errorf("%s: %w: it is inside of a .git directory; open the working tree", abs, ErrNoRepository)
	}
	r := &Repo{host: h, format: facts[2], shallow: facts[3] == "true"}
	// One path a call: any may hold newlines.
	for _, p := range []struct {
		to   *string
		flag string
	}{{&r.Dir, "--show-toplevel"}, {&r.gitDir, "--absolute-git-dir"}, {&r.common, "--git-common-dir"}} {
		out, err := h.output(ctx, "rev-parse", "--path-format=absolute", p.flag)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", abs, err)
		}
		*p.to = strings.TrimSuffix(out, "\n")
	}
	r.host.dir, r.host.gitDir, r.host.workTree = r.Dir, r.gitDir, r.Dir
	return r, nil
}

// notOne says why git finds no repository at a directory.
func notOne(dir string, bad *gitError) error {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			if _, err := os.ReadDir(filepath.Join(at, ".git")); errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("%w: %w", ErrUnreadable, err)
			}
			return fmt.Errorf("%w: %s", ErrUnreadable, strings.TrimPrefix(bad.said, "fatal: "))
		}
		if at == filepath.Dir(at) {
			return fmt.Errorf("%w, nor is it in one", ErrNoRepository)
		}
	}
}

func orNotDir(err error) error {
	if err != nil {
		return err
	}
	return errors.New("a file")
}

// Name proposes a name for the repository's sandbox: that of its directory, in
// the characters that names have.
func (r *Repo) Name() string {
	var b strings.Builder
	for _, c := range norm.NFKD.String(strings.ToLower(filepath.Base(r.Dir))) {
		switch {
		case unicode.Is(unicode.Mn, c): // ü is u and two dots
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 40 {
			break
		}
	}
	if name := strings.Trim(b.String(), "-"); name != "" {
		return name
	}
	return "project"
}

// ObjectFormat is how the repository names objects: "sha1" or "sha256".
func (r *Repo) ObjectFormat() string { return r.format }

// Head is where a working tree is.
type Head struct {
	Branch string // short; empty: detached
	Commit string // empty: the branch has none yet
}

// Head returns where the working tree of the host is.
func (r *Repo) Head(ctx context.Context) (Head, error) {
	var h Head
	out, code, err := r.host.status(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil {
		return h, err
	}
	if code == 0 {
		ref := strings.TrimSuffix(out, "\n")
		branch, ok := strings.CutPrefix(ref, "refs/heads/")
		if !ok {
			return h, fmt.Errorf("%w: HEAD is %s, which is no branch", atoll.ErrState, shown(ref))
		}
		h.Branch = branch
	}
	h.Commit, err = r.resolve(ctx, "HEAD^{commit}")
	if err == nil && h.Branch == "" && h.Commit == "" {
		err = fmt.Errorf("%w: HEAD names no commit", atoll.ErrState)
	}
	return h, err
}

// resolve returns the object that a revision names; empty: there is none.
func (r *Repo) resolve(ctx context.Context, rev string) (string, error) {
	out, code, err := r.host.status(ctx, "rev-parse", "-q", "--verify", "--end-of-options", rev)
	if err != nil || code != 0 {
		return "", err
	}
	return strings.TrimSuffix(out, "\n"), nil
}

// config returns a setting of the user or of the repository; empty: none.
func (r *Repo) config(ctx context.Context, key string) (string, error) {
	out, code, err := r.host.status(ctx, "config", "--get", key)
	if err != nil || code != 0 {
		return "", err
	}
	return strings.TrimSuffix(out, "\n"), nil
}
