package command

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// copier copies and moves files, for cp, mv and install.
type copier struct {
	p *kernel.Proc

	recursive  bool
	follow     byte // 'L' all links, 'H' those named, 'P' none, 0: not said
	keepMode   bool
	keepOwner  bool
	keepTimes  bool
	keepLinks  bool
	dropMode   bool // --no-preserve=mode
	backup     backup
	force      bool
	ask        bool
	noClobber  bool
	update     bool
	verbose    bool
	hard       bool // make hard links
	symbolic   bool // make symbolic links
	bare       bool // --attributes-only
	parents    bool
	removeDest bool
	strip      bool // --strip-trailing-slashes
	moving     bool // as the first half of a move
	into       string
	plain      bool // -T

	failed bool
	links  map[uint64]string // what an inode was copied to
	made   map[uint64]bool   // inodes that this run made
	seen   map[string]bool   // operands
	top    [2]string         // the operand and what it becomes
}

func (c *copier) fail(format string, a ...any) {
	c.failed = true
	c.p.Errorf(format, a...)
}

func (c *copier) tell(s string) { _, _ = c.p.Out().WriteString(s + "\n") } // shows at the flush

// destination says where operands go.
type destination struct {
	sources []string
	dir     string // "" when name is the new name of the only source
	name    string
}

// destination finds out where the operands are to go.
func (c *copier) destination(names []string) (d destination, ok bool) {
	p := c.p
	if len(names) == 0 || len(names) == 1 && c.into == "" {
		if len(names) == 0 {
			p.Errorf("missing file operand")
		} else {
			p.Errorf("missing destination file operand after %s", quote(names[0]))
		}
		tryHelp(p)
		return d, false
	}
	last := names[len(names)-1]
	switch {
	case c.plain && c.into != "":
		p.Errorf("cannot combine --target-directory (-t) and --no-target-directory (-T)")
		return d, false
	case c.plain && len(names) > 2:
		p.Errorf("extra operand %s", quote(names[2]))
		tryHelp(p)
		return d, false
	case c.plain:
		return destination{sources: names[:1], name: last}, true
	case c.into != "":
		if err := isDirectory(p, c.into); err != nil {
			what := "target directory"
			if p.Name() == "install" && isMissing(err) {
				what = "failed to access"
			}
			p.Errorf("%s %s: %s", what, quote(c.into), why(err))
			return d, false
		}
		return destination{sources: names, dir: c.into}, true
	}
	err := isDirectory(p, last)
	switch {
	case err == nil:
		return destination{sources: names[:len(names)-1], dir: last}, true
	case len(names) > 2:
		p.Errorf("target %s: %s", quote(last), why(err))
		return d, false
	}
	return destination{sources: names[:1], name: last}, true
}

// isDirectory returns why a name is no directory, nil if it is one.
func isDirectory(p *kernel.Proc, name string) error {
	info, err := p.Stat(name)
	if err == nil && !info.IsDir() {
		err = vfs.ENOTDIR
	}
	return err
}

// target returns the name that a source gets in the directory.
func (d destination) target(source string) string {
	if d.dir == "" {
		return d.name
	}
	last := lastName(source)
	if last == ".." || last == "/" {
		return d.dir
	}
	return joinName(d.dir, last)
}

// source looks at what is to be copied.
func (c *copier) source(name string, operand bool) (vfs.Info, bool, error) {
	follow := c.follow == 'L' || c.follow == 'H' && operand
	if c.strip {
		name = strings.TrimRight(name, "/")
	}
	if follow {
		info, err := c.p.Stat(name)
		if err != nil && isMissing(err) {
			stream, serr := c.isStream(name)
			return info, stream, errorUnless(stream && serr == nil, err)
		}
		return info, false, err
	}
	info, err := c.p.Lstat(name)
	return info, false, err
}

