package guest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// importTar unpacks a tar stream into a directory.
func (s *Server) importTar(w *walker, dir string, _ fs.FileMode, content *dataReader) error {
	if err := w.makeDirs(dir, 0o755); err != nil {
		return err
	}
	w.confineToDir()
	im := &importer{w: w, buf: make([]byte, maxData), alive: content.checkAlive}
	tr := tar.NewReader(content)
	for {
		h, err := tr.Next()
		if err == io.EOF { //nolint:errorlint // the reader does not wrap it
			if err := im.applyPending(0); err != nil {
				return err
			}
			return im.flushFileSystems()
		}
		if err != nil {
			return errors.Join(wrapArchiveError(err), im.applyPending(0))
		}
		if err := im.importEntry(h, tr); err != nil {
			return errors.Join(wrapPathError(h.Name, wrapArchiveError(err)), im.applyPending(0))
		}
	}
}

// wrapArchiveError makes errors in the archive's format match ErrInvalid.
func wrapArchiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || err == io.ErrUnexpectedEOF { //nolint:errorlint // a wrapped one comes from the wire
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// importer unpacks an archive below the walker's top.
type importer struct {
	w       *walker
	buf     []byte
	alive   func() error      // returns an error if the host has disconnected
	dir     string            // current directory of the walker, as named in the archive; "/": unknown
	pending []pendingDir      // modes and times of directories, set at the end because unpacking changes them
	changed map[uint64]string // a directory on each file system that was changed, by device; only if changes are flushed
}

// pendingDir holds the final mode and times of a directory.
type pendingDir struct {
	name     string
	dev, ino uint64
	mode     uint32
	times    []unix.Timespec
}

// maxPendingDirs is the number of directories whose mode and times can be pending.
const maxPendingDirs = 1 << 16

// importEntry unpacks one entry.
func (im *importer) importEntry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // written by git archive
	}
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return im.importDir(name, h)
	}
	if name == "." {
		return unix.EISDIR
	}
	if err := im.enterDir(path.Dir(name)); err != nil {
		return err
	}
	im.noteFileSystem()
	switch base := path.Base(name); h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // for old archives
		return im.importFile(base, h, content)
	case tar.TypeSymlink:
		return im.importSymlink(base, h)
	case tar.TypeLink:
		return im.importHardLink(base, h)
	case tar.TypeFifo:
		return im.importPipe(base, h)
	case tar.TypeChar, tar.TypeBlock:
		return newInvalid("devices are not unpacked")
	}
	return newInvalid(fmt.Sprintf("an entry of kind %q", h.Typeflag))
}

// entryName checks the name of an entry or the target of a hard link, and cleans it.
func entryName(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", newInvalid("names in an archive must be relative")
	}
	if strings.Count(name, "/") > 4*maxDepth {
		return "", unix.ENAMETOOLONG
	}
	for _, c := range strings.Split(name, "/") {
		if c == ".." {
			return "", errOutside
		}
	}
	return path.Clean(name), nil
}

// enterDir walks to a directory and creates it if it is missing.
func (im *importer) enterDir(dir string) error {
	return im.moveTo(dir, func(name string) error { return im.w.makeDir(name, 0o755) }, func() error { return im.w.makeDirs(dir, 0o755) })
}

// moveTo walks from the current directory to another: up over the open directories, and down by
// opening each of the others once. It calls makeMissing for a missing directory, and walkAll to walk
// from the top where a path has links.
func (im *importer) moveTo(dir string, makeMissing func(name string) error, walkAll func() error) error {
	if dir == im.dir {
		return nil
	}
	err := im.moveFrom(splitPath(im.dir), splitPath(dir), makeMissing)
	if errors.Is(err, errLinked) {
		err = walkAll()
	}
	if im.dir = "/"; err == nil {
		im.dir = dir
	}
	return err
}

// errLinked reports a path that does not lead through directories only.
var errLinked = errors.New("a link on the path")

