package fleet

import (
	"archive/tar"
	"bufio"
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
)

// What one archive may hold besides what the owner's quota says.
const (
	mostEntries  = 1_000_000
	leastEntries = 10_000   // that any quota allows
	perEntry     = 256      // bytes of a quota that allow one more
	mostNames    = 64 << 20 // bytes of the names of its directories
)

// Import unpacks a tar stream into dir, which is made if it is missing. The
// stream is first unpacked and checked as a whole out of the sandboxes' reach;
// an archive that is refused has changed nothing. Then each file takes its place
// in one step, and a new directory with all in it. A process that dies in between
// leaves some whole files of it, and what was there before of the others.
//
// Modes (permission bits), times, hard links, symbolic links, pipes and empty
// directories are kept. What has the name of an entry is replaced, except that a
// directory stays with what is in it and can't be replaced by something else.
// Refused, with an error that names the entry, are devices, absolute names,
// names with "..", and what would be written through a link, old or new.
func (f *Files) Import(ctx context.Context, dir string, tar io.Reader) error {
	rel, err := f.begin(ctx, atoll.ScopeRun, dir)
	if err != nil {
		return f.fail("import", dir, err)
	}
	done := f.a.audited("workspace import", f.p.name, dir)
	err = f.fail("import", dir, f.importTar(ctx, rel, tar))
	done(err)
	return err
}

func (f *Files) importTar(ctx context.Context, rel string, r io.Reader) (err error) {
	ctx, leave, err := f.a.f.operate(ctx)
	if err != nil {
		return err
	}
	defer leave()
	shelf := f.a.f.shelf
	m, err := f.a.f.meter(ctx, f.p)
	if err != nil {
		return err
	}
	defer m.end()
	if m.limit >= 0 { // until it is known what will be replaced, all of it may be
		held, err := shelf.size(ctx, f.p)
		if err != nil {
			return err
		}
		m.credit(held.bytes)
	}
	d, err := shelf.newDesk(newDir)
	if err != nil {
		return err
	}
	defer f.a.f.tidy(ctx, d)
	u, err := newUnpacking(d, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.root.Close()) }()
	if err := u.unpack(bufio.NewReaderSize(f.leash(ctx, r), chunk)); err != nil {
		return err
	}
	p := placing{unpacking: u, desk: d, top: rel == "."}
	if p.to, err = p.enter(f.root, rel); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.to.Close()) }()
	defer shelf.forget(f.p)
	if err := p.place(ctx, "."); err != nil {
		return err
	}
	m.keep()
	return p.finish()
}

// folderOf says what an archive's directory is to be.
type folderOf struct {
	mode  fs.FileMode
	mtime time.Time
	named bool // it has an entry; else something is beneath it
}

// unpacking is a tar stream on its way to a desk.
type unpacking struct {
	root  *os.Root // the directory "tree" of the desk
	host  string   // its path
	m     *meter
	most  int                 // entries
	count int                 // entries so far
	dirs  map[string]folderOf // all of it, by name
	names int                 // bytes of their names
	last  string              // the directory that was found good last

	edit func(h *tar.Header) (drop bool, err error) // of each entry, first; nil: none
}

func newUnpacking(d *desk, m *meter) (*unpacking, error) {
	name := path.Join(d.name, "tree")
	if err := d.s.root.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	root, err := openDir(d.s.root, name)
	if err != nil {
		return nil, err
	}
	u := &unpacking{
		root: root, host: filepath.Join(d.s.dir, filepath.FromSlash(name)), m: m, most: mostEntries, last: ".",
		dirs: map[string]folderOf{".": {mode: 0o755}},
	}
	if left := m.left(); left >= 0 {
		u.most = int(min(mostEntries, max(leastEntries, left/perEntry)))
	}
	return u, nil
}

// refuse says why an entry is not taken.
func refuse(name, why string) error {
	return fmt.Errorf("%w: entry %q: %s", atoll.ErrInvalid, clip(name, 200), why)
}

// unpack reads the stream to its end.
func (u *unpacking) unpack(r io.Reader) error {
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
		if err := u.one(); err != nil {
			return err
		}
		if why := badName(h.Name); why != "" {
			return refuse(h.Name, why)
		}
		if err := u.entry(h, tr); err != nil {
			return fmt.Errorf("entry %q: %w", clip(h.Name, 200), bare(err))
		}
	}
}

