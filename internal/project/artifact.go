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
	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// defaultArtifacts are the usual output directories of builds.
var defaultArtifacts = []string{"dist", "build", "target", ".next", "out"}

// ArtifactOptions selects files outside of git that are copied to the host.
type ArtifactOptions struct {
	// Patterns select files and directories by their path in the workspace. "*" and "?" match
	// within one path component: "dist", "packages/*/dist", "*.whl". Nil: dist, build, target,
	// .next and out.
	Patterns []string

	DryRun bool
	Bytes  int64 // limit of the total size; 0: 4 GiB
	Files  int   // limit of the number of files; 0: 200,000
}

// ArtifactResult is the result of copying artifacts, or of a dry run.
type ArtifactResult struct {
	Files   int
	Bytes   int64
	Skipped []string // skipped files with reasons, safe to print; at most 100
}

// CopyArtifacts copies files that match patterns from the workspace to the same paths on the host. It writes
// nothing outside of the working tree, nothing through links, no file that git tracks, and overwrites only
// files that git ignores; others are listed in Skipped. Links and special files are not copied.
func (r *Repo) CopyArtifacts(ctx context.Context, sb atoll.Sandbox, a ArtifactOptions) (*ArtifactResult, error) {
	taken, err := r.exportArtifacts(ctx, sb, a)
	if err != nil {
		return taken, &atoll.Error{Op: "artifacts", ID: sb.ID(), Err: err}
	}
	return taken, nil
}

func (r *Repo) exportArtifacts(ctx context.Context, sb atoll.Sandbox, a ArtifactOptions) (*ArtifactResult, error) {
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
		if err := checkPattern(p); err != nil {
			return nil, err
		}
		list, err := expandPattern(ctx, sb, "", strings.Split(strings.Trim(p, "/"), "/"))
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	slices.Sort(found)
	take, err := r.newArtifactWriter(ctx, a)
	if err != nil {
		return nil, err
	}
	for i, name := range slices.Compact(found) {
		if i > 0 && slices.ContainsFunc(found[:i], func(f string) bool { return strings.HasPrefix(name, f+"/") }) {
			continue // part of a directory that is copied as a whole
		}
		if err = take.writeTree(ctx, sb, name); err != nil {
			break
		}
	}
	slices.Sort(take.Skipped)
	return &take.ArtifactResult, errors.Join(err, take.close())
}

func checkPattern(p string) error {
	clean := strings.Trim(p, "/")
	if clean == "" || path.Clean(clean) != clean || strings.HasPrefix(clean, "..") || strings.ContainsAny(p, "\x00[\\") || strings.HasPrefix(p, "/") || slices.ContainsFunc(strings.Split(clean, "/"), inGitDir) {
		return fmt.Errorf("%w: artifact pattern %q: must be a path in the workspace, not in .git, of names with '*' and '?'", atoll.ErrInvalid, printable(p))
	}
	return nil
}

// inGitDir reports whether a path component is .git, in any spelling that a file system accepts for it.
func inGitDir(part string) bool {
	return strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1")
}

// expandPattern returns the paths that match a pattern below a directory of the workspace.
func expandPattern(ctx context.Context, sb atoll.Sandbox, dir string, parts []string) ([]string, error) {
	entries, err := atoll.ReadDir(ctx, sb, path.Join(Workspace, dir))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if ok, err := path.Match(parts[0], e.Name()); err != nil || !ok || !isPlainName(e.Name()) {
			continue
		}
		name := path.Join(dir, e.Name())
		switch {
		case len(parts) == 1:
			found = append(found, name)
		case e.IsDir():
			below, err := expandPattern(ctx, sb, name, parts[1:])
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		}
	}
	return found, nil
}

// isPlainName reports whether a name from the sandbox is a safe file name.
func isPlainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00") && !inGitDir(name)
}

// artifactWriter writes artifacts.
type artifactWriter struct {
	ArtifactResult
	a       ArtifactOptions
	root    *os.Root
	tracked map[string]bool // files that git tracks
	ignored map[string]bool // existing files of the host that git ignores
}

func (r *Repo) newArtifactWriter(ctx context.Context, a ArtifactOptions) (*artifactWriter, error) {
	out, err := r.host.runOutput(ctx, "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	t := &artifactWriter{a: a, tracked: make(map[string]bool), ignored: make(map[string]bool)}
	for _, name := range splitTerminated(out, "\x00") {
		t.tracked[name] = true
	}
	if out, err = r.host.runOutput(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard"); err != nil {
		return nil, err
	}
	for _, name := range splitTerminated(out, "\x00") {
		t.ignored[name] = true
	}
	t.root, err = os.OpenRoot(r.Dir)
	return t, err
}

func (t *artifactWriter) close() error { return t.root.Close() }

func (t *artifactWriter) addSkipped(name, why string) {
	const most = 100
	if len(t.Skipped) < most {
		t.Skipped = append(t.Skipped, printable(name)+": "+why)
	}
}

// writeTree copies a file or directory of the workspace.
func (t *artifactWriter) writeTree(ctx context.Context, sb atoll.Sandbox, name string) (err error) {
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
		if err := t.writeEntry(path.Dir(name), h, tr); err != nil {
			return err
		}
	}
}

// writeEntry writes one entry of an archive whose names are relative to dir.
func (t *artifactWriter) writeEntry(dir string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return nil // directories are created for their files
	}
	name := path.Join(dir, h.Name)
	for part := range strings.SplitSeq(strings.TrimSuffix(h.Name, "/"), "/") {
		if !isPlainName(part) {
			t.addSkipped(h.Name, "invalid file name")
			return nil
		}
	}
	if h.Typeflag != tar.TypeReg {
		t.addSkipped(name, "not a regular file")
		return nil
	}
	if t.Files++; t.Files > t.a.Files {
		return fmt.Errorf("%w: artifacts are more than %d files", ErrTooLarge, t.a.Files)
	}
	if t.Bytes += h.Size; t.Bytes > t.a.Bytes {
		return fmt.Errorf("%w: artifacts are more than %d bytes", ErrTooLarge, t.a.Bytes)
	}
	why, err := t.explainBlocked(name)
	if err != nil {
		return err
	}
	if why != "" {
		t.addSkipped(name, why)
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

// explainBlocked returns why a file can't be written, or "".
func (t *artifactWriter) explainBlocked(name string) (string, error) {
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
			return "git tracks " + printable(at), nil
		}
	}
	info, err := t.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist), isNotDir(err):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "the host has something other than a file there", nil
	}
	if t.ignored[name] {
		return "", nil
	}
	return "the host has it, and git does not ignore it", nil
}

// write replaces a file atomically.
func (t *artifactWriter) write(name string, mode fs.FileMode, content io.Reader) (err error) {
	file := filepath.FromSlash(name)
	if err := t.root.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(file), ".atoll-"+hashName(name)+".tmp")
	if err := t.root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a killed process
		return err
	}
	f, err := t.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = sparse.CopyFile(f, content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.root.Rename(tmp, file)
	}
	if err != nil {
		return errors.Join(err, t.root.Remove(tmp))
	}
	return nil
}