// moveFrom is moveTo for the components of both paths.
func (im *importer) moveFrom(from, to []string, makeMissing func(name string) error) error {
	w := im.w
	if im.dir == "/" || w.links > 0 || len(w.stack) != len(from)+1 {
		w.reset()
		from = nil
	}
	same := 0
	for same < min(len(from), len(to)) && from[same] == to[same] {
		same++
	}
	for len(w.stack) > same+1 {
		w.pop()
	}
	w.s.dirMu.Lock()
	defer w.s.dirMu.Unlock()
	for _, c := range to[same:] {
		target, err := w.stepInto(c, false)
		switch {
		case errors.Is(err, unix.ENOENT):
			err = makeMissing(c)
		case target != "":
			err = errLinked
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// importDir creates a directory, or sets the mode of an existing one. The top directory of the
// archive keeps its mode unless it belongs to the sandbox's user.
func (im *importer) importDir(name string, h *tar.Header) error {
	if err := im.enterDir(name); err != nil {
		return err
	}
	im.noteFileSystem()
	var st unix.Stat_t
	if err := unix.Fstat(im.w.currentFD(), &st); err != nil {
		return err
	}
	if c := im.w.s.Config; name == "." && c.CanSwitchUser && int(st.Uid) != c.UID {
		return nil
	}
	if len(im.pending) >= maxPendingDirs {
		if err := im.applyPending(maxPendingDirs / 2); err != nil {
			return err
		}
	}
	mode := uint32(h.Mode) & (0o777 | unix.S_ISVTX)
	im.pending = append(im.pending, pendingDir{name, st.Dev, st.Ino, mode, timesOf(h)})
	return nil
}

// applyPending sets the modes and times of pending directories, last first, until left remain. It
// skips directories that were removed or replaced.
func (im *importer) applyPending(left int) error {
	var errs error
	for len(im.pending) > left {
		d := im.pending[len(im.pending)-1]
		im.pending = im.pending[:len(im.pending)-1]
		if err := im.moveTo(d.name, func(string) error { return unix.ENOENT }, func() error {
			_, err := im.w.walkTo(d.name, asDirectory)
			return err
		}); err != nil {
			continue
		}
		l, err := openDir(im.w.currentFD(), ".")
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err = unix.Fstat(l.fd, &st); err == nil && st.Dev == d.dev && st.Ino == d.ino {
			if st.Mode&0o7777 != d.mode|st.Mode&unix.S_ISGID {
				err = unix.Fchmod(l.fd, d.mode)
			}
			err = errors.Join(err, setTimes(l.fd, d.times))
		}
		l.close()
		if err != nil && errs == nil {
			errs = wrapPathError(d.name, err)
		}
	}
	return errs
}

// importFile unpacks a regular file.
func (im *importer) importFile(base string, h *tar.Header, content io.Reader) error {
	t, err := im.w.create()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.writeContent(content, im.buf, im.alive); err != nil {
		return err
	}
	return t.commitChecked(base, uint32(h.Mode)&0o777, timesOf(h), im.checkReplaceable)
}

// checkReplaceable checks that an existing entry may be replaced: directories and devices may not.
func (im *importer) checkReplaceable(base string) error {
	var st unix.Stat_t
	err := unix.Fstatat(im.w.currentFD(), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if isReplaceable(&st) {
		return nil
	}
	return wantRegular(&st)
}

// commitTemp sets the owner and times of an entry with a temporary name, and renames it.
func (im *importer) commitTemp(temp, base string, h *tar.Header) error {
	fd, err := unix.Openat(im.w.currentFD(), temp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		if h.Typeflag != tar.TypeLink {
			err = errors.Join(im.w.chownNew(fd), unix.UtimesNanoAt(im.w.currentFD(), temp, timesOf(h), unix.AT_SYMLINK_NOFOLLOW))
		}
		_ = unix.Close(fd) // not written to
	}
	if err == nil {
		err = unix.Renameat(im.w.currentFD(), temp, im.w.currentFD(), base)
	}
	if err != nil || h.Typeflag == tar.TypeLink { // renaming one hard link over another does nothing
		_ = unix.Unlinkat(im.w.currentFD(), temp, 0) // the first error counts
	}
	return err
}

// chownNew is chownToUser for links and pipes. It checks that the file is still one of them.
func (w *walker) chownNew(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFLNK && k != unix.S_IFIFO {
		return fmt.Errorf("%w: another process has changed it meanwhile", atoll.ErrState)
	}
	return w.chownToUser(fd)
}

// importSymlink creates a symbolic link. Its target may be anything: the importer never follows it
// out of the directory.
func (im *importer) importSymlink(base string, h *tar.Header) error {
	if h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0 {
		return newInvalid("a link without a target")
	}
	if err := im.checkReplaceable(base); err != nil {
		return err
	}
	temp := tempName()
	if err := unix.Symlinkat(h.Linkname, im.w.currentFD(), temp); err != nil {
		return err
	}
	return im.commitTemp(temp, base, h)
}

// importHardLink creates a hard link to another file below the top.
func (im *importer) importHardLink(base string, h *tar.Header) error {
	target, err := entryName(h.Linkname)
	if err != nil {
		return err
	}
	if err := im.checkReplaceable(base); err != nil {
		return err
	}
	other, err := im.w.cloneAtTop()
	if err != nil {
		return err
	}
	defer other.close()
	old, err := other.walkTo(target, asName)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(other.currentFD(), old, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFLNK {
		return newInvalid("a hard link to something other than a file")
	}
	temp := tempName()
	if err := unix.Linkat(other.currentFD(), old, im.w.currentFD(), temp, 0); err != nil {
		return err
	}
	return im.commitTemp(temp, base, h)
}

// importPipe creates a named pipe.
func (im *importer) importPipe(base string, h *tar.Header) error {
	if err := im.checkReplaceable(base); err != nil {
		return err
	}
	temp := tempName()
	if err := unix.Mknodat(im.w.currentFD(), temp, unix.S_IFIFO|uint32(h.Mode)&0o777, 0); err != nil {
		return err
	}
	return im.commitTemp(temp, base, h)
}

// timesOf returns the access and modification times of an entry.
func timesOf(h *tar.Header) []unix.Timespec {
	t := unix.Timespec{Nsec: unix.UTIME_OMIT}
	if !h.ModTime.IsZero() {
		t = toTimespec(h.ModTime)
	}
	a := t
	if !h.AccessTime.IsZero() {
		a = toTimespec(h.AccessTime)
	}
	return []unix.Timespec{a, t}
}

// toTimespec converts a time, limited to the range that file systems support.
func toTimespec(t time.Time) unix.Timespec {
	sec := min(max(t.Unix(), -1<<33), 1<<34)
	return unix.Timespec{Sec: sec, Nsec: int64(t.Nanosecond())}
}

// setTimes sets the times of an open file and reports unsupported times as ErrInvalid.
func setTimes(fd int, times []unix.Timespec) error {
	err := setFileTimes(fd, times)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOVERFLOW) {
		return fmt.Errorf("%w: its time is none: %w", atoll.ErrInvalid, err)
	}
	return err
}
