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

// importTar unpacks a tar stream into a directory, entry by entry.
func (s *Server) importTar(w *walker, dir string, _ fs.FileMode, content *dataReader) error {
	if err := w.mkdirs(dir, 0o755); err != nil {
		return err
	}
	w.confine()
	im := &importer{w: w, buf: make([]byte, maxData), alive: content.alive}
	tr := tar.NewReader(content)
	for {
		h, err := tr.Next()
		if err == io.EOF { //nolint:errorlint // the reader returns it as it is
			return im.settle(0)
		}
		if err != nil {
			return errors.Join(bad(err), im.settle(0))
		}
		if err := im.entry(h, tr); err != nil {
			return errors.Join(explain(h.Name, bad(err)), im.settle(0))
		}
	}
}

// bad says that errors of the archive are those of who made it.
func bad(err error) error {
	if errors.Is(err, tar.ErrHeader) || err == io.ErrUnexpectedEOF { //nolint:errorlint // one that is wrapped is of the wire
		return fmt.Errorf("%w: the archive is broken: %w", atoll.ErrInvalid, err)
	}
	return err
}

// importer unpacks an archive below the walker's top.
type importer struct {
	w     *walker
	buf   []byte
	alive func() error // whether somebody still wants it
	dir   string       // where the walker is, by the archive's names; "/" is nowhere
	late  []later      // modes and times of directories, which what is put into them changes
}

// later is what a directory gets in the end.
type later struct {
	name     string
	dev, ino uint64
	mode     uint32
	times    []unix.Timespec
}

// maxLate is how many directories wait for their times.
const maxLate = 1 << 16

// entry unpacks one entry.
func (im *importer) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // comments of git
	}
	name, err := entryName(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return im.directory(name, h)
	}
	if name == "." {
		return unix.EISDIR
	}
	if err := im.enter(path.Dir(name)); err != nil {
		return err
	}
	switch base := path.Base(name); h.Typeflag {
	case tar.TypeReg, tar.TypeRegA, tar.TypeCont, tar.TypeGNUSparse: //nolint:staticcheck // old archives have it
		return im.file(base, h, content)
	case tar.TypeSymlink:
		return im.symlink(base, h)
	case tar.TypeLink:
		return im.link(base, h)
	case tar.TypeFifo:
		return im.pipe(base, h)
	case tar.TypeChar, tar.TypeBlock:
		return refuse("devices are not unpacked")
	}
	return refuse(fmt.Sprintf("an entry of kind %q", h.Typeflag))
}

