package project

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// includeFile lists ignored files that belong to the repository's working trees, in the syntax of
// .gitignore. Other tools read it too.
const includeFile = ".worktreeinclude"

// listUntracked returns the files that git does not track and that match patterns in the syntax of
// .gitignore.
func (r *Repo) listUntracked(ctx context.Context, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	args := []string{"ls-files", "-z", "--others", "--ignored"}
	for _, p := range patterns {
		if p == "" || strings.ContainsAny(p, "\x00\n\r") {
			return nil, fmt.Errorf("%w: pattern %q of files to import: must be one line", atoll.ErrInvalid, p)
		}
		args = append(args, "--exclude="+p)
	}
	out, err := r.host.runOutput(ctx, args...)
	return splitTerminated(out, "\x00"), err
}

// listIncluded returns the ignored files that .worktreeinclude lists.
func (r *Repo) listIncluded(ctx context.Context) ([]string, error) {
	name := filepath.Join(r.Dir, includeFile)
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil // a symbolic link in a repository may lead anywhere
	}
	if err != nil {
		return nil, err
	}
	out, err := r.host.runOutput(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-from="+name)
	if err != nil || out == "" {
		return nil, err
	}
	ignored, err := r.host.withEnv("GIT_LITERAL_PATHSPECS=0").runWithInput(ctx, out, "check-ignore", "-z", "--stdin")
	var bad *gitError
	if errors.As(err, &bad) && bad.code == 1 { // none is ignored
		return nil, nil
	}
	return splitTerminated(ignored, "\x00"), err
}

// splitRegular separates regular files of the working tree from others, such as links.
func (r *Repo) splitRegular(names []string) (files, left []string) {
	for _, n := range names {
		info, err := os.Lstat(filepath.Join(r.Dir, filepath.FromSlash(n)))
		if err == nil && info.Mode().IsRegular() {
			files = append(files, n)
		} else {
			left = append(left, strings.TrimSuffix(n, "/"))
		}
	}
	return files, left
}

// sendFiles sends the files that git does not track, readable only for the sandbox's user.
func (p *ImportPlan) sendFiles(ctx context.Context, g guest) error {
	if len(p.Files) == 0 {
		return nil
	}
	return runPiped(ctx, func(_ context.Context, w io.Writer) error {
		return p.repo.writeTar(w, p.Files, p.max)
	}, func(ctx context.Context, r io.Reader) error {
		return g.sb.Import(ctx, g.dir, r)
	})
}

// writeTar writes files of the working tree as a tar stream. It follows no link out of the tree.
func (r *Repo) writeTar(w io.Writer, names []string, most int64) (err error) {
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer joinClose(&err, root.Close)
	tw := tar.NewWriter(w)
	left := most
	for _, n := range names {
		if left, err = packFile(tw, root, n, left); err != nil {
			return fmt.Errorf("%s: %w", printable(n), err)
		}
	}
	return tw.Close()
}

func packFile(tw *tar.Writer, root *os.Root, name string, left int64) (rest int64, err error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return left, err
	}
	defer joinClose(&err, f.Close)
	info, err := f.Stat()
	if err != nil {
		return left, err
	}
	if !info.Mode().IsRegular() {
		return left, fmt.Errorf("%w: it is no longer a regular file", ErrMoved)
	}
	if left -= info.Size(); left < 0 {
		return left, fmt.Errorf("%w: the files to import that git does not track exceed their limit here; select fewer", ErrTooLarge)
	}
	mode := int64(0o600)
	if info.Mode()&0o100 != 0 {
		mode = 0o700
	}
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: mode, ModTime: time.Now()}); err != nil {
		return left, err
	}
	_, err = io.CopyN(tw, f, info.Size())
	return left, err
}

// shallowFile returns the boundary of the host's shallow history.
func (r *Repo) shallowFile() ([]byte, error) {
	return os.ReadFile(filepath.Join(r.common, "shallow"))
}
