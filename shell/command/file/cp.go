package file

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const cpUsage = `Usage: cp [OPTION]... [-T] SOURCE DEST
  or:  cp [OPTION]... SOURCE... DIRECTORY
  or:  cp [OPTION]... -t DIRECTORY SOURCE...
Copy SOURCE to DEST, or multiple SOURCE(s) to DIRECTORY.

  -a, --archive                same as -dR --preserve=all
      --attributes-only        don't copy the file data, just the attributes
      --backup[=CONTROL]       make a backup of each existing destination file
  -b                           like --backup but does not accept an argument
      --copy-contents          copy contents of special files when recursive
  -d                           same as --no-dereference --preserve=links
  -f, --force                  replace a destination that can't be written
  -i, --interactive            prompt before overwrite
  -H                           follow command-line symbolic links in SOURCE
  -l, --link                   hard link files instead of copying
  -L, --dereference            always follow symbolic links in SOURCE
  -n, --no-clobber             do not overwrite an existing file
  -P, --no-dereference         never follow symbolic links in SOURCE
  -p                           same as --preserve=mode,ownership,timestamps
      --preserve[=ATTR_LIST]   preserve the specified attributes (default:
                                 mode,ownership,timestamps), also: links, all
      --no-preserve=ATTR_LIST  don't preserve the specified attributes
      --parents                use full source file name under DIRECTORY
  -R, -r, --recursive          copy directories recursively
      --reflink[=WHEN]         accepted; copies are always cheap here
      --remove-destination     remove each existing destination file first
      --sparse=WHEN            accepted
      --strip-trailing-slashes  remove trailing slashes from SOURCE
  -s, --symbolic-link          make symbolic links instead of copying
  -S, --suffix=SUFFIX          override the usual backup suffix
  -t, --target-directory=DIRECTORY  copy all SOURCE arguments into DIRECTORY
  -T, --no-target-directory    treat DEST as a normal file
  -u, --update                 copy only when SOURCE is newer or DEST missing
  -v, --verbose                explain what is being done
  -x, --one-file-system        (there is only one)
      --help                   display this help and exit
`

var cpOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Long: "archive"},
	{Long: "attributes-only", ID: 1},
	{Short: 'b'},
	{Long: "backup", Arg: option.Optional, ID: 'b'},
	{Long: "copy-contents", ID: 2},
	{Short: 'L', Long: "dereference"},
	{Short: 'f', Long: "force"},
	{Short: 'H'},
	{Short: 'i', Long: "interactive"},
	{Short: 'l', Long: "link"},
	{Short: 'n', Long: "no-clobber"},
	{Short: 'P', Long: "no-dereference"},
	{Short: 'd'},
	{Long: "no-preserve", Arg: option.Required, ID: 3},
	{Short: 'T', Long: "no-target-directory"},
	{Short: 'x', Long: "one-file-system"},
	{Long: "parents", ID: 4},
	{Long: "path", ID: 4},
	{Short: 'p'},
	{Long: "preserve", Arg: option.Optional, ID: 5},
	{Short: 'r', Long: "recursive"},
	{Short: 'R', ID: 'r'},
	{Long: "remove-destination", ID: 6},
	{Long: "sparse", Arg: option.Required, ID: 7},
	{Long: "reflink", Arg: option.Optional, ID: 8},
	{Long: "strip-trailing-slashes", ID: 9},
	{Short: 's', Long: "symbolic-link"},
	{Short: 'S', Long: "suffix", Arg: option.Required},
	{Short: 't', Long: "target-directory", Arg: option.Required},
	{Short: 'u', Long: "update"},
	{Short: 'v', Long: "verbose"},
	{Short: 'Z', ID: 'x'},
	{Long: "context", Arg: option.Optional, ID: 'x'},
}}

func runCp(p *kernel.Proc) int {
	opts, names, ok := cpOptions.Parse(p)
	if !ok {
		return 1
	}
	c := &copier{p: p, backup: newBackup(p)}
	for _, o := range opts {
		if !c.applyOption(o) {
			return 1
		}
	}
	if c.follow == 0 {
		c.follow = 'L'
		if c.recursive && !c.hard {
			c.follow = 'P'
		}
	}
	switch {
	case c.hard && c.symbolic:
		p.Errorf("cannot make both hard and symbolic links")
		option.SuggestHelp(p)
		return 1
	case c.backup.on && c.noClobber:
		p.Errorf("options --backup and --no-clobber are mutually exclusive")
		option.SuggestHelp(p)
		return 1
	}
	d, ok := c.findDestination(names)
	if !ok {
		return 1
	}
	if c.parents && d.dir == "" {
		p.Errorf("with --parents, the destination must be a directory")
		option.SuggestHelp(p)
		return 1
	}
	for _, from := range d.sources {
		if c.strip {
			from = strings.TrimRight(from, "/")
		}
		to := d.targetOf(from)
		if c.parents {
			if to, ok = c.parentPath(d.dir, from); !ok {
				continue
			}
		}
		c.copy(from, to, true, nil)
	}
	return int(number.FromBool(c.failed))
}

