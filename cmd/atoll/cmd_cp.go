package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

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
a sandbox has planted.`,
		Example: `  atoll cp ./src box:/work          a directory into a sandbox
  atoll cp box:/work/out.txt .       a file out of it
  tar c . | atoll cp - box:/work     a stream into a directory
  atoll cp box:/work - | tar t       a stream out of it`,
		Args: needArgs(2, 2, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.end(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			to, err := a.end(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			return a.copy(cmd.Context(), from, to)
		},
	}
}

// end is one end of a copy: a path of this machine or of a sandbox, or a
// tar stream.
type end struct {
	sb     atoll.Sandbox // nil: this machine
	path   string
	stream bool
	into   bool // written with a slash at the end
}

// end reads what a person wrote. A colon makes a sandbox of what is before
// it, except in a path that says it is one: ./a:b or /a:b.
func (a *app) end(ctx context.Context, text string) (end, error) {
	if text == "-" {
		return end{stream: true}, nil
	}
	name, inside, ok := strings.Cut(text, ":")
	if !ok || name == "" || strings.ContainsAny(name, `/\.`) && !a.known(ctx, name) {
		if text == "" {
			return end{}, fmt.Errorf("%w: an empty path", atoll.ErrInvalid)
		}
		return end{path: text, into: strings.HasSuffix(text, "/")}, nil
	}
	if !strings.HasPrefix(inside, "/") {
		return end{}, fmt.Errorf("%w: %q: the path in a sandbox must be absolute, like %s:/%s", atoll.ErrInvalid, text, name, inside)
	}
	sb, err := a.open(ctx, name)
	if err != nil {
		return end{}, err
	}
	return end{sb: sb, path: path.Clean(inside), into: strings.HasSuffix(inside, "/")}, nil
}

// known reports whether a sandbox has that name.
func (a *app) known(ctx context.Context, name string) bool {
	_, err := a.find(ctx, name)
	return err == nil
}

// isDir reports whether an end is a directory that is there.
func (e end) isDir(ctx context.Context) (bool, error) {
	if e.sb == nil {
		info, err := os.Stat(e.path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil && info.IsDir(), err
	}
	info, err := atoll.Stat(ctx, e.sb, e.path)
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
	counted := &meter{r: src, a: a, tty: isTerminal(a.err) && !a.quiet && !a.json}
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
	if to.sb != nil {
		err = to.sb.Import(ctx, dir, stream)
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
	if from.sb == nil && (base == "." || base == "..") {
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
	if to.sb != nil {
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
	case from.sb != nil:
		return from.sb.Export(ctx, from.path)
	}
	return pack(ctx, from.path)
}

// meter counts what passes and shows it to a person.
type meter struct {
	r     io.Reader
	a     *app
	tty   bool
	n     int64
	shown int64
}

func (m *meter) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.n += int64(n)
	if m.tty && m.n-m.shown >= 4<<20 {
		m.shown = m.n
		fmt.Fprintf(m.a.err, "\r\x1b[Kcopying %s", bytesText(m.n))
	}
	return n, err
}

func (m *meter) done() {
	if m.shown > 0 {
		fmt.Fprint(m.a.err, "\r\x1b[K")
	}
}
