package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

// OpenFile opens a file or directory for reading without blocking, if it has the wanted type: 0
// for a file, fs.ModeDir for a directory.
func OpenFile(root *os.Root, name string, want fs.FileMode) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if err := CheckType(want, name, info); err != nil {
		return nil, err // checked before opening, which may have effects on a device
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = CheckType(want, name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func CheckType(want fs.FileMode, name string, info fs.FileInfo) error {
	if info.Mode().Type() == want {
		return nil
	}
	what := errNotFile
	if want == fs.ModeDir {
		what = errNotDir
	}
	return &fs.PathError{Op: "open", Path: name, Err: what}
}

// WriteFile writes the file for MoveFile, and syncs it to disk.
func (d *Staging) WriteFile(content io.Reader, perm fs.FileMode, m *Meter) error {
	file, err := d.store.Root.OpenFile(path.Join(d.Name, stagedFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, &meteredReader{content, m})
	if err == nil {
		err = file.Chmod(perm.Perm())
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
