package project

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// defaultArtifacts are directories in which builds leave what they make.
var defaultArtifacts = []string{"dist", "build", "target", ".next", "out"}

// Artifacts says which files come home that git does not carry.
type Artifacts struct {
	// Patterns name files and directories by their path in the workspace, where
	// "*" and "?" stand for anything in one part: "dist", "packages/*/dist",
	// "*.whl". Nil: dist, build, target, .next and out.
	Patterns []string

	DryRun bool
	Bytes  int64 // of all files; 0: 4 GiB
	Files  int   // 0: 200,000
}

// Taken is what came of artifacts, or would.
type Taken struct {
	Files   int
	Bytes   int64
	Skipped []string // with why, as people may see them; the first hundred
}

// Artifacts brings files that match patterns from the workspace to the same
// places of the host. It writes nothing outside of the working tree, through no link,
// nothing that git tracks, and over no file but one that git ignores: what is
// in the way stays, and is in Skipped. Links and what is no file stay inside.
func (r *Repo) Artifacts(ctx context.Context, sb atoll.Sandbox, a Artifacts) (*Taken, error) {
	taken, err := r.artifacts(ctx, sb, a)
	if err != nil {
		return taken, &atoll.Error{Op: "artifacts", ID: sb.ID(), Err: err}
	}
	return taken, nil
}

func (r *Repo) artifacts(ctx context.Context, sb atoll.Sandbox, a Artifacts) (*Taken, error) {
	if a.Patterns == nil {
		a.Patterns = defaultArtifacts
	}
	if a.Bytes == 0 {
		a.Bytes = 4 << 30
	}
	if a.Files == 0 {
		a.Files = 200_000
	}
	var found []string
	for _, p := range a.Patterns {
		if err := patternFault(p); err != nil {
			return nil, err
		}
		list, err := expand(ctx, sb, "", strings.Split(strings.Trim(p, "/"), "/"))
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	slices.Sort(found)
	take, err := r.taker(ctx, a)
	if err != nil {
		return nil, err
	}
	for i, name := range slices.Compact(found) {
		if i > 0 && slices.ContainsFunc(found[:i], func(f string) bool { return strings.HasPrefix(name, f+"/") }) {
			continue // it is in a directory that comes as a whole
		}
		if err = take.from(ctx, sb, name); err != nil {
			break
		}
	}
	slices.Sort(take.Skipped)
	return &take.Taken, errors.Join(err, take.close())
}

func patternFault(p string) error {
	clean := strings.Trim(p, "/")
	if clean == "" || path.Clean(clean) != clean || strings.HasPrefix(clean, "..") || strings.ContainsAny(p, "\x00[\\") || strings.HasPrefix(p, "/") || slices.ContainsFunc(strings.Split(clean, "/"), inGitDir) {
		return fmt.Errorf("%w: pattern %q of artifacts: it must be a path in the workspace, not in .git, of names with '*' and '?'", atoll.ErrInvalid, shown(p))
	}
	return nil
}

// inGitDir reports a part of a path that is git's own, in any spelling that a
// file system takes for it.
func inGitDir(part string) bool {
	return strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1")
}

// expand finds what a pattern's parts name below a directory of the workspace.
func expand(ctx context.Context, sb atoll.Sandbox, dir string, parts []string) ([]string, error) {
	entries, err := atoll.ReadDir(ctx, sb, path.Join(Workspace, dir))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if ok, err := path.Match(parts[0], e.Name()); err != nil || !ok || !plain(e.Name()) {
			continue
		}
		name := path.Join(dir, e.Name())
		switch {
		case len(parts) == 1:
			found = append(found, name)
		case e.IsDir():
			below, err := expand(ctx, sb, name, parts[1:])
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		}
	}
	return found, nil
}

// plain reports whether a name out of the sandbox is one of a file.
func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00") && !inGitDir(name)
}

