package transfer

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

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// FileTree is a tree of files to copy from or to: a sandbox or a workspace.
type FileTree interface {
	Import(ctx context.Context, dir string, tar io.Reader) error
	Export(ctx context.Context, path string) (io.ReadCloser, error)
	StatFile(ctx context.Context, name string) (fs.FileInfo, error)
}

// Endpoint is one end of a copy: a path of this machine or of a tree, or a tar
// stream.
type Endpoint struct {
	tree   FileTree // nil: this machine
	path   string
	stream bool
	into   bool // written with a slash at the end
}

// CopyBetween copies from one endpoint to another. open returns the tree of the name before a
// colon; what describes such names in errors.
func CopyBetween(ctx context.Context, a *app.App, what string, args []string, open func(context.Context, string) (FileTree, error)) error {
	var ends [2]Endpoint
	for i, text := range args {
		var err error
		if ends[i], err = ParseEndpoint(ctx, what, text, open); err != nil {
			return err
		}
	}
	return copyTree(ctx, a, ends[0], ends[1])
}

// ParseEndpoint parses an argument of cp. The part before a colon is a name, except in a path
// like ./a:b or /a:b.
func ParseEndpoint(ctx context.Context, what, text string, open func(context.Context, string) (FileTree, error)) (Endpoint, error) {
	if text == "-" {
		return Endpoint{stream: true}, nil
	}
	name, inside, ok := strings.Cut(text, ":")
	if !ok || name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		if text == "" {
			return Endpoint{}, fmt.Errorf("%w: an empty path", atoll.ErrInvalid)
		}
		return Endpoint{path: text, into: strings.HasSuffix(text, "/")}, nil
	}
	if !strings.HasPrefix(inside, "/") {
		return Endpoint{}, fmt.Errorf("%w: %q: the path in a %s must be absolute, like %s:/%s", atoll.ErrInvalid, text, what, name, inside)
	}
	t, err := open(ctx, name)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{tree: t, path: path.Clean(inside), into: strings.HasSuffix(inside, "/")}, nil
}

// isDir reports whether an end is a directory that is there.
func (e Endpoint) isDir(ctx context.Context) (bool, error) {
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

// copyTree moves a tree as a tar stream from one end to the other.
func copyTree(ctx context.Context, a *app.App, from, to Endpoint) error {
	if from.stream && to.stream {
		return fmt.Errorf("%w: one of SOURCE and DEST must be a place", atoll.ErrInvalid)
	}
	src, err := openSource(ctx, a, from)
	if err != nil {
		return err
	}
	counted := &meter{r: src, a: a, tty: tty.IsTerminal(a.Err) && !a.Quiet && !a.JSON, start: time.Now()}
	defer counted.finish()
	if to.stream {
		if tty.IsTerminal(a.Out) {
			return output.CloseAfter(fmt.Errorf("%w: a tar stream is not for a terminal: send it to a file or a pipe", atoll.ErrInvalid), src)
		}
		_, err := io.Copy(a.Out, counted)
		return output.CloseAfter(err, src)
	}
	dir, name, err := resolveTarget(ctx, from, to)
	if err != nil {
		return output.CloseAfter(err, src)
	}
	var stream io.Reader = counted
	var renamed *RenamedReader
	if name != "" && to.tree != nil {
		renamed = RenameRoot(counted, name)
		stream = renamed
	}
	if to.tree != nil {
		err = to.tree.Import(ctx, dir, stream)
	} else {
		err = Unpack(dir, name, stream)
	}
	if renamed != nil {
		err = output.CloseAfter(err, renamed)
	}
	return output.CloseAfter(err, src)
}

// resolveTarget returns the directory to unpack into and the name that the tree
// gets there; an empty name leaves those of the stream.
func resolveTarget(ctx context.Context, from, to Endpoint) (dir, name string, err error) {
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
	if to.into && !isDir && to.tree == nil {
		return "", "", fmt.Errorf("%w: the directory %s does not exist: create it, or name the copy without the slash", atoll.ErrInvalid, to.path)
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

// openSource opens an end as a tar stream whose entries begin with one name.
func openSource(ctx context.Context, a *app.App, from Endpoint) (io.ReadCloser, error) {
	switch {
	case from.stream:
		if tty.IsTerminal(a.In) {
			return nil, fmt.Errorf("%w: '-' reads a tar stream from stdin, and stdin is a terminal", atoll.ErrInvalid)
		}
		return io.NopCloser(a.In), nil
	case from.tree != nil:
		return from.tree.Export(ctx, from.path)
	}
	return Pack(ctx, from.path)
}

// meter counts what passes and shows it to a person.
type meter struct {
	r     io.Reader
	a     *app.App
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
			fmt.Fprintf(m.a.Err, "\r\x1b[Kcopying %s, %s/s", output.FormatBytes(m.n), output.FormatBytes(int64(float64(m.n)/now.Sub(m.start).Seconds())))
		}
	}
	return n, err
}

// finish takes away what was shown.
func (m *meter) finish() {
	if !m.shown.IsZero() {
		fmt.Fprint(m.a.Err, "\r\x1b[K")
	}
}
