package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// maxManifest bounds the manifest of an archive, in bytes.
const maxManifest = 16 << 20

// Restore unpacks an archive into a home that does not exist yet, or is empty. The files of the home
// appear when the archive is complete and on the disk; after an error nothing is left.
func Restore(ctx context.Context, r io.Reader, home string) (m Manifest, err error) {
	exists, err := checkEmpty(home)
	if err != nil {
		return m, err
	}
	in, prefix := filepath.Dir(home), "."+filepath.Base(home)+restoringPrefix
	if exists { // it may be a mount, or a link to one
		in, prefix = home, restoringPrefix
	}
	if err := os.MkdirAll(in, 0o700); err != nil {
		return m, err
	}
	dir, err := os.MkdirTemp(in, prefix)
	if err != nil {
		return m, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if m, err = unpackArchive(ctx, r, dir); err != nil {
		return m, fmt.Errorf("restore: %w", err)
	}
	if err := syncTree(dir); err != nil {
		return m, err
	}
	if exists {
		return m, moveEntries(dir, home)
	}
	return m, os.Rename(dir, home)
}

// restoringPrefix is in the name of the directory that an archive is unpacked to.
const restoringPrefix = ".restoring-"

// moveEntries moves the entries of a directory to another one, and removes it. The registry is the
// last: without it, the rest is not taken for a home.
func moveEntries(from, to string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(list, func(e os.DirEntry) bool { return e.Name() == registry.FileName }); i >= 0 {
		list = append(slices.Delete(slices.Clone(list), i, i+1), list[i])
	}
	for _, e := range list {
		if err := os.Rename(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(from)
}

// checkEmpty refuses a home with anything in it, and reports whether it exists.
func checkEmpty(home string) (exists bool, err error) {
	list, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, e := range list {
		if e.Name() != "lost+found" { // of a new file system
			return true, fmt.Errorf("%w: %s is not empty: move it away, or restore to another directory", atoll.ErrExists, home)
		}
	}
	return true, nil
}

// unpacker writes the entries of an archive below a directory.
type unpacker struct {
	dir     string
	root    *os.Root      // of dir: names and links in the archive lead nowhere else
	dirs    []*tar.Header // their modes and times are set last
	entries int
}

// unpackArchive unpacks an archive into an empty directory.
func unpackArchive(ctx context.Context, r io.Reader, dir string) (m Manifest, err error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return m, fmt.Errorf("%w: no backup: %w", atoll.ErrInvalid, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, err
	}
	defer root.Close()
	u := &unpacker{dir: dir, root: root}
	complete := false
	for tr := tar.NewReader(z); ; {
		if err := context.Cause(ctx); err != nil {
			return m, err
		}
		h, err := tr.Next()
		if err == io.EOF { //nolint:errorlint // archive/tar does not wrap it
			break
		}
		if err != nil {
			return m, fmt.Errorf("%w: a damaged or incomplete backup: %w", atoll.ErrInvalid, err)
		}
		if h.Name == manifestName {
			if m, err = readManifest(tr); err != nil {
				return m, err
			}
			complete = true
			continue
		}
		if err := u.addEntry(h, tr); err != nil {
			return m, err
		}
	}
	if _, err := io.Copy(io.Discard, z); err != nil { // the checksum is at the end
		return m, fmt.Errorf("%w: a damaged or incomplete backup: %w", atoll.ErrInvalid, err)
	}
	if !complete || m.Entries != u.entries {
		return m, fmt.Errorf("%w: the backup is incomplete: %d of %d entries", atoll.ErrInvalid, u.entries, m.Entries)
	}
	return m, u.finishDirs()
}

// readManifest reads a manifest and checks that this program can restore the archive.
func readManifest(r io.Reader) (m Manifest, err error) {
	if err := json.NewDecoder(io.LimitReader(r, maxManifest)).Decode(&m); err != nil {
		return m, fmt.Errorf("%w: manifest of the backup: %w", atoll.ErrInvalid, err)
	}
	if m.Format != format {
		return m, fmt.Errorf("%w: the backup has the format %d, this atoll supports %d: use atoll %s", atoll.ErrUnsupported, m.Format, format, m.Atoll)
	}
	return m, nil
}

// addEntry writes one entry.
func (u *unpacker) addEntry(h *tar.Header, content io.Reader) error {
	name, ok := strings.CutPrefix(strings.TrimSuffix(h.Name, "/"), filesPrefix)
	if !ok || !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%w: %q in the backup is no file of a home", atoll.ErrInvalid, h.Name)
	}
	name = filepath.FromSlash(name)
	u.entries++
	switch h.Typeflag {
	case tar.TypeDir:
		h.Name = name
		u.dirs = append(u.dirs, h)
		return u.root.Mkdir(name, 0o700)
	case tar.TypeLink:
		target, ok := strings.CutPrefix(h.Linkname, filesPrefix)
		if !ok {
			return fmt.Errorf("%w: %q in the backup links to %q", atoll.ErrInvalid, h.Name, h.Linkname)
		}
		return u.root.Link(filepath.FromSlash(target), name)
	case tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.setOwner(name, h)
	case tar.TypeReg:
		if err := u.writeFile(name, h, content); err != nil {
			return err
		}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if err := u.checkParents(name); err != nil {
			return err
		}
		if err := makeSpecial(filepath.Join(u.dir, name), h); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: %q in the backup has the type %q", atoll.ErrInvalid, h.Name, h.Typeflag)
	}
	return u.setMetadata(name, h)
}

// writeFile writes a regular file, with holes for long runs of zeros.
func (u *unpacker) writeFile(name string, h *tar.Header, content io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := sparse.CopyFile(f, content)
	if err == nil && n != h.Size {
		err = fmt.Errorf("%w: %q in the backup has %d of %d bytes", atoll.ErrInvalid, h.Name, n, h.Size)
	}
	return errors.Join(err, f.Close())
}

// checkParents refuses a name below a link: calls without a root would follow it.
func (u *unpacker) checkParents(name string) error {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		info, err := u.root.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%w: %q in the backup is below a link", atoll.ErrInvalid, name)
		}
	}
	return nil
}

// setOwner sets the owner of a file, which only root can do.
func (u *unpacker) setOwner(name string, h *tar.Header) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return u.root.Lchown(name, h.Uid, h.Gid)
}

// setMetadata sets owner, mode, extended attributes and times of a file that is no link.
func (u *unpacker) setMetadata(name string, h *tar.Header) error {
	if err := u.setOwner(name, h); err != nil {
		return err
	}
	if err := u.root.Chmod(name, h.FileInfo().Mode()); err != nil {
		return err
	}
	if len(h.PAXRecords) > 0 {
		if err := u.checkParents(name); err != nil {
			return err
		}
		if err := writeAttributes(filepath.Join(u.dir, name), h); err != nil {
			return err
		}
	}
	return u.root.Chtimes(name, time.Time{}, h.ModTime)
}

// finishDirs sets the metadata of directories, the deepest first.
func (u *unpacker) finishDirs() error {
	for _, h := range slices.Backward(u.dirs) {
		if err := u.setMetadata(h.Name, h); err != nil {
			return err
		}
	}
	return nil
}
