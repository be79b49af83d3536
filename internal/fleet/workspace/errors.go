package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// MaxName is the length of the longest name.
const MaxName = 4095

var (
	errNotFile = fmt.Errorf("%w: it is not a file", atoll.ErrInvalid)
	errNotDir  = fmt.Errorf("%w: it is not a directory", atoll.ErrInvalid)
	ErrIsDir   = fmt.Errorf("%w: it is a directory", atoll.ErrInvalid)
)

// RelPath returns an absolute name relative to the workspace.
func RelPath(name string) (string, error) {
	if !strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("%w: path %q must be absolute and without NUL bytes", atoll.ErrInvalid, name)
	}
	if len(name) > MaxName {
		return "", fmt.Errorf("%w: the path has %d bytes, more than the limit of %d", atoll.ErrInvalid, len(name), MaxName)
	}
	if name = path.Clean(name); name == "/" {
		return ".", nil
	}
	return name[1:], nil
}

// MaxNames is the largest number of names listed of a directory.
const MaxNames = 1_000_000

// FileError adds a name to an error of the host's file system, and the matching error of package
// atoll.
func FileError(name string, err error) error {
	if len(name) > 200 {
		name = name[:200] + "…"
	}
	for _, known := range []error{
		atoll.ErrNotFound, atoll.ErrExists, atoll.ErrInvalid, atoll.ErrState, atoll.ErrQuota, atoll.ErrUnavailable,
		atoll.ErrUnsupported, atoll.ErrTimeout, atoll.ErrDenied,
	} {
		if errors.Is(err, known) {
			if b := stripPaths(err); errors.Is(b, known) {
				err = b
			}
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	why := errnoReason(err)
	switch {
	case why != nil:
	case errors.Is(err, fs.ErrNotExist):
		why = atoll.ErrNotFound
	case errors.Is(err, fs.ErrExist):
		why = atoll.ErrExists
	case errors.Is(err, fs.ErrPermission):
		why = atoll.ErrDenied
	case errors.Is(err, fs.ErrClosed):
		why = atoll.ErrState
	case isRootEscape(err):
		why = fmt.Errorf("%w: a link leads out of the workspace", atoll.ErrInvalid)
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %w: %w", name, why, stripPaths(err))
}

// stripPaths returns an error of the host's file system without host paths.
func stripPaths(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// isRootEscape reports whether os.Root refused a name that leads out of the root.
func isRootEscape(err error) bool {
	var p *fs.PathError
	var l *os.LinkError
	return errors.As(err, &p) || errors.As(err, &l)
}

// timeoutError turns the error of a deadline into an ErrTimeout.
func timeoutError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, atoll.ErrTimeout) {
		return fmt.Errorf("%w: %w", atoll.ErrTimeout, err)
	}
	return err
}

// shorten cuts a text to a number of bytes, without cutting a character in two.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
