package transfer

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// Unpack writes a stream below a directory of this machine. If as is not empty, the top of the tree
// in the stream gets that name. Everything goes through an os.Root: no name and no link leads out of
// the directory. Of modes only the permissions are taken.
func Unpack(dir, as string, r io.Reader) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	u := &unpacker{dir: dir, as: as, open: []openDir{{root: root}}}
	defer func() {
		for _, d := range u.open {
			err = errors.Join(err, d.close())
		}
	}()
	u.tr = tar.NewReader(bufio.NewReaderSize(r, streamBuffer))
	for {
		h, err := u.tr.Next()
		if err == io.EOF {
			return u.finishDirs()
		}
		if err != nil {
			return err
		}
		if err := u.unpackEntry(h); err != nil {
			return err
		}
	}
}

// unpacker writes the entries of a stream. It keeps the directories on the path of the entry before
// open, so that the files of a directory need no walk to it.
type unpacker struct {
	dir  string // where to
	as   string // new name of the top; empty: as in the stream
	tr   *tar.Reader
	top  string        // name of the top in the stream
	open []openDir     // from the top to the directory of the entry before
	dirs []*tar.Header // their modes and times come last, when nothing is written into them any more
	copy sparse.Copier
}

// openDir is an open directory below another.
type openDir struct {
	name  string
	root  *os.Root
	files fileDir
}

// openFiles returns the directory for its files.
func (d *openDir) openFiles() (*fileDir, error) { return &d.files, d.files.open(d.root) }

func (d *openDir) close() error { return errors.Join(d.files.close(), d.root.Close()) }

func (u *unpacker) unpackEntry(h *tar.Header) error {
	u.rename(h)
	h.Name = path.Clean(h.Name)
	if !filepath.IsLocal(filepath.FromSlash(h.Name)) {
		return fmt.Errorf("%w: entry %q of the stream leads out of %s", atoll.ErrDenied, h.Name, u.dir)
	}
	var err error
	if h.Typeflag == tar.TypeDir {
		u.dirs = append(u.dirs, h)
		_, err = u.enterDir(h.Name)
	} else {
		err = u.unpackOther(h)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}

// rename gives the top of the tree its new name in an entry.
func (u *unpacker) rename(h *tar.Header) {
	if u.as == "" {
		return
	}
	if u.top == "" {
		u.top, _, _ = strings.Cut(path.Clean(h.Name), "/")
	}
	h.Name = newTop(h.Name, u.top, u.as)
	if h.Typeflag == tar.TypeLink {
		h.Linkname = newTop(h.Linkname, u.top, u.as)
	}
}

// finishDirs sets the modes and times of directories.
func (u *unpacker) finishDirs() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		h := u.dirs[i]
		if h.Name == "." {
			continue
		}
		root := u.open[0].root
		if err := errors.Join(root.Chmod(h.Name, fs.FileMode(h.Mode)&0o777), root.Chtimes(h.Name, h.ModTime, h.ModTime)); err != nil {
			return err
		}
	}
	return nil
}

// enterDir opens a directory, and creates those that are missing on the way. It refuses a path that
// leads through a link, be it of this stream or of an earlier one: a sandbox may have planted it.
func (u *unpacker) enterDir(name string) (*os.Root, error) {
	var parts []string
	if name != "." {
		parts = strings.Split(name, "/")
	}
	same := 0
	for same < min(len(parts), len(u.open)-1) && parts[same] == u.open[same+1].name {
		same++
	}
	for len(u.open) > same+1 {
		last := len(u.open) - 1
		if err := u.open[last].close(); err != nil {
			return nil, err
		}
		u.open = u.open[:last]
	}
	for i := same; i < len(parts); i++ {
		next, err := stepInto(u.open[i].root, parts[i], strings.Join(parts[:i+1], "/"))
		if err != nil {
			return nil, err
		}
		u.open = append(u.open, openDir{name: parts[i], root: next})
	}
	return u.open[len(u.open)-1].root, nil
}

// stepInto opens a directory in another, and creates it if it is missing. path is its name in errors.
func stepInto(parent *os.Root, name, path string) (*os.Root, error) {
	err := parent.Mkdir(name, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := checkNoLink(parent, name, path); err != nil {
		return nil, err
	}
	return parent.OpenRoot(name)
}

// checkNoLink refuses a link.
func checkNoLink(dir *os.Root, name, path string) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%w: %s is a link: remove it, or copy to another place", atoll.ErrDenied, path)
	}
	return nil
}

// unpackOther unpacks an entry that is no directory.
func (u *unpacker) unpackOther(h *tar.Header) error {
	dir, err := u.enterDir(path.Dir(h.Name))
	if err != nil {
		return err
	}
	base := path.Base(h.Name)
	switch h.Typeflag {
	case tar.TypeSymlink:
		if err := removeExisting(dir, base); err != nil {
			return err
		}
		return dir.Symlink(h.Linkname, base)
	case tar.TypeLink:
		return u.unpackLink(h, dir, base)
	case tar.TypeReg:
		return u.unpackFile(h, dir, base)
	}
	return nil // devices and pipes of a sandbox mean nothing here
}

// unpackLink makes a hard link to another file of the stream.
func (u *unpacker) unpackLink(h *tar.Header, dir *os.Root, base string) error {
	if err := removeExisting(dir, base); err != nil {
		return err
	}
	from, root, at := path.Clean(h.Linkname), u.open[0].root, ""
	for part := range strings.SplitSeq(from, "/") {
		at = path.Join(at, part)
		if err := checkNoLink(root, at, at); err != nil {
			return err
		}
	}
	return root.Link(from, h.Name)
}

// tempMode is the mode of a file with a temporary name.
const tempMode = 0o600

// unpackFile writes a file under a temporary name and then renames it. dir is the last open directory.
func (u *unpacker) unpackFile(h *tar.Header, dir *os.Root, base string) error {
	files, err := u.open[len(u.open)-1].openFiles()
	if err != nil {
		return err
	}
	temp := fmt.Sprintf(".atoll-%016x.tmp", rand.Uint64())
	f, err := files.create(temp)
	if err != nil {
		return err
	}
	_, err = u.copy.CopyFile(f, u.tr)
	if mode := fs.FileMode(h.Mode) & 0o777; err == nil && mode != tempMode {
		err = f.Chmod(mode)
	}
	err = output.CloseAfter(err, f)
	if err == nil {
		err = files.setTime(temp, h.ModTime)
	}
	if err == nil {
		err = files.rename(temp, base)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temp))
	}
	return nil
}

// removeExisting removes a file or link that is in the way of a link.
func removeExisting(dir *os.Root, name string) error {
	info, err := dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%w: a directory is in the way", atoll.ErrExists)
	}
	return dir.Remove(name)
}
