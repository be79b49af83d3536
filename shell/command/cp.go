package command

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var cpOptions = parsing{options: []option{
	{short: 'a', long: "archive"},
	{long: "attributes-only", id: 1},
	{short: 'b'},
	{long: "backup", arg: optional, id: 'b'},
	{long: "copy-contents", id: 2},
	{short: 'L', long: "dereference"},
	{short: 'f', long: "force"},
	{short: 'H'},
	{short: 'i', long: "interactive"},
	{short: 'l', long: "link"},
	{short: 'n', long: "no-clobber"},
	{short: 'P', long: "no-dereference"},
	{short: 'd'},
	{long: "no-preserve", arg: required, id: 3},
	{short: 'T', long: "no-target-directory"},
	{short: 'x', long: "one-file-system"},
	{long: "parents", id: 4},
	{long: "path", id: 4},
	{short: 'p'},
	{long: "preserve", arg: optional, id: 5},
	{short: 'r', long: "recursive"},
	{short: 'R', id: 'r'},
	{long: "remove-destination", id: 6},
	{long: "sparse", arg: required, id: 7},
	{long: "reflink", arg: optional, id: 8},
	{long: "strip-trailing-slashes", id: 9},
	{short: 's', long: "symbolic-link"},
	{short: 'S', long: "suffix", arg: required},
	{short: 't', long: "target-directory", arg: required},
	{short: 'u', long: "update"},
	{short: 'v', long: "verbose"},
	{short: 'Z', id: 'x'},
	{long: "context", arg: optional, id: 'x'},
}}

func cp(p *kernel.Proc) int {
	opts, names, ok := cpOptions.parse(p)
	if !ok {
		return 1
	}
	c := &copier{p: p, backup: newBackup(p)}
	for _, o := range opts {
		if !c.option(o) {
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
		tryHelp(p)
		return 1
	case c.backup.on && c.noClobber:
		p.Errorf("options --backup and --no-clobber are mutually exclusive")
		tryHelp(p)
		return 1
	}
	d, ok := c.destination(names)
	if !ok {
		return 1
	}
	if c.parents && d.dir == "" {
		p.Errorf("with --parents, the destination must be a directory")
		tryHelp(p)
		return 1
	}
	for _, from := range d.sources {
		if c.strip {
			from = strings.TrimRight(from, "/")
		}
		to := d.target(from)
		if c.parents {
			if to, ok = c.parentPath(d.dir, from); !ok {
				continue
			}
		}
		c.copy(from, to, true, nil)
	}
	return int(b2i(c.failed))
}

func (c *copier) option(o given) bool {
	switch o.key {
	case 'a':
		c.follow, c.recursive = 'P', true
		c.keepMode, c.keepOwner, c.keepTimes, c.keepLinks = true, true, true, true
	case 'b':
		return c.backup.choose(c.p, o)
	case 'S':
		c.backup.suffix, c.backup.on = o.value, true
	case 'd':
		c.follow, c.keepLinks = 'P', true
	case 'p':
		c.keepMode, c.keepOwner, c.keepTimes = true, true, true
	case 3, 5:
		return c.preserve(o)
	case 'L', 'H', 'P':
		c.follow = byte(o.key)
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
		c.into = o.value
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

// pickWhen checks the words of --sparse and --reflink.
func (c *copier) pickWhen(o given) bool {
	list := []choice{{"never", 0}, {"auto", 1}, {"always", 2}}
	if o.key == 8 {
		list = []choice{{"auto", 0}, {"always", 1}, {"never", 2}}
	}
	if !o.has {
		return true
	}
	_, ok := choose(c.p, o.name, o.value, list)
	return ok
}

// preserve applies --preserve and --no-preserve.
func (c *copier) preserve(o given) bool {
	list := o.value
	if !o.has {
		list = "mode,ownership,timestamps"
	}
	on := o.key == 5
	for word := range strings.SplitSeq(list, ",") {
		v, ok := choose(c.p, o.name, word, []choice{{"mode", 1}, {"timestamps", 2}, {"ownership", 4}, {"links", 8}, {"context", 16}, {"xattr", 32}, {"all", 15}})
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

// parentPath makes the directories of a source below dir.
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
			c.fail("failed to get attributes of %s: %s", quote(src), why(err))
			return "", false
		}
		made := joinName(dir, rel[:i])
		switch err := isDirectory(c.p, made); {
		case err == nil:
			continue
		case !isMissing(err):
			c.fail("%s exists but is not a directory", quote(made))
			return "", false
		}
		if err := c.p.Mkdir(made, info.Mode().Perm()|0o700); err != nil {
			c.fail("cannot make directory %s: %s", quote(made), why(err))
			return "", false
		}
		if c.verbose {
			c.tell(src + " -> " + made)
		}
		c.attributes(made, info, true)
	}
	return to, true
}
