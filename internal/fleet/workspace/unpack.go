package workspace

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/sparse"
)

// Limits of an archive besides the owner's quota.
const (
	maxEntries      = 1_000_000
	MinEntries      = 10_000   // allowed with any quota
	bytesPerEntry   = 256      // bytes of quota that allow one more entry
	maxDirNameBytes = 64 << 20 // bytes of the names of all directories
)

// dirAttributes are the attributes of a directory of an archive.
type dirAttributes struct {
	mode  fs.FileMode
	mtime time.Time
	named bool // it has an entry of its own
}

// Unpacker unpacks a tar stream into a staging directory.
type Unpacker struct {
	staging      *Staging
	root         *os.Root // directory "tree" of staging
	hostPath     string   // its path
	meter        *Meter
	maxEntries   int                      // limit of count
	count        int                      // entries and directories without an entry
	dirs         map[string]dirAttributes // by name
	dirNameBytes int                      // bytes of their names
	lastDir      string                   // last directory that makeParents has checked

	edit func(h *tar.Header) (drop bool, err error) // called first for each entry; nil: none
}

// NewUnpacker returns an Unpacker into the directory "tree" of d, metered by m. The caller calls
// Close.
func NewUnpacker(d *Staging, m *Meter) (*Unpacker, error) {
	name := path.Join(d.Name, "tree")
	if err := d.store.Root.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	root, err := OpenDir(d.store.Root, name)
	if err != nil {
		return nil, err
	}
	u := &Unpacker{
		staging: d, root: root, hostPath: filepath.Join(d.store.Dir, filepath.FromSlash(name)), meter: m, maxEntries: maxEntries, lastDir: ".",
		dirs: map[string]dirAttributes{".": {mode: 0o755}},
	}
	if left := m.bytesLeft(); left >= 0 {
		u.maxEntries = int(min(maxEntries, max(MinEntries, left/bytesPerEntry)))
	}
	return u, nil
}

// refuseEntry returns the error of an entry that is refused.
func refuseEntry(name, why string) error {
	return fmt.Errorf("%w: entry %q: %s", atoll.ErrInvalid, shorten(name, 200), why)
}

// Unpack unpacks the stream to its end.
func (u *Unpacker) Unpack(r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if u.edit != nil {
			if drop, err := u.edit(h); err != nil {
				return err
			} else if drop {
				continue
			}
		}
		if err := u.countEntry(); err != nil {
			return err
		}
		if why := checkEntryName(h.Name); why != "" {
			return refuseEntry(h.Name, why)
		}
		if err := u.writeEntry(h, tr); err != nil {
			return fmt.Errorf("entry %q: %w", shorten(h.Name, 200), stripPaths(err))
		}
	}
}

// countEntry counts an entry, or a directory without one, against the limit.
func (u *Unpacker) countEntry() error {
	if u.count++; u.count > u.maxEntries {
		return fmt.Errorf("%w: the archive has more than %d entries and directories", atoll.ErrQuota, u.maxEntries)
	}
	return nil
}

// archiveError marks errors of a malformed archive as ErrInvalid. Errors of the underlying reader
// stay unchanged.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: archive: %w", atoll.ErrInvalid, err)
	}
	return fmt.Errorf("archive: %w", err)
}

// checkEntryName returns what is wrong with a name; empty: nothing.
func checkEntryName(name string) string {
	switch {
	case name == "":
		return "an empty name"
	case strings.HasPrefix(name, "/"):
		return "an absolute name"
	case strings.IndexByte(name, 0) >= 0:
		return "a name with a NUL byte"
	case len(name) > MaxName:
		return "too long a name"
	case strings.Count(name, "/") >= MaxDepth:
		return "directories nested too deep"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "a name that leads out of the archive's directory"
		}
	}
	return ""
}

// writeEntry unpacks one entry.
func (u *Unpacker) writeEntry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if len(u.hostPath)+len(name) >= MaxName {
		return fmt.Errorf("%w: too long a name", atoll.ErrInvalid)
	}
	if err := u.makeParents(path.Dir(name)); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		if err := u.clearFor(name, true); err != nil {
			return err
		}
		return u.addDir(name, dirAttributes{fs.FileMode(h.Mode).Perm(), h.ModTime, true})
	}
	if name == "." {
		return ErrIsDir
	}
	if h.Typeflag == tar.TypeLink {
		return u.hardLink(name, h.Linkname)
	}
	if err := u.clearFor(name, false); err != nil {
		return err
	}
	at := filepath.Join(u.hostPath, filepath.FromSlash(name))
	var err error
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		err = u.writeFile(name, h, content)
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0 || len(h.Linkname) > MaxName {
			return fmt.Errorf("%w: a link without a target", atoll.ErrInvalid)
		}
		err = u.root.Symlink(h.Linkname, name)
	case tar.TypeFifo:
		if err = makePipe(at); err == nil {
			err = u.root.Chmod(name, fs.FileMode(h.Mode).Perm())
		}
	case tar.TypeChar, tar.TypeBlock:
		return fmt.Errorf("%w: a device", atoll.ErrInvalid)
	default:
		return fmt.Errorf("%w: an entry of unknown kind %q", atoll.ErrInvalid, h.Typeflag)
	}
	if err != nil {
		return err
	}
	return setTime(at, h.ModTime)
}