// one counts one more entry, or directory that has none.
func (u *unpacking) one() error {
	if u.count++; u.count > u.most {
		return fmt.Errorf("%w: the archive has more than %d entries and directories", atoll.ErrQuota, u.most)
	}
	return nil
}

// archiveError gives what is wrong with an archive its reason. Errors of the
// reader beneath stay as they are.
func archiveError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: archive: %w", atoll.ErrInvalid, err)
	}
	return fmt.Errorf("archive: %w", err)
}

// badName says what is wrong with a name in an archive.
func badName(name string) string {
	switch {
	case name == "":
		return "an empty name"
	case strings.HasPrefix(name, "/"):
		return "an absolute name"
	case strings.IndexByte(name, 0) >= 0:
		return "a name with a NUL byte"
	case len(name) > longestName:
		return "too long a name"
	case strings.Count(name, "/") >= deepest:
		return "too many directories in each other"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "a name that leads out of the directory"
		}
	}
	return ""
}

// entry puts one entry on the desk.
func (u *unpacking) entry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if len(u.host)+len(name) >= longestName {
		return fmt.Errorf("%w: too long a name", atoll.ErrInvalid)
	}
	if err := u.parents(path.Dir(name)); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		if err := u.clearFor(name, true); err != nil {
			return err
		}
		return u.folder(name, folderOf{fs.FileMode(h.Mode).Perm(), h.ModTime, true})
	}
	if name == "." {
		return errIsDir
	}
	if h.Typeflag == tar.TypeLink {
		return u.hardLink(name, h.Linkname)
	}
	if err := u.clearFor(name, false); err != nil {
		return err
	}
	at := filepath.Join(u.host, filepath.FromSlash(name))
	var err error
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		err = u.file(name, h, content)
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.IndexByte(h.Linkname, 0) >= 0 || len(h.Linkname) > longestName {
			return fmt.Errorf("%w: a link that leads nowhere", atoll.ErrInvalid)
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

func (u *unpacking) file(name string, h *tar.Header, content io.Reader) error {
	if left := u.m.left(); left >= 0 && h.Size > left {
		return u.m.add(h.Size) // before any of it is read
	}
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, &metered{content, u.m})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = archiveError(err)
	}
	if err == nil {
		err = file.Chmod(fs.FileMode(h.Mode).Perm())
	}
	return errors.Join(err, file.Close())
}

// clearFor takes away what an earlier entry of the same name has left. Nothing
// takes the place of a directory but a directory.
func (u *unpacking) clearFor(name string, dir bool) error {
	info, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return u.beneath(path.Dir(name), err)
	case info.IsDir() && dir:
		return nil
	case info.IsDir():
		return errIsDir
	}
	return u.root.Remove(name)
}

// folder makes a directory and those above it.
func (u *unpacking) folder(name string, as folderOf) error {
	if err := u.parents(name); err != nil {
		return err
	}
	if old := u.dirs[name]; as.named || !old.named {
		u.dirs[name] = as
	}
	return nil
}

// parents makes a directory and those above it. None of them may be a link.
func (u *unpacking) parents(dir string) error {
	if dir == u.last || dir == "." {
		return nil
	}
	parts := strings.Split(dir, "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		if _, ok := u.dirs[at]; ok {
			continue
		}
		if err := u.one(); err != nil {
			return err
		}
		if err := u.root.Mkdir(at, 0o700); err != nil {
			return u.beneath(at, err)
		}
		if u.names += len(at); u.names > mostNames {
			return fmt.Errorf("%w: the names of the archive's directories have more than %d bytes", atoll.ErrQuota, mostNames)
		}
		u.dirs[at] = folderOf{mode: 0o755}
	}
	u.last = dir
	return nil
}

// beneath says why nothing can be beneath a name.
func (u *unpacking) beneath(name string, err error) error {
	info, serr := u.root.Lstat(name)
	if serr == nil && info.Mode().Type() == fs.ModeSymlink {
		return fmt.Errorf("%w: beneath a link that the archive has made", atoll.ErrInvalid)
	}
	if serr == nil && !info.IsDir() {
		return fmt.Errorf("%w: beneath a file", atoll.ErrInvalid)
	}
	return err
}

