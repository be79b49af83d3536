package file

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// copier copies and moves files, for cp, mv and install.
type copier struct {
	p *kernel.Proc

	recursive  bool
	follow     byte // 'L' all links, 'H' those among the operands, 'P' none, 0: not given
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
	moving     bool // copying for a move to another file system
	into       string
	plain      bool // -T

	failed bool
	links  map[uint64]string // copies by inode
	made   map[uint64]bool   // inodes that this run created
	seen   map[string]bool   // operands
	top    [2]string         // the current operand and its copy
}

func (c *copier) reportError(format string, a ...any) {
	c.failed = true
	c.p.Errorf(format, a...)
}

func (c *copier) printLine(s string) { _, _ = c.p.Out().WriteString(s + "\n") } // Flush reports the error

// destination is where the operands go.
type destination struct {
	sources []string
	dir     string // "" if name is the new name of the only source
	name    string
}

// findDestination determines where the operands go. It reports an error and returns false.
func (c *copier) findDestination(names []string) (d destination, ok bool) {
	p := c.p
	if len(names) == 0 || len(names) == 1 && c.into == "" {
		if len(names) == 0 {
			p.Errorf("missing file operand")
		} else {
			p.Errorf("missing destination file operand after %s", quoting.QuoteName(names[0]))
		}
		option.SuggestHelp(p)
		return d, false
	}
	last := names[len(names)-1]
	switch {
	case c.plain && c.into != "":
		p.Errorf("cannot combine --target-directory (-t) and --no-target-directory (-T)")
		return d, false
	case c.plain && len(names) > 2:
		p.Errorf("extra operand %s", quoting.QuoteName(names[2]))
		option.SuggestHelp(p)
		return d, false
	case c.plain:
		return destination{sources: names[:1], name: last}, true
	case c.into != "":
		if err := isDirectory(p, c.into); err != nil {
			what := "target directory"
			if p.Name() == "install" && isMissing(err) {
				what = "failed to access"
			}
			p.Errorf("%s %s: %s", what, quoting.QuoteName(c.into), program.Reason(err))
			return d, false
		}
		return destination{sources: names, dir: c.into}, true
	}
	err := isDirectory(p, last)
	switch {
	case err == nil:
		return destination{sources: names[:len(names)-1], dir: last}, true
	case len(names) > 2:
		p.Errorf("target %s: %s", quoting.QuoteName(last), program.Reason(err))
		return d, false
	}
	return destination{sources: names[:1], name: last}, true
}

// isDirectory returns nil if name is a directory, else the reason why it is not.
func isDirectory(p *kernel.Proc, name string) error {
	info, err := p.Stat(name)
	if err == nil && !info.IsDir() {
		err = vfs.ENOTDIR
	}
	return err
}

// targetOf returns the new name of a source.
func (d destination) targetOf(source string) string {
	if d.dir == "" {
		return d.name
	}
	last := lastName(source)
	if last == ".." || last == "/" {
		return d.dir
	}
	return joinName(d.dir, last)
}

