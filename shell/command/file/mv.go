package file

import (
	"errors"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var mvOptions = option.Parser{Options: []option.Option{
	{Short: 'b'},
	{Long: "backup", Arg: option.Optional, ID: 'b'},
	{Short: 'f', Long: "force"},
	{Short: 'i', Long: "interactive"},
	{Short: 'n', Long: "no-clobber"},
	{Short: 'T', Long: "no-target-directory"},
	{Long: "strip-trailing-slashes", ID: 9},
	{Short: 'S', Long: "suffix", Arg: option.Required},
	{Short: 't', Long: "target-directory", Arg: option.Required},
	{Short: 'u', Long: "update"},
	{Short: 'v', Long: "verbose"},
	{Short: 'Z'},
	{Long: "context", ID: 'Z'},
}}

func runMv(p *kernel.Proc) int {
	opts, names, ok := mvOptions.Parse(p)
	if !ok {
		return 1
	}
	c := &copier{p: p, backup: newBackup(p), follow: 'P', recursive: true}
	for _, o := range opts {
		if o.Key == 'f' {
			c.ask, c.noClobber = false, false
		} else if !c.applyOption(o) {
			return 1
		}
	}
	if c.backup.on && c.noClobber {
		p.Errorf("options --backup and --no-clobber are mutually exclusive")
		option.SuggestHelp(p)
		return 1
	}
	d, ok := c.findDestination(names)
	if !ok {
		return 1
	}
	for _, from := range d.sources {
		if c.strip {
			from = strings.TrimRight(from, "/")
		}
		c.moveFile(from, d.targetOf(from))
	}
	return int(number.FromBool(c.failed))
}

// moveFile renames one name to another.
func (c *copier) moveFile(from, to string) {
	info, err := c.p.Lstat(from)
	if err != nil {
		c.reportError("cannot stat %s: %s", quoting.QuoteName(from), program.Reason(err))
		return
	}
	if c.isRepeated(from, to, info) {
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
				c.reportError("cannot backup %s: %s", quoting.QuoteName(to), program.Reason(err))
				return
			}
		}
	}
	err = c.renameFile(from, to, info)
	if errors.Is(err, vfs.EXDEV) {
		c.moveByCopy(from, to, info)
		return
	}
	if err != nil {
		if errors.Is(err, vfs.EINVAL) && info.IsDir() {
			c.reportError("cannot move %s to a subdirectory of itself, %s", quoting.QuoteName(from), quoting.QuoteName(to))
		} else {
			c.reportError("cannot move %s to %s: %s", quoting.QuoteName(from), quoting.QuoteName(to), program.Reason(err))
		}
		return
	}
	c.recordMade(to)
	if c.verbose {
		text := "renamed " + quoting.QuoteName(from) + " -> " + quoting.QuoteName(to)
		if saved != "" {
			text += " (backup: " + quoting.QuoteName(saved) + ")"
		}
		c.printLine(text)
	}
}

// renameFile renames a file. A new name with a slash at its end must be a directory's.
func (c *copier) renameFile(from, to string, info vfs.Info) error {
	if to == "" {
		return vfs.ENOENT
	}
	if !info.IsDir() && strings.HasSuffix(to, "/") {
		return vfs.ENOTDIR
	}
	return c.p.Rename(from, to)
}

// moveByCopy moves a file to another file system: it copies and removes.
func (c *copier) moveByCopy(from, to string, info vfs.Info) {
	if old, err := c.p.Lstat(to); err == nil {
		remove := c.p.Unlink
		if old.IsDir() {
			remove = c.p.Rmdir
		}
		if err := remove(to); err != nil {
			c.reportError("inter-device move failed: %s to %s; unable to remove target: %s", quoting.QuoteName(from), quoting.QuoteName(to), program.Reason(err))
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
		return // keep what could not be copied
	}
	c.recordMade(to)
	r := remover{p: c.p, recursive: true, force: true, verbose: c.verbose}
	r.removeName(from, info.Mode(), info.Size())
	c.failed = c.failed || r.failed
}

// leadsTo reports whether a name is a link to old.
func (c *copier) leadsTo(from string, old vfs.Info) bool {
	info, err := c.p.Stat(from)
	return err == nil && info.Ino() == old.Ino()
}

// mayMove reports whether an existing file may be replaced; skip reports that it stays without an error.
func (c *copier) mayMove(from, to string, info, old vfs.Info) (ok, skip bool) {
	switch {
	case info.Ino() == old.Ino() || c.leadsTo(from, old):
		c.reportError("%s and %s are the same file", quoting.QuoteName(from), quoting.QuoteName(to))
		return false, false
	case c.noClobber, c.update && !old.IsDir() && !old.ModTime().Before(info.ModTime()):
		return true, true
	case c.made[old.Ino()] && !c.backup.on:
		c.reportError("will not overwrite just-created %s with %s", quoting.QuoteName(to), quoting.QuoteName(from))
		return false, false
	case c.ask:
		if !askUser(c.p, c.p.Name()+": overwrite "+quoting.QuoteName(to)+"? ") {
			return true, true
		}
	}
	switch {
	case c.backup.on:
	case info.IsDir() && !old.IsDir():
		c.reportError("cannot overwrite non-directory %s with directory %s", quoting.QuoteName(to), quoting.QuoteName(from))
		return false, false
	case !info.IsDir() && old.IsDir():
		c.reportError("cannot overwrite directory %s with non-directory", quoting.QuoteName(to))
		return false, false
	}
	return true, false
}