func (u *Unpacker) writeFile(name string, h *tar.Header, content io.Reader) error {
	if left := u.meter.bytesLeft(); left >= 0 && h.Size > left {
		return u.meter.add(h.Size) // refused before any of it is read
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = sparse.CopyFile(file, &meteredReader{content, u.meter})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = archiveError(err)
	}
	if err == nil {
		err = file.Chmod(fs.FileMode(h.Mode).Perm())
	}
	return errors.Join(err, file.Close())
}

// clearFor removes an earlier entry of the same name. A directory can be followed by a directory
// only.
func (u *Unpacker) clearFor(name string, dir bool) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return u.explainParent(path.Dir(name), err)
	case info.IsDir() && dir:
		return nil
	case info.IsDir():
		return ErrIsDir
	}
	return u.root.Remove(name)
}

// addDir creates a directory and its missing parents.
func (u *Unpacker) addDir(name string, as dirAttributes) error {
	if err := u.makeParents(name); err != nil {
		return err
	}
	if old := u.dirs[name]; as.named || !old.named {
		u.dirs[name] = as
	}
	return nil
}

// makeParents creates a directory and its missing parents. None of them may be a link.
func (u *Unpacker) makeParents(dir string) error {
	if dir == u.lastDir || dir == "." {
		return nil
	}
	parts := strings.Split(dir, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		if _, ok := u.dirs[at]; ok {
			continue
		}
		if err := u.countEntry(); err != nil {
			return err
		}
		if err := u.root.Mkdir(at, 0o700); err != nil {
			return u.explainParent(at, err)
		}
		if u.dirNameBytes += len(at); u.dirNameBytes > maxDirNameBytes {
			return fmt.Errorf("%w: the names of the archive's directories have more than %d bytes", atoll.ErrQuota, maxDirNameBytes)
		}
		u.dirs[at] = dirAttributes{mode: 0o755}
	}
	u.lastDir = dir
	return nil
}

// explainParent explains the error of creating an entry beneath name.
func (u *Unpacker) explainParent(name string, err error) error {
	info, serr := u.root.Lstat(name)
	if serr == nil && info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%w: beneath a link that the archive has made", atoll.ErrInvalid)
	}
	if serr == nil && !info.IsDir() {
		return fmt.Errorf("%w: beneath a file", atoll.ErrInvalid)
	}
	return err
}

// hardLink adds a name to an unpacked file.
func (u *Unpacker) hardLink(name, to string) error {
	if why := checkEntryName(to); why != "" {
		return fmt.Errorf("%w: a hard link to %q, %s", atoll.ErrInvalid, shorten(to, 200), why)
	}
	to = path.Clean(to)
	if _, ok := u.dirs[path.Dir(to)]; !ok {
		return fmt.Errorf("%w: a hard link to %q, which no earlier entry has", atoll.ErrInvalid, shorten(to, 200))
	}
	info, err := u.root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: a hard link to %q, which no earlier entry has", atoll.ErrInvalid, shorten(to, 200))
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%w: a hard link to a directory", atoll.ErrInvalid)
	case name == to:
		return nil
	}
	if err := u.clearFor(name, false); err != nil {
		return err
	}
	return u.root.Link(to, name)
}

// Close closes the staging directory; it stays on disk.
func (u *Unpacker) Close() error { return u.root.Close() }

// MoveInto moves what was unpacked into the directory rel beneath root, which is created
// if it is missing, and commits the meter. The bytes replaced are credited to it.
func (u *Unpacker) MoveInto(ctx context.Context, root *os.Root, rel string) (err error) {
	p := placement{Unpacker: u, isRoot: rel == "."}
	if p.to, err = p.openTarget(root, rel); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.to.Close()) }()
	if err := p.moveDir(ctx, "."); err != nil {
		return err
	}
	u.meter.Commit()
	return p.setAttributes()
}

// placement moves unpacked files into a directory of a workspace. Sandboxes may change the
// directory at the same time: nothing ever leaves it.
type placement struct {
	*Unpacker
	to        *os.Root
	isRoot    bool // to is the workspace itself
	displaced int  // number of files moved out of the way of directories

	replaced int64 // bytes of files to be replaced
}