// statSource returns a source, and whether it is a stream; see isStream.
func (c *copier) statSource(name string, operand bool) (vfs.Info, bool, error) {
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

// isStream reports whether a name without a file names a stream of the kernel, such as /dev/stdin.
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

// copy copies one name to another. operand reports that it is from the command line; up are the
// directories above it.
func (c *copier) copy(from, to string, operand bool, up *ancestors) bool {
	c.p.Tick(4)
	if operand {
		c.top = [2]string{from, to}
	}
	info, stream, err := c.statSource(from, operand)
	switch {
	case err != nil:
		c.reportError("cannot stat %s: %s", quoting.QuoteName(from), program.Reason(err))
		return false
	case stream:
		return c.copyFile(from, to, vfs.Info{}, false)
	case info.IsDir() && !c.recursive:
		if c.p.Name() == "install" {
			c.reportError("omitting directory %s", quoting.QuoteName(from))
		} else {
			c.reportError("-r not specified; omitting directory %s", quoting.QuoteName(from))
		}
		return false
	}
	if operand && c.isRepeated(from, to, info) {
		return true
	}
	old, oldErr := c.statExisting(to, info)
	exists := oldErr == nil
	if exists {
		ok, skip := c.mayReplace(from, to, info, old)
		if skip || !ok {
			return ok
		}
	} else if errors.Is(oldErr, vfs.ENOTDIR) || errors.Is(oldErr, vfs.ELOOP) {
		c.reportError("%s: %s", c.creationError(info, to), program.Reason(oldErr))
		return false
	}
	if done, ok := c.linkToCopy(info, to, exists); done {
		return ok
	}
	saved := ""
	if exists && !old.IsDir() {
		if saved, exists = c.makeRoom(from, to, info); saved == "\x00" {
			return false
		}
	}
	if c.verbose && !info.IsDir() {
		c.printCopied(from, to, saved)
	}
	return c.makeCopy(from, to, info, exists, up)
}

// printCopied prints a line of -v.
func (c *copier) printCopied(from, to, saved string) {
	text := quoting.QuoteName(from) + " -> " + quoting.QuoteName(to)
	if saved != "" {
		text += " (backup: " + quoting.QuoteName(saved) + ")"
	}
	if c.moving {
		text = "copied " + text
	}
	c.printLine(text)
}

// statExisting returns the file that has the new name.
func (c *copier) statExisting(to string, info vfs.Info) (vfs.Info, error) {
	if info.Mode().IsRegular() && !c.removeDest && !c.hard && !c.symbolic && !c.backup.on {
		if old, err := c.p.Stat(to); err == nil {
			return old, nil
		}
	}
	return c.p.Lstat(to)
}

// isRepeated reports whether an operand was given twice, and warns of it.
func (c *copier) isRepeated(from, to string, info vfs.Info) bool {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	key := strconv.Itoa(int(info.Ino())) + " " + to
	if c.seen[key] && !c.backup.on {
		what := "file"
		if info.IsDir() {
			what = "directory"
		}
		c.p.Errorf("warning: source %s %s specified more than once", what, quoting.QuoteName(from))
		return true
	}
	c.seen[key] = true
	return false
}

// mayReplace reports whether an existing file may be replaced; skip reports that it stays without an
// error.
func (c *copier) mayReplace(from, to string, info, old vfs.Info) (ok, skip bool) {
	switch {
	case info.Ino() == old.Ino() && c.sameFile(from, to, info):
		return c.samePlace(from, to, info)
	case c.noClobber && !old.IsDir(), c.update && !old.IsDir() && !old.ModTime().Before(info.ModTime()):
		return true, true
	case info.IsDir() && !old.IsDir():
		c.reportError("cannot overwrite non-directory %s with directory %s", quoting.QuoteName(to), quoting.QuoteName(from))
		return false, false
	case !info.IsDir() && old.IsDir():
		c.reportError("cannot overwrite directory %s with non-directory", quoting.QuoteName(to))
		return false, false
	case c.made[old.Ino()] && !c.backup.on && !info.IsDir():
		c.reportError("will not overwrite just-created %s with %s", quoting.QuoteName(to), quoting.QuoteName(from))
		return false, false
	case c.ask && !old.IsDir():
		return true, !askUser(c.p, c.p.Name()+": overwrite "+quoting.QuoteName(to)+"? ")
	}
	return true, false
}

// sameFile reports whether both names lead to the same inode in such a way that copying would destroy
// it.
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
	c.reportError("%s and %s are the same file", quoting.QuoteName(from), quoting.QuoteName(to))
	return false, false
}

// makeRoom backs up the old file, or removes it if it can't be overwritten. saved is the name of the
// backup, or "\x00" after an error.
func (c *copier) makeRoom(from, to string, info vfs.Info) (saved string, exists bool) {
	if c.backup.on {
		saved = c.backup.name(c.p, to)
		if err := c.p.Rename(to, saved); err != nil {
			c.reportError("cannot backup %s: %s", quoting.QuoteName(to), program.Reason(err))
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
		c.reportError("cannot remove %s: %s", quoting.QuoteName(to), program.Reason(err))
		return "\x00", true
	}
	if c.verbose && c.removeDest {
		c.printLine("removed " + quoting.QuoteName(to))
	}
	return "", false
}

// linkToCopy links to an earlier copy of the same inode.
func (c *copier) linkToCopy(info vfs.Info, to string, exists bool) (done, ok bool) {
	if !c.keepLinks || info.IsDir() || info.Nlink() < 2 && !c.moving {
		return false, false
	}
	first, known := c.links[info.Ino()]
	if !known && info.Nlink() < 2 {
		return false, false // otherwise the other names were moved already
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
			c.reportError("cannot remove %s: %s", quoting.QuoteName(to), program.Reason(err))
			return true, false
		}
	}
	if err := c.p.Link(first, to); err != nil {
		c.reportError("cannot create hard link %s to %s: %s", quoting.QuoteName(to), quoting.QuoteName(first), program.Reason(err))
		return true, false
	}
	if c.verbose {
		c.printCopied(first, to, "")
	}
	return true, true
}

