// Package compat has what the APIs of other vendors share: files, shells and kernels of code in sandboxes,
// in terms of the fleet. It knows neither their routes nor their messages.
package compat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// maxLinks is the number of symbolic links that a name may lead through.
const maxLinks = 8

// ResolveLink describes the file that a symbolic link leads to.
func ResolveLink(ctx context.Context, sb *fleet.Sandbox, name string, info fs.FileInfo) (fs.FileInfo, error) {
	for range maxLinks {
		target := wire.LinkTarget(info)
		if target == "" {
			break
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		name = path.Clean(target)
		var err error
		if info, err = atoll.Stat(ctx, sb, name); err != nil || info.Mode().Type() != fs.ModeSymlink {
			return info, err
		}
	}
	return nil, fmt.Errorf("%w: %s: too many symbolic links", atoll.ErrInvalid, name)
}

// StatFile describes a file; of a symbolic link its target.
func StatFile(ctx context.Context, sb *fleet.Sandbox, name string) (fs.FileInfo, error) {
	info, err := atoll.Stat(ctx, sb, name)
	if err == nil && info.Mode().Type() == fs.ModeSymlink {
		return ResolveLink(ctx, sb, name, info)
	}
	return info, err
}

var (
	// ErrDirectory is the error of WriteFile for a directory.
	ErrDirectory = fmt.Errorf("%w: it is a directory", atoll.ErrInvalid)
	// ErrBody is the error of WriteFile for content that could not be read: the request is incomplete.
	ErrBody = fmt.Errorf("%w: the body is incomplete", atoll.ErrInvalid)
)

// WriteFile replaces a file and creates missing directories. The permissions of a file that exists stay.
func WriteFile(ctx context.Context, sb *fleet.Sandbox, name string, content io.Reader) error {
	perm := fs.FileMode(0o644)
	info, err := StatFile(ctx, sb, name)
	switch {
	case err == nil && info.IsDir():
		return ErrDirectory
	case err == nil:
		perm = info.Mode().Perm()
	case !errors.Is(err, atoll.ErrNotFound):
		return err
	}
	if errors.Is(err, atoll.ErrNotFound) {
		if _, serr := atoll.Stat(ctx, sb, path.Dir(name)); errors.Is(serr, atoll.ErrNotFound) {
			if err := atoll.Mkdir(ctx, sb, path.Dir(name), 0o755); err != nil {
				return err
			}
		}
	}
	r := &BodyReader{R: content}
	if f, ok := atoll.As[atoll.FS](sb); ok {
		err = f.WriteFile(ctx, name, r, perm)
	} else {
		err = writePacked(ctx, sb, name, r, perm)
	}
	if r.Err != nil {
		return fmt.Errorf("%w: %w", ErrBody, r.Err)
	}
	return err
}

// maxPacked is the largest file in bytes that is written through a driver that accepts only archives.
const maxPacked = 64 << 20

// writePacked writes a file through a driver that accepts only archives.
func writePacked(ctx context.Context, sb *fleet.Sandbox, name string, content io.Reader, perm fs.FileMode) error {
	data, err := io.ReadAll(io.LimitReader(content, maxPacked+1))
	if err == nil && len(data) > maxPacked {
		return fmt.Errorf("%w: a file of more than %d bytes by this driver", atoll.ErrUnsupported, maxPacked)
	}
	if err != nil {
		return err
	}
	return atoll.WriteFile(ctx, sb, name, data, perm)
}

// BodyReader reads the body of a request and records its error, which is not that of the file.
type BodyReader struct {
	R   io.Reader
	Err error
}

// Read reads from the body.
func (b *BodyReader) Read(p []byte) (int, error) {
	n, err := b.R.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.Err = err
	}
	return n, err
}