// taker writes artifacts.
type taker struct {
	Taken
	a       Artifacts
	root    *os.Root
	tracked map[string]bool // files that git tracks
	ignored map[string]bool // files that the host has, and git ignores
}

func (r *Repo) taker(ctx context.Context, a Artifacts) (*taker, error) {
	out, err := r.host.output(ctx, "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	t := &taker{a: a, tracked: make(map[string]bool), ignored: make(map[string]bool)}
	for _, name := range split(out, "\x00") {
		t.tracked[name] = true
	}
	if out, err = r.host.output(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard"); err != nil {
		return nil, err
	}
	for _, name := range split(out, "\x00") {
		t.ignored[name] = true
	}
	t.root, err = os.OpenRoot(r.Dir)
	return t, err
}

func (t *taker) close() error { return t.root.Close() }

func (t *taker) skip(name, why string) {
	const most = 100
	if len(t.Skipped) < most {
		t.Skipped = append(t.Skipped, shown(name)+": "+why)
	}
}

// from takes a file or a directory of the workspace.
func (t *taker) from(ctx context.Context, sb atoll.Sandbox, name string) (err error) {
	rc, err := sb.Export(ctx, path.Join(Workspace, name))
	if err != nil {
		return err
	}
	whole := false
	defer func() {
		if cerr := rc.Close(); whole {
			err = errors.Join(err, cerr)
		}
	}()
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			whole = true
			return nil
		}
		if err != nil {
			return err
		}
		if err := t.one(path.Dir(name), h, tr); err != nil {
			return err
		}
	}
}

// one takes an entry of an archive whose names start below dir.
func (t *taker) one(dir string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return nil // made for what is in it
	}
	name := path.Join(dir, h.Name)
	for part := range strings.SplitSeq(strings.TrimSuffix(h.Name, "/"), "/") {
		if !plain(part) {
			t.skip(h.Name, "it is not the name of a file")
			return nil
		}
	}
	if h.Typeflag != tar.TypeReg {
		t.skip(name, "it is not a regular file")
		return nil
	}
	if t.Files++; t.Files > t.a.Files {
		return fmt.Errorf("%w: artifacts are more than %d files", ErrTooLarge, t.a.Files)
	}
	if t.Bytes += h.Size; t.Bytes > t.a.Bytes {
		return fmt.Errorf("%w: artifacts are more than %d bytes", ErrTooLarge, t.a.Bytes)
	}
	why, err := t.blocked(name)
	if err != nil {
		return err
	}
	if why != "" {
		t.skip(name, why)
		t.Files, t.Bytes = t.Files-1, t.Bytes-h.Size
		return nil
	}
	if t.a.DryRun {
		return nil
	}
	mode := fs.FileMode(0o644)
	if h.Mode&0o100 != 0 {
		mode = 0o755
	}
	return t.write(name, mode, content)
}

// blocked says why a file can't be written; empty: it can.
func (t *taker) blocked(name string) (string, error) {
	if t.tracked[name] {
		return "git tracks it", nil
	}
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		info, err := t.root.Lstat(filepath.FromSlash(at))
		switch {
		case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		case err != nil:
			return "", err
		case !info.IsDir():
			return at + " of the host is not a directory", nil
		}
		if t.tracked[at] {
			return "git tracks " + shown(at), nil
		}
	}
	info, err := t.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "something else is there on the host", nil
	}
	if t.ignored[name] {
		return "", nil
	}
	return "the host has it, and git does not ignore it", nil
}

// write replaces a file in one step.
func (t *taker) write(name string, mode fs.FileMode, content io.Reader) (err error) {
	file := filepath.FromSlash(name)
	if err := t.root.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(file), ".atoll-"+digest(name)+".tmp")
	if err := t.root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return err
	}
	f, err := t.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.root.Rename(tmp, file)
	}
	if err != nil {
		return errors.Join(err, t.root.Remove(tmp))
	}
	return nil
}
