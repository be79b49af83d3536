package git

import (
	"errors"
	"io/fs"
	"strings"
)

// readGitFile returns the text of a file of .git without its line end, "" if there is none.
func (r *repository) readGitFile(name string) string {
	b, err := r.p.ReadFile(r.dir + "/" + name)
	if err != nil {
		return ""
	}
	defer r.p.Free(int64(cap(b)))
	return strings.TrimRight(string(b), "\n")
}

// hasGitFile reports whether a file of .git exists.
func (r *repository) hasGitFile(name string) bool {
	_, err := r.p.Lstat(r.dir + "/" + name)
	return err == nil
}

// writeGitFile writes a file of .git.
func (r *repository) writeGitFile(name, text string) error {
	return r.p.WriteFile(r.dir+"/"+name, []byte(text), 0o644)
}

// removeGitFiles removes files of .git; those that are missing are removed.
func (r *repository) removeGitFiles(names ...string) error {
	for _, name := range names {
		if err := r.p.RemoveAll(r.dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