func errorUnless(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

// isStream reports whether a name that no file has is one of the kernel's
// own, such as /dev/stdin.
func (c *copier) isStream(name string) (bool, error) {
	abs := c.p.Path(name)
	if !strings.HasPrefix(abs, "/dev/") && !strings.HasPrefix(abs, "/proc/") {
		return false, nil
	}
	h, err := c.p.Open(name)
	if err != nil {
		return false, err
	}
	return true, h.Close()
}

// copy copies one name to another. operand says that it was given, up are
// the directories that it lies in.
func (c *copier) copy(from, to string, operand bool, up *above) bool {
	c.p.Tick(4)
	if operand {
		c.top = [2]string{from, to}
	}
	info, stream, err := c.source(from, operand)
	switch {
	case err != nil:
		c.fail("cannot stat %s: %s", quote(from), why(err))
		return false
	case stream:
		return c.copyFile(from, to, vfs.Info{}, false)
	case info.IsDir() && !c.recursive:
		if c.p.Name() == "install" {
			c.fail("omitting directory %s", quote(from))
		} else {
			c.fail("-r not specified; omitting directory %s", quote(from))
		}
		return false
	}
	if operand && c.repeated(from, to, info) {
		return true
	}
	old, oldErr := c.old(to, info)
	exists := oldErr == nil
	if exists {
		ok, skip := c.mayReplace(from, to, info, old)
		if skip || !ok {
			return ok
		}
	} else if errors.Is(oldErr, vfs.ENOTDIR) || errors.Is(oldErr, vfs.ELOOP) {
		c.fail("%s: %s", c.wording(info, to), why(oldErr))
		return false
	}
	if done, ok := c.relink(info, to, exists); done {
		return ok
	}
	saved := ""
	if exists && !old.IsDir() {
		if saved, exists = c.makeRoom(from, to, info); saved == "\x00" {
			return false
		}
	}
	if c.verbose && !info.IsDir() {
		c.announce(from, to, saved)
	}
	return c.make(from, to, info, exists, up)
}

// announce tells what is copied where.
func (c *copier) announce(from, to, saved string) {
	text := quote(from) + " -> " + quote(to)
	if saved != "" {
		text += " (backup: " + quote(saved) + ")"
	}
	if c.moving {
		text = "copied " + text
	}
	c.tell(text)
}

// old looks at what has the new name already.
func (c *copier) old(to string, info vfs.Info) (vfs.Info, error) {
	if info.Mode().IsRegular() && !c.removeDest && !c.hard && !c.symbolic && !c.backup.on {
		if old, err := c.p.Stat(to); err == nil {
			return old, nil
		}
	}
	return c.p.Lstat(to)
}

// repeated warns of an operand that was given twice.
func (c *copier) repeated(from, to string, info vfs.Info) bool {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	key := itoa(int(info.Ino())) + " " + to
	if c.seen[key] && !c.backup.on {
		what := "file"
		if info.IsDir() {
			what = "directory"
		}
		c.p.Errorf("warning: source %s %s specified more than once", what, quote(from))
		return true
	}
	c.seen[key] = true
	return false
}

// mayReplace decides about a name that exists; skip says that it stays.
func (c *copier) mayReplace(from, to string, info, old vfs.Info) (ok, skip bool) {
	switch {
	case info.Ino() == old.Ino() && c.sameFile(from, to, info):
		return c.samePlace(from, to, info)
	case c.noClobber && !old.IsDir(), c.update && !old.IsDir() && !old.ModTime().Before(info.ModTime()):
		return true, true
	case info.IsDir() && !old.IsDir():
		c.fail("cannot overwrite non-directory %s with directory %s", quote(to), quote(from))
		return false, false
	case !info.IsDir() && old.IsDir():
		c.fail("cannot overwrite directory %s with non-directory", quote(to))
		return false, false
	case c.made[old.Ino()] && !c.backup.on && !info.IsDir():
		c.fail("will not overwrite just-created %s with %s", quote(to), quote(from))
		return false, false
	case c.ask && !old.IsDir():
		return true, !confirm(c.p, c.p.Name()+": overwrite "+quote(to)+"? ")
	}
	return true, false
}

// sameFile reports whether both names lead to the same inode in a way that
// copying would destroy it.
func (c *copier) sameFile(from, to string, info vfs.Info) bool {
	if c.hard && !info.IsDir() {
		return true
	}
	if c.removeDest || c.backup.on {
		a, errA := c.p.Lstat(from)
		b, errB := c.p.Lstat(to)
		if errA == nil && errB == nil && (a.Ino() != b.Ino() || a.Nlink() > 1 && !lexicalSame(c.p, from, to)) {
			return false
		}
	}
	return true
}

func (c *copier) samePlace(from, to string, info vfs.Info) (ok, skip bool) {
	if c.hard && !info.IsDir() {
		return true, true
	}
	if info.IsDir() && !lexicalSame(c.p, from, to) && c.recursive {
		return true, false
	}
	c.fail("%s and %s are the same file", quote(from), quote(to))
	return false, false
}

// makeRoom keeps a backup of the old file or removes it where it can't be
// written over. saved is "\x00" when that failed.
func (c *copier) makeRoom(from, to string, info vfs.Info) (saved string, exists bool) {
	if c.backup.on {
		saved = c.backup.name(c.p, to)
		if err := c.p.Rename(to, saved); err != nil {
			c.fail("cannot backup %s: %s", quote(to), why(err))
			return "\x00", true
		}
		return saved, false
	}
	keep := info.Mode().IsRegular() && !c.removeDest && !c.hard && !c.symbolic
	if keep {
		return "", true
	}
	if (c.hard || c.symbolic) && !c.force && !c.removeDest {
		return "", true
	}
	if err := c.p.Unlink(to); err != nil {
		c.fail("cannot remove %s: %s", quote(to), why(err))
		return "\x00", true
	}
	if c.verbose && c.removeDest {
		c.tell("removed " + quote(to))
	}
	return "", false
}

// relink links to an earlier copy of the same inode.
func (c *copier) relink(info vfs.Info, to string, exists bool) (done, ok bool) {
	if !c.keepLinks || info.IsDir() || info.Nlink() < 2 && !c.moving {
		return false, false
	}
	first, known := c.links[info.Ino()]
	if !known && info.Nlink() < 2 {
		return false, false // else the other names have been moved already
	}
	if !known {
		if c.links == nil {
			c.links = map[uint64]string{}
		}
		c.p.Alloc(64 + int64(len(to)))
		c.links[info.Ino()] = to
		return false, false
	}
	if exists {
		if err := c.p.Unlink(to); err != nil {
			c.fail("cannot remove %s: %s", quote(to), why(err))
			return true, false
		}
	}
	if err := c.p.Link(first, to); err != nil {
		c.fail("cannot create hard link %s to %s: %s", quote(to), quote(first), why(err))
		return true, false
	}
	if c.verbose {
		c.announce(first, to, "")
	}
	return true, true
}

// wording begins the message of a file that can't be made.
func (c *copier) wording(info vfs.Info, to string) string {
	what := "regular file"
	switch m := info.Mode(); {
	case m.IsDir():
		what = "directory"
	case m&fs.ModeSymlink != 0:
		what = "symbolic link"
	case m&fs.ModeNamedPipe != 0:
		what = "fifo"
	case m&fs.ModeDevice != 0:
		what = "special file"
	}
	return "cannot create " + what + " " + quote(to)
}

// make makes the copy by the kind of the source.
func (c *copier) make(from, to string, info vfs.Info, exists bool, up *above) bool {
	var err error
	switch m := info.Mode(); {
	case info.IsDir():
		return c.copyDir(from, to, info, exists, up)
	case c.symbolic:
		return c.makeSymlink(from, to)
	case c.hard:
		target := from
		if path, rerr := c.p.Resolve(from); rerr == nil && c.follow == 'L' {
			target = path
		}
		if err = c.p.Link(target, to); err != nil {
			c.fail("cannot create hard link %s to %s: %s", quote(to), quote(from), why(err))
			return false
		}
		return true
	case m&fs.ModeSymlink != 0:
		err = c.copyLink(from, to, info)
	case m.IsRegular() || !c.recursive:
		return c.copyFile(from, to, info, exists)
	case m&fs.ModeNamedPipe != 0:
		err = c.p.Mkfifo(to, m.Perm())
	default:
		err = c.p.FS().Mknod(c.p.Path(to), m, info.Rdev())
	}
	if err != nil {
		c.fail("%s: %s", c.wording(info, to), why(err))
		return false
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		c.attributes(to, info, true)
	}
	return true
}

func (c *copier) makeSymlink(from, to string) bool {
	if !strings.HasPrefix(from, "/") && dirOf(to) != "." && !sameDir(c.p, dirOf(to), ".") {
		c.fail("%s: can make relative symbolic links only in current directory", quotef(to))
		return false
	}
	if err := c.p.Symlink(from, to); err != nil {
		c.fail("cannot create symbolic link %s to %s: %s", quote(to), quote(from), why(err))
		return false
	}
	return true
}

func sameDir(p *kernel.Proc, a, b string) bool {
	x, errX := p.Stat(a)
	y, errY := p.Stat(b)
	return errX == nil && errY == nil && x.Ino() == y.Ino()
}

func (c *copier) copyLink(from, to string, info vfs.Info) error {
	target, err := c.p.Readlink(from)
	if err == nil {
		err = c.p.Symlink(target, to)
	}
	if err != nil {
		return err
	}
	if c.keepOwner {
		err = c.p.Lchown(to, info.Uid(), info.Gid())
	}
	if c.keepTimes && err == nil {
		err = c.p.FS().Lchtimes(c.p.Path(to), info.Atime(), info.ModTime())
	}
	c.note(to)
	return err
}

// note remembers a file that this run made.
func (c *copier) note(to string) {
	if info, err := c.p.Lstat(to); err == nil {
		if c.made == nil {
			c.made = map[uint64]bool{}
		}
		c.p.Alloc(32)
		c.made[info.Ino()] = true
	}
}

// copyFile copies the content of a file or a stream.
func (c *copier) copyFile(from, to string, info vfs.Info, exists bool) bool {
	in, err := c.p.Open(from)
	if err != nil {
		c.fail("cannot open %s for reading: %s", quote(from), why(err))
		return false
	}
	defer closeInput(in)
	out, ok := c.create(to, info, exists)
	if !ok {
		return false
	}
	defer closeInput(out)
	if !c.bare {
		var lost *writeError
		err := copyThrough(c.p, out, in)
		switch {
		case errors.As(err, &lost):
			c.fail("error writing %s: %s", quote(to), why(err))
			return false
		case err != nil:
			c.fail("error reading %s: %s", quote(from), why(err))
			return false
		}
	}
	if !exists {
		c.note(to)
	}
	c.attributes(to, info, !exists)
	return true
}

func (c *copier) create(to string, info vfs.Info, exists bool) (*kernel.Handle, bool) {
	flag := os.O_WRONLY | os.O_CREATE
	if !c.bare {
		flag |= os.O_TRUNC
	}
	perm := info.Mode().Perm()
	if c.dropMode {
		perm = 0o666
	}
	if info.Ino() == 0 {
		perm = 0o600 // a pipe's
	}
	if exists {
		if _, err := c.p.Stat(to); err != nil && isMissing(err) {
			c.fail("not writing through dangling symlink %s", quote(to))
			return nil, false
		}
	}
	var out *kernel.Handle
	var err error
	if !exists && strings.HasSuffix(to, "/") {
		err = vfs.ENOTDIR
	} else {
		out, err = c.p.OpenFile(to, flag, perm)
	}
	if err != nil {
		c.fail("cannot create regular file %s: %s", quote(to), why(err))
		return nil, false
	}
	return out, true
}

// attributes gives the copy what is to be preserved.
func (c *copier) attributes(to string, info vfs.Info, fresh bool) {
	if info.Ino() == 0 {
		return
	}
	set := func(err error, what string) {
		if err != nil {
			c.fail("%s %s: %s", what, quote(to), why(err))
		}
	}
	if c.keepTimes {
		set(c.p.Chtimes(to, info.Atime(), info.ModTime()), "preserving times for")
	}
	if c.keepOwner {
		if abs, err := c.p.Resolve(to); err == nil {
			set(c.p.Lchown(abs, info.Uid(), info.Gid()), "failed to preserve ownership for")
		}
	}
	switch {
	case c.keepMode:
		set(c.p.Chmod(to, permMode(unixMode(info.Mode())&modeBits)), "preserving permissions for")
	case info.IsDir() && fresh && !c.dropMode:
		set(c.p.Chmod(to, permMode(unixMode(info.Mode())&modeBits&^c.p.Umask())), "setting permissions for")
	}
}

func (c *copier) copyDir(from, to string, info vfs.Info, exists bool, up *above) bool {
	if up.holds(info.Ino()) {
		c.fail("cannot copy cyclic symbolic link %s", quote(from))
		return false
	}
	if c.made[info.Ino()] {
		c.fail("cannot copy a directory, %s, into itself, %s", quote(c.top[0]), quote(c.top[1]))
		return false
	}
	if !exists {
		if err := c.p.Mkdir(to, 0o700|info.Mode().Perm()); err != nil {
			c.fail("cannot create directory %s: %s", quote(to), why(err))
			return false
		}
		c.note(to)
		switch {
		case c.verbose && c.moving:
			c.tell("created directory " + quote(to))
		case c.verbose:
			c.announce(from, to, "")
		}
	}
	list, err := c.p.ReadDir(from)
	if err != nil {
		c.fail("cannot access %s: %s", quote(from), why(err))
		return false
	}
	here := &above{info.Ino(), up}
	ok := true
	for _, d := range list {
		name := joinName(from, d.Name())
		if !c.copy(name, joinName(to, d.Name()), false, here) {
			ok = false
		}
	}
	c.attributes(to, info, !exists)
	return ok
}
