// Package atomicfile replaces files atomically and durably: a file is written completely or not at
// all, even if the process is killed or the machine crashes.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TempPattern matches the names of temporary files, for [filepath.Glob] in their directory. A process that
// is killed leaves its temporary file behind.
const TempPattern = ".new-*"

// Replace writes a file atomically and replaces an existing one: readers find the old or the new
// content. The directory must exist. perm is set exactly, regardless of the umask. Of several
// concurrent calls the last one wins.
func Replace(name string, content []byte, perm fs.FileMode) error {
	return write(name, content, perm, os.Rename)
}

// Create is like Replace but keeps an existing file and returns [fs.ErrExist].
func Create(name string, content []byte, perm fs.FileMode) error {
	return write(name, content, perm, os.Link)
}

func write(name string, content []byte, perm fs.FileMode, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), TempPattern) // readable only by its owner
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it was renamed or linked, or is useless
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	return place(f.Name(), name)
}
