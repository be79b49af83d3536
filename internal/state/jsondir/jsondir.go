// Package jsondir stores small JSON documents in a directory, each in a file NAME.json.
package jsondir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

const suffix = ".json"

// Dir is the path of a directory of documents. Any number of processes may use it. The directory is
// made by the caller; one that does not exist holds no documents.
type Dir string

// path returns the file of a document. A name that can't be that of a file is [atoll.ErrInvalid].
func (d Dir) path(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("%w: name %q: must not be empty, begin with a dot or contain a slash", atoll.ErrInvalid, name)
	}
	return filepath.Join(string(d), name+suffix), nil
}

// CheckName returns an error that matches [atoll.ErrInvalid] if no document can have the name.
func (d Dir) CheckName(name string) error {
	_, err := d.path(name)
	return err
}

// Read decodes a document into v. A document that does not exist is [atoll.ErrNotFound].
func (d Dir) Read(name string, v any) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	return ReadFile(path, v)
}

// Write creates or replaces a document atomically.
func (d Dir) Write(name string, v any) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	return WriteFile(path, v)
}

// Remove removes a document. Removing it twice is not an error.
func (d Dir) Remove(name string) error {
	path, err := d.path(name)
	if err != nil {
		return err
	}
	return removeFile(path)
}

// Names returns the sorted names of the documents.
func (d Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, err
}

// Unfinished returns the paths of files that writers are writing, or have left when they were killed.
func (d Dir) Unfinished() ([]string, error) {
	return filepath.Glob(filepath.Join(string(d), atomicfile.TempPattern))
}

// Sweep removes unfinished files. No other process may be writing.
func (d Dir) Sweep() error {
	left, err := d.Unfinished()
	errs := []error{err}
	for _, path := range left {
		errs = append(errs, removeFile(path))
	}
	return errors.Join(errs...)
}

// ReadFile decodes a JSON file into v. A file that does not exist is [atoll.ErrNotFound].
func ReadFile(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return atoll.ErrNotFound
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteFile creates or replaces a JSON file atomically; only its owner can read it.
func WriteFile(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.Replace(path, b, 0o600)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