// hardLink gives a file of the archive another name.
func (u *unpacking) hardLink(name, to string) error {
	if why := badName(to); why != "" {
		return fmt.Errorf("%w: a hard link to %q, %s", atoll.ErrInvalid, clip(to, 200), why)
	}
	to = path.Clean(to)
	if _, ok := u.dirs[path.Dir(to)]; !ok {
		return fmt.Errorf("%w: a hard link to %q, which no entry before it has", atoll.ErrInvalid, clip(to, 200))
	}
	info, err := u.root.Lstat(to)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: a hard link to %q, which no entry before it has", atoll.ErrInvalid, clip(to, 200))
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

// placing takes what is on a desk into a directory of a workspace. Sandboxes may
// change that at the same time: whatever they do, nothing leaves it.
type placing struct {
	*unpacking
	desk *desk
	to   *os.Root
	top  bool // to is the workspace itself
	olds int  // what was in the way of directories, now on the desk

	replaced int64 // bytes of what will be replaced
}

// enter opens the directory for the archive, which is made if it is missing, once
// it is sure that the archive is taken.
func (p *placing) enter(root *os.Root, rel string) (*os.Root, error) {
	to, err := openDir(root, rel)
	if errors.Is(err, fs.ErrNotExist) {
		if err := p.m.settle(0); err != nil {
			return nil, err
		}
		if err := root.MkdirAll(rel, 0o755); err != nil {
			return nil, err
		}
		return openDir(root, rel)
	}
	if err != nil {
		return nil, err
	}
	p.to = to
	if err = p.check("."); err == nil {
		err = p.m.settle(p.replaced)
	}
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}

// check refuses what can't take its place, before anything does, and counts
// what will be replaced.
func (p *placing) check(dir string) error {
	return eachName(p.root, dir, func(child string) error {
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
			return refuse(name, "it is a link, and something is to be beneath it")
		case isDir && !as.named:
			return refuse(name, "it is a file, and something is to be beneath it")
		case !isDir && old.IsDir():
			return refuse(name, "it is a directory")
		}
		p.replaced += sole(old)
		return nil
	})
}

// place moves what is in a directory of the desk to where it belongs.
func (p *placing) place(ctx context.Context, dir string) (err error) {
	from, err := openFile(p.root, dir, fs.ModeDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := openFile(p.to, dir, fs.ModeDir)
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
			return late(err)
		}
		name := path.Join(dir, child)
		as, isDir := p.dirs[name]
		if isDir {
			old, err := p.to.Lstat(name)
			if err == nil && old.IsDir() {
				if !as.named {
					delete(p.dirs, name) // it stays as it is
				}
				if err := p.place(ctx, name); err != nil {
					return err
				}
				continue
			}
			if err == nil { // no directory is moved onto something else
				p.olds++
				if err := moveAt(to, child, p.desk.lock, fmt.Sprintf("old-%d", p.olds)); err != nil {
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

// finish gives directories their modes and times, the inner ones first.
func (p *placing) finish() error {
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
		if name == "." && p.top {
			as.mode |= 0o700 // we have to get in again
		}
		err := p.to.Chmod(name, as.mode)
		if err == nil && as.named {
			err = p.to.Chtimes(name, as.mtime, as.mtime)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a sandbox was quicker
			return err
		}
	}
	return nil
}

// Export packs a file or directory as a tar stream whose entries start with its
// base name, "." for the workspace. A link at the end of the name is followed,
// others are packed as links. Sockets and devices are left out. A file that
// becomes shorter while it is read is an error; one that grows is cut.
func (f *Files) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	rel, err := f.begin(ctx, atoll.ScopeRead, name)
	if err != nil {
		return nil, f.fail("export", name, err)
	}
	info, err := f.root.Stat(rel)
	if err == nil && !info.IsDir() {
		err = isA(0, rel, info)
	}
	if err != nil {
		return nil, f.fail("export", name, err)
	}
	r, w := io.Pipe()
	x := &export{r: r}
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(late(context.Cause(ctx))) }) // never fails
	x.wg.Go(func() {
		defer stop()
		err := f.pack(ctx, rel, info, w)
		if errors.Is(err, io.ErrClosedPipe) && ctx.Err() != nil {
			err = late(context.Cause(ctx))
		}
		err = f.fail("export", name, err)
		_ = w.CloseWithError(err) // never fails
		if !errors.Is(err, io.ErrClosedPipe) {
			x.err = err
		}
	})
	return x, nil
}