// entryName checks the name of an entry, or what a hard link leads to.
func entryName(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.IndexByte(name, 0) >= 0 {
		return "", refuse("names in an archive must be relative")
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

// enter goes to a directory, making it if it is not there.
func (im *importer) enter(dir string) error {
	if dir == im.dir {
		return nil
	}
	im.dir = "/"
	err := im.w.mkdirs(dir, 0o755)
	if err == nil {
		im.dir = dir
	}
	return err
}

// directory makes a directory, or gives one that is there its mode. That of the
// whole archive is left alone if it is not the sandbox's user's own.
func (im *importer) directory(name string, h *tar.Header) error {
	if err := im.enter(name); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(im.w.at(), &st); err != nil {
		return err
	}
	if c := im.w.s.Config; name == "." && c.Switch && int(st.Uid) != c.UID {
		return nil
	}
	if len(im.late) >= maxLate {
		if err := im.settle(maxLate / 2); err != nil {
			return err
		}
	}
	mode := uint32(h.Mode) & (0o777 | unix.S_ISVTX)
	im.late = append(im.late, later{name, st.Dev, st.Ino, mode, timesOf(h)})
	return nil
}

// settle gives directories their modes and times, the last first, until so many
// are left. Those that are others by now, or gone, are left alone.
func (im *importer) settle(left int) error {
	var errs error
	for len(im.late) > left {
		d := im.late[len(im.late)-1]
		im.late = im.late[:len(im.late)-1]
		im.dir = "/"
		if _, err := im.w.to(d.name, asDirectory); err != nil {
			continue
		}
		l, err := openDir(im.w.at(), ".")
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
			errs = explain(d.name, err)
		}
	}
	return errs
}

// file unpacks a file.
func (im *importer) file(base string, h *tar.Header, content io.Reader) error {
	if err := im.free(base); err != nil {
		return err
	}
	t, err := im.w.create()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.fill(content, im.buf, im.alive); err != nil {
		return err
	}
	return t.become(base, uint32(h.Mode)&0o777, timesOf(h))
}

// free checks that what has a name can be replaced: directories and devices
// stay.
func (im *importer) free(base string) error {
	var st unix.Stat_t
	err := unix.Fstatat(im.w.at(), base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if replaceable(&st) {
		return nil
	}
	return wantRegular(&st)
}

// place gives what was made under a temporary name its owner, its times and
// name.
func (im *importer) place(temp, base string, h *tar.Header) error {
	fd, err := unix.Openat(im.w.at(), temp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		if h.Typeflag != tar.TypeLink {
			err = errors.Join(im.w.ownNew(fd), unix.UtimesNanoAt(im.w.at(), temp, timesOf(h), unix.AT_SYMLINK_NOFOLLOW))
		}
		_ = unix.Close(fd) // it was only a handle
	}
	if err == nil {
		err = unix.Renameat(im.w.at(), temp, im.w.at(), base)
	}
	if err != nil || h.Typeflag == tar.TypeLink { // a name for the same file: then nothing was renamed
		_ = unix.Unlinkat(im.w.at(), temp, 0) // what counts is known
	}
	return err
}

// ownNew is own for what has no content: it is what was just made, or of a kind
// that gives nothing away.
func (w *walker) ownNew(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFLNK && k != unix.S_IFIFO {
		return fmt.Errorf("%w: somebody has changed it meanwhile", atoll.ErrState)
	}
	return w.own(fd)
}

// symlink makes a symbolic link. Where it leads doesn't matter: nothing goes
// out through it.
func (im *importer) symlink(base string, h *tar.Header) error {
	if h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0 {
		return refuse("a link to nowhere")
	}
	if err := im.free(base); err != nil {
		return err
	}
	temp := tempName()
	if err := unix.Symlinkat(h.Linkname, im.w.at(), temp); err != nil {
		return err
	}
	return im.place(temp, base, h)
}

// link makes a hard link to another file of the directory.
func (im *importer) link(base string, h *tar.Header) error {
	target, err := entryName(h.Linkname)
	if err != nil {
		return err
	}
	if err := im.free(base); err != nil {
		return err
	}
	other, err := im.w.twin()
	if err != nil {
		return err
	}
	defer other.close()
	old, err := other.to(target, asName)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(other.at(), old, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFLNK {
		return refuse("a hard link to what is not a file")
	}
	temp := tempName()
	if err := unix.Linkat(other.at(), old, im.w.at(), temp, 0); err != nil {
		return err
	}
	return im.place(temp, base, h)
}

// pipe makes a named pipe.
func (im *importer) pipe(base string, h *tar.Header) error {
	if err := im.free(base); err != nil {
		return err
	}
	temp := tempName()
	if err := unix.Mknodat(im.w.at(), temp, unix.S_IFIFO|uint32(h.Mode)&0o777, 0); err != nil {
		return err
	}
	return im.place(temp, base, h)
}

// timesOf returns the times of access and change that an entry has.
func timesOf(h *tar.Header) []unix.Timespec {
	t := unix.Timespec{Nsec: unix.UTIME_OMIT}
	if !h.ModTime.IsZero() {
		t = timespec(h.ModTime)
	}
	a := t
	if !h.AccessTime.IsZero() {
		a = timespec(h.AccessTime)
	}
	return []unix.Timespec{a, t}
}

// timespec returns a time that file systems take: what is out of their range
// is at its edge.
func timespec(t time.Time) unix.Timespec {
	sec := min(max(t.Unix(), -1<<33), 1<<34)
	return unix.Timespec{Sec: sec, Nsec: int64(t.Nanosecond())}
}

// setTimes sets the times of an open file.
func setTimes(fd int, times []unix.Timespec) error {
	err := futimens(fd, times)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOVERFLOW) {
		return fmt.Errorf("%w: its time is none: %w", atoll.ErrInvalid, err)
	}
	return err
}
