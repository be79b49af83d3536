// Package project imports a git repository into a sandbox and brings the work back home. The host's
// git checks all objects before they become part of the repository. Nothing that a repository
// contains is executed on the host, and nothing inside gets a way to reach the host's repository.
//
// Work that is fetched from a sandbox is stored below refs/sandbox/NAME: a branch as NAME/BRANCH,
// uncommitted work as NAME/wip/BRANCH, rescued work as NAME/rescue/TIME/….
package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/atoll-sandbox/atoll"
)

// The errors of projects. Each matches one of atoll's errors too.
var (
	ErrNoRepository error = &reason{"no git repository", atoll.ErrNotFound}
	ErrUnreadable   error = &reason{"git can't use this repository", ErrNoRepository} // it belongs to another user, is damaged or not readable
	ErrNoGit        error = &reason{"no git", atoll.ErrUnavailable}                   // on the host, or in the sandbox
	ErrNoShell      error = &reason{"no shell", atoll.ErrUnavailable}                 // in the sandbox
	ErrBare         error = &reason{"bare repository", atoll.ErrInvalid}              // it has no working tree
	ErrNoNewWork    error = &reason{"nothing new", atoll.ErrNotFound}                 // the sandbox has no new work
	ErrDirty        error = &reason{"uncommitted work", atoll.ErrState}               // on the host, in files that would be written
	ErrDiverged     error = &reason{"branches diverged", atoll.ErrState}              // both sides have commits
	ErrConflict     error = &reason{"merge conflict", atoll.ErrState}                 // git can't merge the two
	ErrUnrelated    error = &reason{"unrelated histories", atoll.ErrState}            // the two have no commit in common
	ErrUnsaved      error = &reason{"unsaved work", atoll.ErrState}                   // inside, in files that would be removed
	ErrDetached     error = &reason{"no branch", atoll.ErrState}                      // HEAD is a commit
	ErrUnsafe       error = &reason{"unsafe content", atoll.ErrDenied}                // git's checks refuse what the sandbox sent
	ErrTooLarge     error = &reason{"too large", atoll.ErrQuota}                      // more data than the limits allow
	ErrDiskFull     error = &reason{"no space on the host", ErrTooLarge}              // the host's disk is full
	ErrLocked       error = &reason{"locked", atoll.ErrState}                         // another git works on the host's repository, or was killed
	ErrMoved        error = &reason{"changed meanwhile", atoll.ErrState}              // by another process; trying again may work
)

// reason is an error that matches another one without repeating its text.
type reason struct {
	text string
	kind error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.kind }

// Workspace is the path of the repository in a sandbox.
const Workspace = atoll.DefaultDir

// Repo is one working tree of a repository on the host. Its methods may be called concurrently, also
// from several processes.
type Repo struct {
	Dir string // top of the working tree

	host    host
	gitDir  string // git directory of this working tree: .git, or .git/worktrees/x
	common  string // git directory that all working trees share
	format  string // "sha1" or "sha256"
	shallow bool
	prefix  string // path of this submodule in the outer repository, with a trailing slash; empty: not a submodule
}

// Open opens the repository that contains a directory of the host. A linked working tree and a
// submodule are repositories of their own. If there is none, the error is ErrNoRepository, ErrBare or
// ErrNoGit.
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
	facts, err := h.runLines(ctx, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--show-object-format", "--is-shallow-repository")
	var bad *gitError
	switch {
	case errors.As(err, &bad):
		return nil, fmt.Errorf("%s: %w", abs, explainNoRepository(abs, bad))
	case err != nil:
		return nil, err
	case len(facts) != 4:
		return nil, fmt.Errorf("%s: git rev-parse printed %d lines instead of 4", abs, len(facts))
	case facts[0] == "true":
		return nil, fmt.Errorf("%s: %w: create a working tree with 'git worktree add'", abs, ErrBare)
	case facts[1] != "true":
		return nil, fmt.Errorf("%s: %w: it is inside of a .git directory; open the working tree", abs, ErrNoRepository)
	}
	r := &Repo{host: h, format: facts[2], shallow: facts[3] == "true"}
	if err := r.findPaths(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", abs, err)
	}
	r.host.dir, r.host.gitDir, r.host.workTree = r.Dir, r.gitDir, r.Dir
	return r, nil
}

// findPaths sets the repository's directories.
func (r *Repo) findPaths(ctx context.Context) error {
	flags := []string{"--show-toplevel", "--absolute-git-dir", "--git-common-dir"}
	paths, err := r.host.runLines(ctx, append([]string{"rev-parse", "--path-format=absolute"}, flags...)...)
	if err != nil {
		return err
	}
	if len(paths) != len(flags) { // a path contains a newline
		paths = nil
		for _, flag := range flags {
			out, err := r.host.runOutput(ctx, "rev-parse", "--path-format=absolute", flag)
			if err != nil {
				return err
			}
			paths = append(paths, strings.TrimSuffix(out, "\n"))
		}
	}
	r.Dir, r.gitDir, r.common = paths[0], paths[1], paths[2]
	return nil
}

// explainNoRepository returns the reason why git finds no repository in a directory.
func explainNoRepository(dir string, bad *gitError) error {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			if _, err := os.ReadDir(filepath.Join(at, ".git")); errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("%w: %w", ErrUnreadable, err)
			}
			return fmt.Errorf("%w: %s", ErrUnreadable, strings.TrimPrefix(bad.stderr, "fatal: "))
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