// creationError returns the beginning of the message for a file that can't be created.
func (c *copier) creationError(info vfs.Info, to string) string {
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
	return "cannot create " + what + " " + quoting.QuoteName(to)
}

// makeCopy creates the copy according to the type of the source.
func (c *copier) makeCopy(from, to string, info vfs.Info, exists bool, up *ancestors) bool {
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
			c.reportError("cannot create hard link %s to %s: %s", quoting.QuoteName(to), quoting.QuoteName(from), program.Reason(err))
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
		c.reportError("%s: %s", c.creationError(info, to), program.Reason(err))
		return false
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		c.setAttributes(to, info, true)
	}
	return true
}

func (c *copier) makeSymlink(from, to string) bool {
	if !strings.HasPrefix(from, "/") && dirOf(to) != "." && !sameDir(c.p, dirOf(to), ".") {
		c.reportError("%s: can make relative symbolic links only in current directory", quoting.QuoteNameIfNeeded(to))
		return false
	}
	if err := c.p.Symlink(from, to); err != nil {
		c.reportError("cannot create symbolic link %s to %s: %s", quoting.QuoteName(to), quoting.QuoteName(from), program.Reason(err))
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
	c.recordMade(to)
	return err
}

// recordMade records a file that this run created.
func (c *copier) recordMade(to string) {
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
		c.reportError("cannot open %s for reading: %s", quoting.QuoteName(from), program.Reason(err))
		return false
	}
	defer stream.Close(in)
	out, ok := c.create(to, info, exists)
	if !ok {
		return false
	}
	defer stream.Close(out)
	if !c.bare {
		var lost *stream.WriteError
		err := stream.Copy(c.p, out, in)
		switch {
		case errors.As(err, &lost):
			c.reportError("error writing %s: %s", quoting.QuoteName(to), program.Reason(err))
			return false
		case err != nil:
			c.reportError("error reading %s: %s", quoting.QuoteName(from), program.Reason(err))
			return false
		}
	}
	if !exists {
		c.recordMade(to)
	}
	c.setAttributes(to, info, !exists)
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
		perm = 0o600 // of a pipe
	}
	if exists {
		if _, err := c.p.Stat(to); err != nil && isMissing(err) {
			c.reportError("not writing through dangling symlink %s", quoting.QuoteName(to))
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
		c.reportError("cannot create regular file %s: %s", quoting.QuoteName(to), program.Reason(err))
		return nil, false
	}
	return out, true
}

// setAttributes sets the attributes of a copy that are preserved.
func (c *copier) setAttributes(to string, info vfs.Info, fresh bool) {
	if info.Ino() == 0 {
		return
	}
	set := func(err error, what string) {
		if err != nil {
			c.reportError("%s %s: %s", what, quoting.QuoteName(to), program.Reason(err))
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
		set(c.p.Chmod(to, filemode.FromUnix(filemode.ToUnix(info.Mode())&filemode.AllBits)), "preserving permissions for")
	case info.IsDir() && fresh && !c.dropMode:
		set(c.p.Chmod(to, filemode.FromUnix(filemode.ToUnix(info.Mode())&filemode.AllBits&^c.p.Umask())), "setting permissions for")
	}
}

func (c *copier) copyDir(from, to string, info vfs.Info, exists bool, up *ancestors) bool {
	if up.contains(info.Ino()) {
		c.reportError("cannot copy cyclic symbolic link %s", quoting.QuoteName(from))
		return false
	}
	if c.made[info.Ino()] {
		c.reportError("cannot copy a directory, %s, into itself, %s", quoting.QuoteName(c.top[0]), quoting.QuoteName(c.top[1]))
		return false
	}
	if !exists {
		if err := c.p.Mkdir(to, 0o700|info.Mode().Perm()); err != nil {
			c.reportError("cannot create directory %s: %s", quoting.QuoteName(to), program.Reason(err))
			return false
		}
		c.recordMade(to)
		switch {
		case c.verbose && c.moving:
			c.printLine("created directory " + quoting.QuoteName(to))
		case c.verbose:
			c.printCopied(from, to, "")
		}
	}
	list, err := c.p.ReadDir(from)
	if err != nil {
		c.reportError("cannot access %s: %s", quoting.QuoteName(from), program.Reason(err))
		return false
	}
	here := &ancestors{info.Ino(), up}
	ok := true
	for _, d := range list {
		name := joinName(from, d.Name())
		if !c.copy(name, joinName(to, d.Name()), false, here) {
			ok = false
		}
	}
	c.setAttributes(to, info, !exists)
	return ok
}
