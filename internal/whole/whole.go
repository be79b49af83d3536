// Package whole writes files whole or not at all, also where the process is killed
// or the machine goes down meanwhile.
package whole

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Pattern is what the names of files on their way match, for [filepath.Glob] in
// their directory: one of a process that was killed stays.
const Pattern = ".new-*"

// Replace writes a file in one step, in place of the one that may be there: who
// reads it finds the one or the other. Its directory must be there; perm is the
// file's to the bit, whatever the umask. Of several at a time the last one wins.
func Replace(name string, content []byte, perm fs.FileMode) error {
	return write(name, content, perm, os.Rename)
}

// Create is Replace where there must be no file yet; one that is there, or that
// another was quicker to make, stays: [fs.ErrExist].
func Create(name string, content []byte, perm fs.FileMode) error {
	return write(name, content, perm, os.Link)
}

func write(name string, content []byte, perm fs.FileMode, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), Pattern) // nobody else may read it
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // renamed, linked or of no use
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(perm), f.Sync(), f.Close()); err != nil {
		return err
	}
	return place(f.Name(), name)
}