// Name suggests a name for the repository's sandbox: the name of its directory, reduced to the
// characters that names may have.
func (r *Repo) Name() string {
	var b strings.Builder
	for _, c := range norm.NFKD.String(strings.ToLower(filepath.Base(r.Dir))) {
		switch {
		case unicode.Is(unicode.Mn, c): // ü is decomposed into u and two dots
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

// ObjectFormat returns the hash of the repository's object ids: "sha1" or "sha256".
func (r *Repo) ObjectFormat() string { return r.format }

// Head is the current position of a working tree.
type Head struct {
	Branch string // short name; empty: detached
	Commit string // empty: the branch has no commit yet
}

// Head returns the current branch and commit of the host's working tree.
func (r *Repo) Head(ctx context.Context) (Head, error) {
	var h Head
	ref, err := r.readHeadRef(ctx)
	if err != nil {
		return h, err
	}
	if ref != "" {
		branch, ok := strings.CutPrefix(ref, "refs/heads/")
		if !ok {
			return h, fmt.Errorf("%w: HEAD is %s, which is not a branch", atoll.ErrState, printable(ref))
		}
		h.Branch = branch
	}
	h.Commit, err = r.resolveRevision(ctx, "HEAD^{commit}")
	if err == nil && h.Branch == "" && h.Commit == "" {
		err = fmt.Errorf("%w: HEAD names no commit", atoll.ErrState)
	}
	return h, err
}

// readDetachedHead returns the commit of the host's working tree if it is on no branch, otherwise "".
func (r *Repo) readDetachedHead(ctx context.Context) (string, error) {
	ref, err := r.readHeadRef(ctx)
	if err != nil || strings.HasPrefix(ref, "refs/heads/") {
		return "", err
	}
	return r.resolveRevision(ctx, "HEAD^{commit}")
}

// readHeadRef returns the ref that HEAD names, or "" if it is detached. It reads git's file and starts git only if that has
// another form, as in repositories with reftables.
func (r *Repo) readHeadRef(ctx context.Context) (string, error) {
	name := filepath.Join(r.gitDir, "HEAD")
	info, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	var b []byte
	if info.Mode().IsRegular() { // with core.preferSymlinkRefs it is a link
		if b, err = os.ReadFile(name); err != nil {
			return "", err
		}
	}
	if text, ok := strings.CutSuffix(string(b), "\n"); ok {
		if ref, ok := strings.CutPrefix(text, "ref: "); ok && strings.HasPrefix(ref, "refs/heads/") && ref != "refs/heads/.invalid" && checkRefName(strings.TrimPrefix(ref, "refs/heads/")) == nil {
			return ref, nil
		}
		if isObjectID(text) {
			return "", nil
		}
	}
	out, code, err := r.host.runStatus(ctx, "symbolic-ref", "-q", "HEAD")
	if err != nil || code != 0 {
		return "", err
	}
	return strings.TrimSuffix(out, "\n"), nil
}

// resolveRevision returns the object id of a revision, or "" if it does not exist.
func (r *Repo) resolveRevision(ctx context.Context, rev string) (string, error) {
	out, code, err := r.host.runStatus(ctx, "rev-parse", "-q", "--verify", "--end-of-options", rev)
	if err != nil || code != 0 {
		return "", err
	}
	return strings.TrimSuffix(out, "\n"), nil
}

// readConfig returns a git setting of the user or the repository, or "" if it is not set.
func (r *Repo) readConfig(ctx context.Context, key string) (string, error) {
	out, code, err := r.host.runStatus(ctx, "config", "--get", key)
	if err != nil || code != 0 {
		return "", err
	}
	return strings.TrimSuffix(out, "\n"), nil
}

// identityPattern selects the settings of who commits.
const identityPattern = `^user\.(name|email)$`

// readIdentity returns the settings user.name and user.email that are not empty.
func (r *Repo) readIdentity(ctx context.Context) (map[string]string, error) {
	out, _, err := r.host.runStatus(ctx, "config", "-z", "--get-regexp", identityPattern)
	who := parseConfig(out)
	maps.DeleteFunc(who, func(_, value string) bool { return value == "" })
	return who, err
}

// parseConfig parses the output of 'git config -z --get-regexp'. Of several values of a setting the last counts.
func parseConfig(out string) map[string]string {
	settings := make(map[string]string)
	for _, s := range splitTerminated(out, "\x00") {
		key, value, _ := strings.Cut(s, "\n")
		settings[key] = value
	}
	return settings
}

// quoteConfig quotes a value for git's configuration file.
func quoteConfig(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value) + `"`
}

// listHostTrees lists the working trees of the host's repository. Git names the main one after the git directory if that is
// elsewhere, as that of a submodule is.
func (r *Repo) listHostTrees(ctx context.Context) ([]insideTree, error) {
	out, err := r.host.runOutput(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	trees, err := parseTrees(out, "\x00")
	if err != nil || !isSameFile(trees[0].Path, r.common) {
		return trees, err
	}
	if r.gitDir == r.common {
		trees[0].Path = r.Dir
		return trees, nil
	}
	main, err := r.readConfig(ctx, "core.worktree") // that of a submodule
	if err == nil && main != "" {
		if !filepath.IsAbs(main) {
			main = filepath.Join(r.common, main)
		}
		trees[0].Path = main
	}
	return trees, err
}

// isSameFile reports whether two paths lead to the same file.
func isSameFile(a, b string) bool {
	if a == b {
		return true
	}
	one, err1 := os.Stat(a)
	other, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}
