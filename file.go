package atoll

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// FS is a sandbox with access to single files. Names are absolute.
type FS interface {
	// OpenFile opens a file for reading.
	OpenFile(ctx context.Context, name string) (io.ReadCloser, error)

	// WriteFile replaces a file atomically: readers see the old content or the new, and
	// after an error the old. The directory must exist.
	WriteFile(ctx context.Context, name string, content io.Reader, perm fs.FileMode) error

	// StatFile describes a file or directory. It does not follow a symbolic link.
	StatFile(ctx context.Context, name string) (fs.FileInfo, error)
}

// DirFS is an FS with directories.
type DirFS interface {
	FS

	// ReadDir lists a directory in the order of names.
	ReadDir(ctx context.Context, name string) ([]fs.FileInfo, error)

	// Mkdir creates a directory and its parents. A directory that exists is not an error.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error

	// Remove removes a file or a directory tree. A missing name is ErrNotFound.
	Remove(ctx context.Context, name string) error
}

// errStopWalk ends walkExport early, without an error.
var errStopWalk = errors.New("enough")

func wrapFileError(op string, sb Sandbox, name string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Op: op, ID: sb.ID(), Err: fmt.Errorf("%s: %w", name, err)}
}

func checkPath(name string) (string, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: path %q must be absolute and without NUL bytes", ErrInvalid, name)
	}
	return path.Clean(name), nil
}

// OpenFile opens a file of a sandbox for reading. The caller must close it.
func OpenFile(ctx context.Context, sb Sandbox, name string) (io.ReadCloser, error) {
	name, err := checkPath(name)
	if err != nil {
		return nil, wrapFileError("read", sb, name, err)
	}
	if f, ok := As[FS](sb); ok {
		return f.OpenFile(ctx, name)
	}
	rc, err := sb.Export(ctx, name)
	if err != nil {
		return nil, err
	}
	tr := tar.NewReader(rc)
	h, err := tr.Next()
	if err == nil && h.Typeflag != tar.TypeReg {
		err = fmt.Errorf("%w: it is not a file", ErrInvalid)
	}
	if err != nil {
		return nil, wrapFileError("read", sb, name, errors.Join(err, rc.Close()))
	}
	return &entryReader{Reader: tr, Closer: rc}, nil
}

type entryReader struct {
	io.Reader
	io.Closer
}

// ReadFile returns the content of a file of a sandbox.
func ReadFile(ctx context.Context, sb Sandbox, name string) (data []byte, err error) {
	rc, err := OpenFile(ctx, sb, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rc.Close()) }()
	data, err = io.ReadAll(rc)
	return data, wrapFileError("read", sb, name, err)
}

// WriteFile replaces a file of a sandbox atomically and creates missing parent directories.
func WriteFile(ctx context.Context, sb Sandbox, name string, data []byte, perm fs.FileMode) error {
	name, err := checkPath(name)
	if err != nil {
		return wrapFileError("write", sb, name, err)
	}
	if f, ok := As[DirFS](sb); ok {
		if err := f.Mkdir(ctx, path.Dir(name), 0o755); err != nil {
			return err
		}
		return f.WriteFile(ctx, name, bytes.NewReader(data), perm)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Base(name), Size: int64(len(data)), Mode: int64(perm.Perm()), ModTime: time.Now()}
	err = tw.WriteHeader(h)
	if err == nil {
		_, err = tw.Write(data)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		return wrapFileError("write", sb, name, err)
	}
	return sb.Import(ctx, path.Dir(name), &b)
}

// Stat describes a file or directory of a sandbox. It does not follow a symbolic link.
func Stat(ctx context.Context, sb Sandbox, name string) (fs.FileInfo, error) {
	name, err := checkPath(name)
	if err != nil {
		return nil, wrapFileError("stat", sb, name, err)
	}
	if f, ok := As[FS](sb); ok {
		return f.StatFile(ctx, name)
	}
	var info fs.FileInfo
	err = walkExport(ctx, sb, name, func(h *tar.Header, depth int) error {
		info = h.FileInfo()
		return errStopWalk
	})
	return info, wrapFileError("stat", sb, name, err)
}

