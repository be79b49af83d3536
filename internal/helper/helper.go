// Package helper finds the small static programs that atoll runs as separate processes:
// atoll-guest, atoll-egress, atoll-sftp, atoll-tool, atoll-worker and atoll-python.
package helper

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/atoll-sandbox/atoll"
)

// Finder finds helpers. The zero value is ready to use.
type Finder struct {
	// Dir is the directory of the helpers; empty: $ATOLL_HELPERS, the helpers packed into this
	// program (see [Pack]), the directory of this program, and $PATH are searched in this order.
	Dir string
	// Cache is the directory to which packed helpers are unpacked; empty: the user's cache
	// directory.
	Cache string
}

// Find returns the absolute path of a helper, such as "atoll-guest".
func (f Finder) Find(name string) (string, error) {
	for _, dir := range []string{f.Dir, os.Getenv("ATOLL_HELPERS")} {
		if dir == "" {
			continue
		}
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: helper %s: %w", atoll.ErrUnavailable, name, err)
		}
		return path, nil
	}
	path, err := f.findPacked(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if path, ok := findBeside(name); ok {
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("%w: the helper %s is missing: %s", atoll.ErrUnavailable, name, howToGet(name, Version()))
}

// findBeside returns the helper in the directory of this program.
func findBeside(name string) (string, bool) {
	self, err := Executable()
	if err != nil {
		return "", false
	}
	path := filepath.Join(filepath.Dir(self), name)
	return path, isProgram(path)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// mu serializes unpacking.
var mu sync.Mutex

// findPacked unpacks a helper that is packed into this program, once, into the cache under the digest of
// its content. If it is not packed, the error is fs.ErrNotExist.
func (f Finder) findPacked(name string) (path string, err error) {
	rerr := readPacked(name, func(file *zip.File) error {
		path, err = f.unpackHelper(file)
		return err
	})
	return path, rerr
}

// readPacked calls read with the helper of a name that is packed into this program. If it is not
// packed, the error is fs.ErrNotExist.
func readPacked(name string, read func(*zip.File) error) error {
	self, err := Executable()
	if err != nil {
		return fs.ErrNotExist
	}
	archive, err := zip.OpenReader(self)
	if err != nil {
		return fs.ErrNotExist // a program without packed helpers
	}
	defer archive.Close()
	for _, file := range archive.File {
		if file.Name == name {
			return read(file)
		}
	}
	return fs.ErrNotExist
}

// IsPacked reports whether a helper is packed into this program.
func IsPacked(name string) bool {
	return readPacked(name, func(*zip.File) error { return nil }) == nil
}

// cacheDir returns the directory to which packed helpers are unpacked.
func (f Finder) cacheDir() (string, error) {
	if f.Cache != "" {
		return f.Cache, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "atoll"), err
}

func (f Finder) unpackHelper(file *zip.File) (string, error) {
	dir, err := f.cacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: no directory to unpack %s to: set XDG_CACHE_HOME: %w", atoll.ErrUnavailable, file.Name, err)
	}
	path := filepath.Join(dir, file.Name+"-"+file.Comment)
	mu.Lock()
	defer mu.Unlock()
	if info, err := os.Stat(path); err == nil && isProgram(path) && info.Size() == int64(file.UncompressedSize64) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", file.Name, err)
	}
	return path, writeHelper(path, file)
}

// writeHelper unpacks a helper to a temporary file, and renames it.
func writeHelper(path string, file *zip.File) error {
	r, err := file.Open()
	if err != nil {
		return fmt.Errorf("helper %s: %w", file.Name, err)
	}
	defer r.Close()
	tmp, err := os.CreateTemp(filepath.Dir(path), file.Name+"-*.new")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once it was renamed
	_, err = io.Copy(tmp, r)
	if err = errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return fmt.Errorf("unpacking %s: %w", file.Name, err)
	}
	return os.Rename(tmp.Name(), path)
}
