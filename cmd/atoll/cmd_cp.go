package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
)

func (a *app) cpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SOURCE DEST",
		Short: "Copy files into, out of and between sandboxes",
		Long: `Copy a file or directory. A place in a sandbox is written SANDBOX:/PATH; '-' is
a tar stream on stdin or stdout. When DEST is a directory that is there, or ends
with '/', the copy goes into it; otherwise DEST is the copy's name.

Modes, times and links are kept. What comes out never leaves DEST, whatever links
a sandbox has planted. For files of workspaces see 'atoll workspace cp'.`,
		Example: `  atoll cp ./src box:/work          a directory into a sandbox
  atoll cp box:/work/out.txt .       a file out of it
  tar c . | atoll cp - box:/work     a stream into a directory
  atoll cp box:/work - | tar t       a stream out of it`,
		Args: needArgs(2, 2, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.copyBetween(cmd.Context(), "sandbox", args, func(ctx context.Context, name string) (tree, error) {
				sb, err := a.open(ctx, name)
				if err != nil {
					return nil, err
				}
				return sandboxTree{sb}, nil
			})
		},
	}
}

// tree is what files are copied out of and into: a sandbox or a workspace.
type tree interface {
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, path string) (io.ReadCloser, error)
	StatFile(ctx context.Context, name string) (fs.FileInfo, error)
}

// sandboxTree is a sandbox whose files can be looked at, whatever its driver.
type sandboxTree struct{ atoll.Sandbox }

func (t sandboxTree) StatFile(ctx context.Context, name string) (fs.FileInfo, error) {
	return atoll.Stat(ctx, t.Sandbox, name)
}

// end is one end of a copy: a path of this machine or of a tree, or a tar
// stream.
type end struct {
	tree   tree // nil: this machine
	path   string
	stream bool
	into   bool // written with a slash at the end
}

// copyBetween copies from one end to another. what says what a name before a
// colon means, open finds it.
func (a *app) copyBetween(ctx context.Context, what string, args []string, open func(context.Context, string) (tree, error)) error {
	var ends [2]end
	for i, text := range args {
		var err error
		if ends[i], err = parseEnd(ctx, what, text, open); err != nil {
			return err
		}
	}
	return a.copy(ctx, ends[0], ends[1])
}

// parseEnd reads what a person wrote. A colon makes a name of what is before
// it, except in a path that says it is one: ./a:b or /a:b.
func parseEnd(ctx context.Context, what, text string, open func(context.Context, string) (tree, error)) (end, error) {
	if text == "-" {
		return end{stream: true}, nil
	}
	name, inside, ok := strings.Cut(text, ":")
	if !ok || name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		if text == "" {
			return end{}, fmt.Errorf("%w: an empty path", atoll.ErrInvalid)
		}
		return end{path: text, into: strings.HasSuffix(text, "/")}, nil
	}
	if !strings.HasPrefix(inside, "/") {
		return end{}, fmt.Errorf("%w: %q: the path in a %s must be absolute, like %s:/%s", atoll.ErrInvalid, text, what, name, inside)
	}
	t, err := open(ctx, name)
	if err != nil {
		return end{}, err
	}
	return end{tree: t, path: path.Clean(inside), into: strings.HasSuffix(inside, "/")}, nil
}

// isDir reports whether an end is a directory that is there.
func (e end) isDir(ctx context.Context) (bool, error) {
	if e.tree == nil {
		info, err := os.Stat(e.path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil && info.IsDir(), err
	}
	info, err := e.tree.StatFile(ctx, e.path)
	if errors.Is(err, atoll.ErrNotFound) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// copy moves a tree as a tar stream from one end to the other.
func (a *app) copy(ctx context.Context, from, to end) error {
	if from.stream && to.stream {
		return fmt.Errorf("%w: one of SOURCE and DEST must be a place", atoll.ErrInvalid)
	}
	src, err := a.source(ctx, from)
	if err != nil {
		return err
	}
	counted := &meter{r: src, a: a, tty: isTerminal(a.err) && !a.quiet && !a.json, start: time.Now()}
	defer counted.done()
	if to.stream {
		if isTerminal(a.out) {
			return finish(fmt.Errorf("%w: a tar stream is not for a terminal: send it to a file or a pipe", atoll.ErrInvalid), src)
		}
		_, err := io.Copy(a.out, counted)
		return finish(err, src)
	}
	dir, name, err := target(ctx, from, to)
	if err != nil {
		return finish(err, src)
	}
	var stream io.Reader = counted
	var renamed *renaming
	if name != "" {
		renamed = rename(counted, name)
		stream = renamed
	}
	if to.tree != nil {
		err = to.tree.Import(ctx, dir, stream)
	} else {
		err = unpack(dir, stream)
	}
	if renamed != nil {
		err = finish(err, renamed)
	}
	return finish(err, src)
}

// target returns the directory to unpack into and the name that the tree
// gets there; an empty name leaves those of the stream.
func target(ctx context.Context, from, to end) (dir, name string, err error) {
	if from.stream {
		return to.path, "", nil
	}
	isDir, err := to.isDir(ctx)
	if err != nil {
		return "", "", err
	}
	base := path.Base(filepath.ToSlash(filepath.Clean(from.path)))
	if from.tree == nil && (base == "." || base == "..") {
		abs, err := filepath.Abs(from.path)
		if err != nil {
			return "", "", err
		}
		base = filepath.Base(abs)
	}
	if isDir || to.into {
		if base == "/" {
			return to.path, "", nil
		}
		return to.path, base, nil
	}
	if to.tree != nil {
		return path.Dir(to.path), path.Base(to.path), nil
	}
	return filepath.Dir(to.path), filepath.Base(to.path), nil
}

// source opens an end as a tar stream whose entries begin with one name.
func (a *app) source(ctx context.Context, from end) (io.ReadCloser, error) {
	switch {
	case from.stream:
		if isTerminal(a.in) {
			return nil, fmt.Errorf("%w: '-' reads a tar stream from stdin, and stdin is a terminal", atoll.ErrInvalid)
		}
		return io.NopCloser(a.in), nil
	case from.tree != nil:
		return from.tree.Export(ctx, from.path)
	}
	return pack(ctx, from.path)
}

// meter counts what passes and shows it to a person.
type meter struct {
	r     io.Reader
	a     *app
	tty   bool
	n     int64
	start time.Time
	shown time.Time
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.n += int64(n)
	if m.tty {
		if now := time.Now(); now.Sub(m.start) > 300*time.Millisecond && now.Sub(m.shown) > 100*time.Millisecond {
			m.shown = now
			fmt.Fprintf(m.a.err, "\r\x1b[Kcopying %s, %s/s", bytesText(m.n), bytesText(int64(float64(m.n)/now.Sub(m.start).Seconds())))
		}
	}
	return n, err
}

// done takes away what was shown.
func (m *meter) done() {
	if !m.shown.IsZero() {
		fmt.Fprint(m.a.err, "\r\x1b[K")
	}
}
