// Package helper finds the small static programs that atoll runs beside itself:
// atoll-guest, atoll-gate, atoll-sftp and atoll-tool.
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

// Finder looks for helpers. The zero Finder is a good one.
type Finder struct {
	// Dir is where helpers lie; empty: $ATOLL_HELPERS, what this program holds
	// (see [Pack]), the directory of this program, $PATH.
	Dir string
	// Cache is where helpers that this program holds are unpacked to; empty:
	// the user's cache directory.
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
	path, err := f.held(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); isProgram(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("%w: the helper %s is missing: build atoll with `make build`, or build ./cmd/%s with CGO_ENABLED=0 and put it beside atoll or into $ATOLL_HELPERS", atoll.ErrUnavailable, name, name)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// mu lets one unpacking go on at a time.
var mu sync.Mutex

// held unpacks a helper that this program holds into the cache, named after its
// content, once. What it does not hold is fs.ErrNotExist.
func (f Finder) held(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fs.ErrNotExist
	}
	archive, err := zip.OpenReader(self)
	if err != nil {
		return "", fs.ErrNotExist // a program as the compiler made it
	}
	defer archive.Close()
	for _, file := range archive.File {
		if file.Name == name {
			return f.unpack(file)
		}
	}
	return "", fs.ErrNotExist
}

func (f Finder) unpack(file *zip.File) (string, error) {
	dir, err := f.Cache, error(nil)
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("%w: no directory to unpack %s to: set XDG_CACHE_HOME: %w", atoll.ErrUnavailable, file.Name, err)
		}
		dir = filepath.Join(dir, "atoll")
	}
	path := filepath.Join(dir, file.Name+"-"+file.Comment)
	mu.Lock()
	defer mu.Unlock()
	if isProgram(path) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", file.Name, err)
	}
	return path, write(path, file)
}

// write unpacks a helper to a temporary name and renames it.
func write(path string, file *zip.File) error {
	r, err := file.Open()
	if err != nil {
		return fmt.Errorf("helper %s: %w", file.Name, err)
	}
	defer r.Close()
	tmp, err := os.CreateTemp(filepath.Dir(path), file.Name+"-*.new")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone once it is renamed
	_, err = io.Copy(tmp, r)
	if err = errors.Join(err, tmp.Chmod(0o755), tmp.Close()); err != nil {
		return fmt.Errorf("unpacking %s: %w", file.Name, err)
	}
	return os.Rename(tmp.Name(), path)
}
