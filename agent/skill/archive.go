package skill

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// archiveSuffixes are the suffixes of archives that Extract supports.
var archiveSuffixes = []string{".zip", ".skill", ".tar", ".tar.gz", ".tgz"}

// IsArchive reports whether a file's name is that of a supported archive.
func IsArchive(name string) bool {
	for _, suffix := range archiveSuffixes {
		if strings.HasSuffix(strings.ToLower(name), suffix) {
			return true
		}
	}
	return false
}

// Extract unpacks an archive of the host into an existing, empty directory. It
// returns ErrInvalid for archives with links, devices or names that lead out of the
// directory, and ErrQuota for archives over the limits of a skill.
func Extract(dir, archive string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &fileWriter{root: root}
	if lower := strings.ToLower(archive); strings.HasSuffix(lower, ".zip") || strings.HasSuffix(lower, ".skill") {
		return w.extractZip(archive)
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var r io.Reader = f
	if !strings.HasSuffix(strings.ToLower(archive), ".tar") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", atoll.ErrInvalid, archive, err)
		}
		r = z
	}
	return w.extractTar(tar.NewReader(r))
}

// Copy copies the files of a skill into an existing, empty directory.
func Copy(dir string, files fs.FS) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := &fileWriter{root: root}
	files = regularFS{files}
	return fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if e.IsDir() {
			return w.makeDirectory(name)
		}
		f, err := files.Open(name)
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			err = w.writeFile(name, info.Mode(), f)
		}
		return errors.Join(err, f.Close())
	})
}

// fileWriter writes files into a directory and counts them.
type fileWriter struct {
	root  *os.Root
	count int
	size  int64
}

func (w *fileWriter) extractZip(name string) (err error) {
	z, err := zip.OpenReader(name)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", atoll.ErrInvalid, name, err)
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			if err := w.makeDirectory(strings.TrimSuffix(f.Name, "/")); err != nil {
				return err
			}
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%w: %s: %w", atoll.ErrInvalid, f.Name, err)
		}
		err = w.writeFile(f.Name, f.Mode(), r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *fileWriter) extractTar(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: archive: %w", atoll.ErrInvalid, err)
		}
		switch name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/"); h.Typeflag {
		case tar.TypeXGlobalHeader:
		case tar.TypeDir:
			err = w.makeDirectory(name)
		case tar.TypeReg:
			err = w.writeFile(name, h.FileInfo().Mode(), r)
		default:
			err = fmt.Errorf("%w: %q is neither a file nor a directory", atoll.ErrInvalid, h.Name)
		}
		if err != nil {
			return err
		}
	}
}

// checkEntry checks a name and counts it.
func (w *fileWriter) checkEntry(name string) error {
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") || pathDepth(name) > maxDepth {
		return fmt.Errorf("%w: %q is not a valid file name in a skill", atoll.ErrInvalid, name)
	}
	if w.count++; w.count > maxFiles {
		return fmt.Errorf("%w: there are more than %d files", atoll.ErrQuota, maxFiles)
	}
	return nil
}

func (w *fileWriter) makeDirectory(name string) error {
	if name == "" || name == "." {
		return nil
	}
	if err := w.checkEntry(name); err != nil {
		return err
	}
	return w.root.MkdirAll(name, 0o755)
}

// writeFile writes a file with mode 0755 if it is executable, else 0644.
func (w *fileWriter) writeFile(name string, mode fs.FileMode, r io.Reader) error {
	if err := w.checkEntry(name); err != nil {
		return err
	}
	if !mode.IsRegular() {
		return fmt.Errorf("%w: %q is neither a file nor a directory", atoll.ErrInvalid, name)
	}
	if dir := path.Dir(name); dir != "." {
		if err := w.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	n, err := io.Copy(f, io.LimitReader(r, maxSize-w.size+1))
	w.size += n
	if err == nil && w.size > maxSize {
		err = fmt.Errorf("%w: the files have more than %d bytes", atoll.ErrQuota, maxSize)
	}
	return errors.Join(err, f.Close())
}
