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

// includeFile names ignored files that go with the repository, in the language
// of .gitignore. Other tools read it, too.
const includeFile = ".worktreeinclude"

// untracked returns the files that git does not track and patterns of
// .gitignore's language match.
func (r *Repo) untracked(ctx context.Context, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	args := []string{"ls-files", "-z", "--others", "--ignored"}
	for _, p := range patterns {
		if p == "" || strings.ContainsAny(p, "\x00\n\r") {
			return nil, fmt.Errorf("%w: pattern %q of files that go in: it must be one line", atoll.ErrInvalid, p)
		}
		args = append(args, "--exclude="+p)
	}
	out, err := r.host.output(ctx, args...)
	return split(out, "\x00"), err
}

// included returns the ignored files that .worktreeinclude names.
func (r *Repo) included(ctx context.Context) ([]string, error) {
	name := filepath.Join(r.Dir, includeFile)
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil, nil // a link of a repository may lead anywhere
	}
	if err != nil {
		return nil, err
	}
	out, err := r.host.output(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-from="+name)
	if err != nil || out == "" {
		return nil, err
	}
	ignored, err := r.host.with("GIT_LITERAL_PATHSPECS=0").feed(ctx, out, "check-ignore", "-z", "--stdin")
	var bad *gitError
	if errors.As(err, &bad) && bad.code == 1 { // none is
		return nil, nil
	}
	return split(ignored, "\x00"), err
}

// regular parts regular files of the working tree from what stays: links, and
// what is only reached through one.
func (r *Repo) regular(names []string) (files, left []string) {
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

// sendFiles sends what git does not track, readable for the sandbox's user only.
func (p *Plan) sendFiles(ctx context.Context, g guest) error {
	if len(p.Files) == 0 {
		return nil
	}
	return piped(ctx, func(_ context.Context, w io.Writer) error {
		return p.repo.pack(w, p.Files, p.max)
	}, func(ctx context.Context, r io.Reader) error {
		return g.sb.Import(ctx, g.dir, r)
	})
}

// pack writes files of the working tree as a tar stream; nothing is read through
// a link that leaves it.
func (r *Repo) pack(w io.Writer, names []string, most int64) (err error) {
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer closed(&err, root.Close)
	tw := tar.NewWriter(w)
	left := most
	for _, n := range names {
		if left, err = packFile(tw, root, n, left); err != nil {
			return fmt.Errorf("%s: %w", shown(n), err)
		}
	}
	return tw.Close()
}

func packFile(tw *tar.Writer, root *os.Root, name string, left int64) (rest int64, err error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return left, err
	}
	defer closed(&err, f.Close)
	info, err := f.Stat()
	if err != nil {
		return left, err
	}
	if !info.Mode().IsRegular() {
		return left, fmt.Errorf("%w: it is not a regular file any more", ErrMoved)
	}
	if left -= info.Size(); left < 0 {
		return left, fmt.Errorf("%w: files that git does not track go in up to a bound, which this one passes; name fewer", ErrTooLarge)
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

// shallowFile returns where the host's history ends.
func (r *Repo) shallowFile() ([]byte, error) {
	return os.ReadFile(filepath.Join(r.common, "shallow"))
}