// ReadDir lists a directory of a sandbox in the order of names.
func ReadDir(ctx context.Context, sb Sandbox, name string) ([]fs.FileInfo, error) {
	name, err := checkPath(name)
	if err != nil {
		return nil, wrapFileError("list", sb, name, err)
	}
	if f, ok := As[DirFS](sb); ok {
		return f.ReadDir(ctx, name)
	}
	var list []fs.FileInfo
	err = walkExport(ctx, sb, name, func(h *tar.Header, depth int) error {
		switch {
		case depth == 0 && h.Typeflag != tar.TypeDir:
			return fmt.Errorf("%w: it is not a directory", ErrInvalid)
		case depth == 1:
			list = append(list, h.FileInfo())
		}
		return nil
	})
	slices.SortFunc(list, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return list, wrapFileError("list", sb, name, err)
}

// walkExport calls f for each entry of an export, with its depth below name.
func walkExport(ctx context.Context, sb Sandbox, name string, f func(*tar.Header, int) error) error {
	rc, err := sb.Export(ctx, name)
	if err != nil {
		return err
	}
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return rc.Close()
		}
		if err == nil {
			err = f(h, strings.Count(strings.Trim(path.Clean(h.Name), "/"), "/"))
		}
		if err != nil {
			cerr := rc.Close() // its error counts only after a full read
			if errors.Is(err, errStopWalk) {
				return nil
			}
			return errors.Join(err, cerr)
		}
	}
}

// Mkdir creates a directory of a sandbox and its parents.
func Mkdir(ctx context.Context, sb Sandbox, name string, perm fs.FileMode) error {
	name, err := checkPath(name)
	if err != nil {
		return wrapFileError("mkdir", sb, name, err)
	}
	if f, ok := As[DirFS](sb); ok {
		return f.Mkdir(ctx, name, perm)
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	h := &tar.Header{Typeflag: tar.TypeDir, Name: path.Base(name) + "/", Mode: int64(perm.Perm()), ModTime: time.Now()}
	if err := errors.Join(tw.WriteHeader(h), tw.Close()); err != nil {
		return wrapFileError("mkdir", sb, name, err)
	}
	return sb.Import(ctx, path.Dir(name), &b)
}

// Remove removes a file or a directory tree of a sandbox.
func Remove(ctx context.Context, sb Sandbox, name string) error {
	name, err := checkPath(name)
	if err != nil {
		return wrapFileError("remove", sb, name, err)
	}
	if f, ok := As[DirFS](sb); ok {
		return f.Remove(ctx, name)
	}
	if _, err := Stat(ctx, sb, name); err != nil {
		return err
	}
	exit, err := sb.Exec(ctx, Cmd{Args: []string{"rm", "-rf", "--", name}})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("rm: exit status %d: %s", exit.Code, bytes.TrimSpace(exit.Stderr))
	}
	return wrapFileError("remove", sb, name, err)
}

// Rename renames a file or directory of a sandbox. A file of the new name is replaced, an empty
// directory too if a directory is renamed. A missing name is ErrNotFound.
func Rename(ctx context.Context, sb Sandbox, from, to string) error {
	return changeFiles(ctx, sb, "rename", from, []string{"mv", "-f", "-T", "--"}, from, to)
}

// Chmod sets the permissions of a file or directory of a sandbox.
func Chmod(ctx context.Context, sb Sandbox, name string, perm fs.FileMode) error {
	return changeFiles(ctx, sb, "chmod", name, []string{"chmod", fmt.Sprintf("%o", perm.Perm()), "--"}, name)
}

// Chown sets the owner of a file or directory of a sandbox: a user, ":group" or "user:group", by name or
// number.
func Chown(ctx context.Context, sb Sandbox, name, owner string) error {
	if owner == "" || strings.HasPrefix(owner, "-") || strings.ContainsAny(owner, " \t\n\x00") {
		return wrapFileError("chown", sb, name, fmt.Errorf("%w: owner %q: must be a user, :group or user:group", ErrInvalid, owner))
	}
	return changeFiles(ctx, sb, "chown", name, []string{"chown", owner, "--"}, name)
}

// changeFiles runs a program of the sandbox that changes files, the first of which must exist.
func changeFiles(ctx context.Context, sb Sandbox, op, name string, program []string, names ...string) error {
	for i, n := range names {
		var err error
		if names[i], err = checkPath(n); err != nil {
			return wrapFileError(op, sb, name, err)
		}
	}
	if _, err := Stat(ctx, sb, names[0]); err != nil {
		return err
	}
	exit, err := sb.Exec(ctx, Cmd{Args: append(program, names...)})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%w: %s: exit status %d: %s", ErrDenied, program[0], exit.Code, bytes.TrimSpace(exit.Stderr))
	}
	return wrapFileError(op, sb, name, err)
}