// openTarget opens the target directory, which is created if it is missing, after it has checked
// that the archive fits.
func (p *placement) openTarget(root *os.Root, rel string) (*os.Root, error) {
	to, err := OpenDir(root, rel)
	if errors.Is(err, fs.ErrNotExist) {
		if err := p.meter.setCredit(0); err != nil {
			return nil, err
		}
		if err := root.MkdirAll(rel, 0o755); err != nil {
			return nil, err
		}
		return OpenDir(root, rel)
	}
	if err != nil {
		return nil, err
	}
	p.to = to
	if err = p.check("."); err == nil {
		err = p.meter.setCredit(p.replaced)
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// check refuses entries that can't be moved, before any is, and counts the bytes to be replaced.
func (p *placement) check(dir string) error {
	return ForEachName(p.root, dir, func(child string) error {
		name := path.Join(dir, child)
		old, err := p.to.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		as, isDir := p.dirs[name]
		switch {
		case isDir && old.IsDir():
			return p.check(name)
		case isDir && !as.named && old.Mode().Type() == fs.ModeSymlink:
			return refuseEntry(name, "it is a link in the workspace and a directory in the archive")
		case isDir && !as.named:
			return refuseEntry(name, "it is a file in the workspace and a directory in the archive")
		case !isDir && old.IsDir():
			return refuseEntry(name, "it is a directory")
		}
		p.replaced += ReclaimableSize(old)
		return nil
	})
}

// moveDir moves the content of an unpacked directory to its place.
func (p *placement) moveDir(ctx context.Context, dir string) (err error) {
	from, err := OpenFile(p.root, dir, fs.ModeDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := OpenFile(p.to, dir, fs.ModeDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	names, err := from.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, child := range names {
		if err := context.Cause(ctx); err != nil {
			return timeoutError(err)
		}
		name := path.Join(dir, child)
		as, isDir := p.dirs[name]
		if isDir {
			old, err := p.to.Lstat(name)
			if err == nil && old.IsDir() {
				if !as.named {
					delete(p.dirs, name) // it keeps its attributes
				}
				if err := p.moveDir(ctx, name); err != nil {
					return err
				}
				continue
			}
			if err == nil { // a directory can't replace a file by a move
				p.displaced++
				if err := moveAt(to, child, p.staging.lock, fmt.Sprintf("old-%d", p.displaced)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		if err := moveAt(from, child, to, child); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// setAttributes sets the modes and times of directories, the inner ones first.
func (p *placement) setAttributes() error {
	names := make([]string, 0, len(p.dirs))
	for name, as := range p.dirs {
		if as.named || name != "." {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	for i, name := range names {
		if name == "." {
			names = append(slices.Delete(names, i, i+1), ".")
			break
		}
	}
	for _, name := range names {
		as := p.dirs[name]
		if name == "." && p.isRoot {
			as.mode |= 0o700 // the store must be able to enter it
		}
		err := p.to.Chmod(name, as.mode)
		if err == nil && as.named {
			err = p.to.Chtimes(name, as.mtime, as.mtime)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a sandbox has removed it
			return err
		}
	}
	return nil
}

// FetchDir unpacks a directory of a sandbox into a staging directory and syncs it to disk.
func FetchDir(ctx context.Context, sb atoll.Sandbox, target string, d *Staging, m *Meter) (err error) {
	u, err := NewUnpacker(d, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	u.edit = stripBase(path.Base(target))
	rc, err := sb.Export(ctx, target)
	if err != nil {
		return err
	}
	if err := errors.Join(u.Unpack(rc), rc.Close()); err != nil {
		return FileError(target, err)
	}
	p := placement{Unpacker: u, to: u.root, isRoot: true}
	if err := p.setAttributes(); err != nil {
		return err
	}
	return syncTree(u.root)
}

// stripBase returns an edit that makes the entries of an exported directory relative to it, and
// drops devices.
func stripBase(base string) func(h *tar.Header) (bool, error) {
	strip := func(name string) (string, error) {
		rest, ok := strings.CutPrefix(name, base)
		if rest == "" || rest == "/" {
			rest = "/."
		}
		if !ok || rest[0] != '/' {
			return "", refuseEntry(name, "it is not beneath "+base)
		}
		return rest[1:], nil
	}
	return func(h *tar.Header) (drop bool, err error) {
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			return true, nil
		}
		if h.Name, err = strip(h.Name); err == nil && h.Typeflag == tar.TypeLink {
			h.Linkname, err = strip(h.Linkname)
		}
		return false, err
	}
}