func (c *copier) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'a':
		c.follow, c.recursive = 'P', true
		c.keepMode, c.keepOwner, c.keepTimes, c.keepLinks = true, true, true, true
	case 'b':
		return c.backup.applyOption(c.p, o)
	case 'S':
		c.backup.suffix, c.backup.on = o.Value, true
	case 'd':
		c.follow, c.keepLinks = 'P', true
	case 'p':
		c.keepMode, c.keepOwner, c.keepTimes = true, true, true
	case 3, 5:
		return c.applyPreserve(o)
	case 'L', 'H', 'P':
		c.follow = byte(o.Key)
	case 'f':
		c.force = true
	case 'i':
		c.ask, c.noClobber = true, false
	case 'n':
		c.ask, c.noClobber = false, true
	case 'l':
		c.hard = true
	case 's':
		c.symbolic = true
	case 'r':
		c.recursive = true
	case 't':
		c.into = o.Value
	case 'T':
		c.plain = true
	case 'u':
		c.update = true
	case 'v':
		c.verbose = true
	case 1:
		c.bare = true
	case 4:
		c.parents = true
	case 6:
		c.removeDest = true
	case 9:
		c.strip = true
	case 7, 8:
		return c.pickWhen(o)
	}
	return true
}

// pickWhen checks the values of --sparse and --reflink.
func (c *copier) pickWhen(o option.Setting) bool {
	list := []option.Choice{{Word: "never", Value: 0}, {Word: "auto", Value: 1}, {Word: "always", Value: 2}}
	if o.Key == 8 {
		list = []option.Choice{{Word: "auto", Value: 0}, {Word: "always", Value: 1}, {Word: "never", Value: 2}}
	}
	if !o.HasValue {
		return true
	}
	_, ok := option.Choose(c.p, o.Name, o.Value, list)
	return ok
}

// applyPreserve applies --preserve and --no-preserve.
func (c *copier) applyPreserve(o option.Setting) bool {
	list := o.Value
	if !o.HasValue {
		list = "mode,ownership,timestamps"
	}
	on := o.Key == 5
	for word := range strings.SplitSeq(list, ",") {
		v, ok := option.Choose(c.p, o.Name, word, []option.Choice{{Word: "mode", Value: 1}, {Word: "timestamps", Value: 2}, {Word: "ownership", Value: 4}, {Word: "links", Value: 8}, {Word: "context", Value: 16}, {Word: "xattr", Value: 32}, {Word: "all", Value: 15}})
		if !ok {
			return false
		}
		if v&1 != 0 {
			c.keepMode = on
			c.dropMode = !on
		}
		if v&2 != 0 {
			c.keepTimes = on
		}
		if v&4 != 0 {
			c.keepOwner = on
		}
		if v&8 != 0 {
			c.keepLinks = on
		}
	}
	return true
}

// parentPath creates the directories of a source below dir.
func (c *copier) parentPath(dir, from string) (string, bool) {
	from = strings.TrimRight(from, "/")
	rel := strings.TrimLeft(from, "/")
	to := joinName(dir, rel)
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		src := from[:len(from)-len(rel)+i]
		info, err := c.p.Stat(src)
		if err != nil {
			c.reportError("failed to get attributes of %s: %s", quoting.QuoteName(src), program.Reason(err))
			return "", false
		}
		made := joinName(dir, rel[:i])
		switch err := isDirectory(c.p, made); {
		case err == nil:
			continue
		case !isMissing(err):
			c.reportError("%s exists but is not a directory", quoting.QuoteName(made))
			return "", false
		}
		if err := c.p.Mkdir(made, info.Mode().Perm()|0o700); err != nil {
			c.reportError("cannot make directory %s: %s", quoting.QuoteName(made), program.Reason(err))
			return "", false
		}
		if c.verbose {
			c.printLine(src + " -> " + made)
		}
		c.setAttributes(made, info, true)
	}
	return to, true
}
