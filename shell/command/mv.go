package command

import (
	"errors"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const mvUsage = `Usage: mv [OPTION]... [-T] SOURCE DEST
  or:  mv [OPTION]... SOURCE... DIRECTORY
  or:  mv [OPTION]... -t DIRECTORY SOURCE...
Rename SOURCE to DEST, or move SOURCE(s) to DIRECTORY.

      --backup[=CONTROL]       make a backup of each existing destination file
  -b                           like --backup but does not accept an argument
  -f, --force                  do not prompt before overwriting
  -i, --interactive            prompt before overwrite
  -n, --no-clobber             do not overwrite an existing file
If you specify more than one of -i, -f, -n, only the final one takes effect.
      --strip-trailing-slashes  remove any trailing slashes from each SOURCE
  -S, --suffix=SUFFIX          override the usual backup suffix
  -t, --target-directory=DIRECTORY  move all SOURCE arguments into DIRECTORY
  -T, --no-target-directory    treat DEST as a normal file
  -u, --update                 move only when the SOURCE file is newer
                                 than the destination file or when the
                                 destination file is missing
  -v, --verbose                explain what is being done
      --help                   display this help and exit
`

var mvOptions = parsing{options: []option{
	{short: 'b'},
	{long: "backup", arg: optional, id: 'b'},
	{short: 'f', long: "force"},
	{short: 'i', long: "interactive"},
	{short: 'n', long: "no-clobber"},
	{short: 'T', long: "no-target-directory"},
	{long: "strip-trailing-slashes", id: 9},
	{short: 'S', long: "suffix", arg: required},
	{short: 't', long: "target-directory", arg: required},
	{short: 'u', long: "update"},
	{short: 'v', long: "verbose"},
	{short: 'Z'},
	{long: "context", id: 'Z'},
}}

func mv(p *kernel.Proc) int {
	opts, names, ok := mvOptions.parse(p)
	if !ok {
		return 1
	}
	c := &copier{p: p, backup: newBackup(p), follow: 'P', recursive: true}
	for _, o := range opts {
		if o.key == 'f' {
			c.ask, c.noClobber = false, false
		} else if !c.option(o) {
			return 1
		}
	}
	if c.backup.on && c.noClobber {
		p.Errorf("options --backup and --no-clobber are mutually exclusive")
		tryHelp(p)
		return 1
	}
	d, ok := c.destination(names)
	if !ok {
		return 1
	}
	for _, from := range d.sources {
		if c.strip {
			from = strings.TrimRight(from, "/")
		}
		c.move(from, d.target(from))
	}
	return int(b2i(c.failed))
}

// move renames one name to another.
func (c *copier) move(from, to string) {
	info, err := c.p.Lstat(from)
	if err != nil {
		c.fail("cannot stat %s: %s", quote(from), why(err))
		return
	}
	if c.repeated(from, to, info) {
		return
	}
	saved := ""
	if old, err := c.p.Lstat(to); err == nil {
		ok, skip := c.mayMove(from, to, info, old)
		if !ok || skip {
			return
		}
		if c.backup.on {
			saved = c.backup.name(c.p, to)
			if err := c.p.Rename(to, saved); err != nil {
				c.fail("cannot backup %s: %s", quote(to), why(err))
				return
			}
		}
	}
	err = c.rename(from, to, info)
	if errors.Is(err, vfs.EXDEV) {
		c.carry(from, to, info)
		return
	}
	if err != nil {
		if errors.Is(err, vfs.EINVAL) && info.IsDir() {
			c.fail("cannot move %s to a subdirectory of itself, %s", quote(from), quote(to))
		} else {
			c.fail("cannot move %s to %s: %s", quote(from), quote(to), why(err))
		}
		return
	}
	c.note(to)
	if c.verbose {
		text := "renamed " + quote(from) + " -> " + quote(to)
		if saved != "" {
			text += " (backup: " + quote(saved) + ")"
		}
		c.tell(text)
	}
}

// rename refuses a new name with a slash at its end that is no directory's.
func (c *copier) rename(from, to string, info vfs.Info) error {
	if to == "" {
		return vfs.ENOENT
	}
	if !info.IsDir() && strings.HasSuffix(to, "/") {
		return vfs.ENOTDIR
	}
	return c.p.Rename(from, to)
}

// carry moves to another file system: it copies and removes.
func (c *copier) carry(from, to string, info vfs.Info) {
	if old, err := c.p.Lstat(to); err == nil {
		remove := c.p.Unlink
		if old.IsDir() {
			remove = c.p.Rmdir
		}
		if err := remove(to); err != nil {
			c.fail("inter-device move failed: %s to %s; unable to remove target: %s", quote(from), quote(to), why(err))
			return
		}
	}
	x := &copier{
		p: c.p, follow: 'P', recursive: true, keepMode: true, keepOwner: true, keepTimes: true, keepLinks: true,
		verbose: c.verbose, moving: true, links: c.links,
	}
	ok := x.copy(from, to, false, nil)
	c.links, c.failed = x.links, c.failed || x.failed
	if !ok {
		return // what could not be copied stays
	}
	c.note(to)
	r := remover{p: c.p, recursive: true, force: true, verbose: c.verbose}
	r.remove(from, info.Mode(), info.Size())
	c.failed = c.failed || r.failed
}

// leadsTo reports whether a name is a link to that file.
func (c *copier) leadsTo(from string, old vfs.Info) bool {
	info, err := c.p.Stat(from)
	return err == nil && info.Ino() == old.Ino()
}

// mayMove decides about a new name that exists; skip says that it stays.
func (c *copier) mayMove(from, to string, info, old vfs.Info) (ok, skip bool) {
	switch {
	case info.Ino() == old.Ino() || c.leadsTo(from, old):
		c.fail("%s and %s are the same file", quote(from), quote(to))
		return false, false
	case c.noClobber, c.update && !old.IsDir() && !old.ModTime().Before(info.ModTime()):
		return true, true
	case c.made[old.Ino()] && !c.backup.on:
		c.fail("will not overwrite just-created %s with %s", quote(to), quote(from))
		return false, false
	case c.ask:
		if !confirm(c.p, c.p.Name()+": overwrite "+quote(to)+"? ") {
			return true, true
		}
	}
	switch {
	case c.backup.on:
	case info.IsDir() && !old.IsDir():
		c.fail("cannot overwrite non-directory %s with directory %s", quote(to), quote(from))
		return false, false
	case !info.IsDir() && old.IsDir():
		c.fail("cannot overwrite directory %s with non-directory", quote(to))
		return false, false
	}
	return true, false
}
