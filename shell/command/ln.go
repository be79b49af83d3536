package command

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const lnUsage = `Usage: ln [OPTION]... [-T] TARGET LINK_NAME
  or:  ln [OPTION]... TARGET
  or:  ln [OPTION]... TARGET... DIRECTORY
  or:  ln [OPTION]... -t DIRECTORY TARGET...
In the 1st form, create a link to TARGET with the name LINK_NAME.
In the 2nd form, create a link to TARGET in the current directory.
In the 3rd and 4th forms, create links to each TARGET in DIRECTORY.
Create hard links by default, symbolic links with --symbolic.

      --backup[=CONTROL]      make a backup of each existing destination file
  -b                          like --backup but does not accept an argument
  -d, -F, --directory         allow to attempt to hard link directories
  -f, --force                 remove existing destination files
  -i, --interactive           prompt whether to remove destinations
  -L, --logical               dereference TARGETs that are symbolic links
  -n, --no-dereference        treat LINK_NAME as a normal file if
                                it is a symbolic link to a directory
  -P, --physical              make hard links directly to symbolic links
  -r, --relative              with -s, create links relative to link location
  -s, --symbolic              make symbolic links instead of hard links
  -S, --suffix=SUFFIX         override the usual backup suffix
  -t, --target-directory=DIRECTORY  specify the DIRECTORY in which to create
                                the links
  -T, --no-target-directory   treat LINK_NAME as a normal file always
  -v, --verbose               print name of each linked file
      --help                  display this help and exit
`

var lnOptions = parsing{options: []option{
	{short: 'b'},
	{long: "backup", arg: optional, id: 'b'},
	{short: 'd', long: "directory"},
	{short: 'F', id: 'd'},
	{short: 'f', long: "force"},
	{short: 'i', long: "interactive"},
	{short: 'L', long: "logical"},
	{short: 'n', long: "no-dereference"},
	{short: 'P', long: "physical"},
	{short: 'r', long: "relative"},
	{short: 's', long: "symbolic"},
	{short: 'S', long: "suffix", arg: required},
	{short: 't', long: "target-directory", arg: required},
	{short: 'T', long: "no-target-directory"},
	{short: 'v', long: "verbose"},
}}

type linker struct {
	p                              *kernel.Proc
	symbolic, force, ask, relative bool
	noFollow, logical, plain, talk bool
	into                           string
	backup                         backup
}

func ln(p *kernel.Proc) int {
	opts, names, ok := lnOptions.parse(p)
	if !ok {
		return 1
	}
	l := linker{p: p, backup: newBackup(p)}
	for _, o := range opts {
		switch o.key {
		case 'b':
			if !l.backup.choose(p, o) {
				return 1
			}
		case 'f':
			l.force, l.ask = true, false
		case 'i':
			l.force, l.ask = false, true
		case 'L':
			l.logical = true
		case 'P':
			l.logical = false
		case 'n':
			l.noFollow = true
		case 'r':
			l.relative = true
		case 's':
			l.symbolic = true
		case 'S':
			l.backup.suffix, l.backup.on = o.value, true
		case 't':
			l.into = o.value
		case 'T':
			l.plain = true
		case 'v':
			l.talk = true
		}
	}
	if l.relative && !l.symbolic {
		p.Errorf("cannot do --relative without --symbolic")
		return 1
	}
	return l.run(names)
}

func (l *linker) run(names []string) int {
	if len(names) == 0 {
		l.p.Errorf("missing file operand")
		tryHelp(l.p)
		return 1
	}
	if l.plain {
		switch {
		case l.into != "":
			l.p.Errorf("cannot combine --target-directory and --no-target-directory")
			return 1
		case len(names) == 1:
			l.p.Errorf("missing destination file operand after %s", quote(names[0]))
			tryHelp(l.p)
			return 1
		case len(names) > 2:
			l.p.Errorf("extra operand %s", quote(names[2]))
			tryHelp(l.p)
			return 1
		}
		return l.one(names[0], names[1])
	}
	dir := l.into
	if dir == "" {
		last := names[len(names)-1]
		switch {
		case len(names) == 1:
			dir = "."
		case l.isDir(last):
			dir, names = last, names[:len(names)-1]
		case len(names) == 2:
			return l.one(names[0], last)
		default:
			l.notDir("target %s: %s", last)
			return 1
		}
	} else if !l.isDir(dir) {
		l.notDir("failed to access %s: %s", dir)
		return 1
	}
	code := 0
	for _, name := range names {
		if l.one(name, joinName(dir, lastName(name))) != 0 {
			code = 1
		}
	}
	return code
}

// notDir says why links can't be made in dir.
func (l *linker) notDir(format, dir string) {
	if _, err := l.p.Stat(dir); err != nil {
		l.p.Errorf(format, quote(dir), why(err))
		return
	}
	l.p.Errorf("target %s is not a directory", quote(dir))
}

func (l *linker) isDir(name string) bool {
	if l.noFollow {
		if info, err := l.p.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return false
		}
	}
	info, err := l.p.Stat(name)
	return err == nil && info.IsDir()
}

// one makes a link called name to target.
func (l *linker) one(target, name string) int {
	if !l.symbolic {
		if !l.linkable(target) {
			return 1
		}
	}
	if l.relative {
		target = l.relativeTarget(target, name)
	}
	saved := ""
	if info, err := l.p.Lstat(name); err == nil && (l.force || l.ask || l.backup.on) {
		var ok bool
		if saved, ok = l.clear(target, name, info); !ok {
			return 1
		}
		if l.ask && saved == "" && !l.force {
			if _, err := l.p.Lstat(name); err == nil {
				return 0
			}
		}
	}
	var err error
	if l.symbolic {
		err = l.p.Symlink(target, name)
	} else {
		err = l.hard(target, name)
	}
	if err != nil {
		l.complain(target, name, err)
		return 1
	}
	if l.talk {
		arrow := " => "
		if l.symbolic {
			arrow = " -> "
		}
		text := quote(name) + arrow + quote(target)
		if saved != "" {
			text = quote(saved) + " ~ " + quote(name) + arrow + quote(target)
		}
		_, _ = l.p.Out().WriteString(text + "\n") // shows at the flush
	}
	return 0
}

func (l *linker) linkable(target string) bool {
	info, err := l.p.Lstat(target)
	if err == nil && l.logical {
		info, err = l.p.Stat(target)
	}
	if err != nil {
		l.p.Errorf("failed to access %s: %s", quote(target), why(err))
		return false
	}
	if info.IsDir() {
		l.p.Errorf("%s: hard link not allowed for directory", quotef(target))
		return false
	}
	return true
}

func (l *linker) hard(target, name string) error {
	if l.logical {
		if path, err := (canon{p: l.p, mode: canonAll}).path(target); err == nil {
			target = path
		}
	}
	return l.p.Link(target, name)
}

// clear makes room for the link: the old name goes away or becomes a backup.
func (l *linker) clear(target, name string, info vfs.Info) (saved string, ok bool) {
	if info.IsDir() {
		l.p.Errorf("%s: cannot overwrite directory", quotef(name))
		return "", false
	}
	if same, err := l.p.Stat(target); err == nil && same.Ino() == info.Ino() && (same.Nlink() == 1 || lexicalSame(l.p, target, name)) {
		l.p.Errorf("%s and %s are the same file", quote(target), quote(name))
		return "", false
	}
	if l.ask && !confirm(l.p, l.p.Name()+": replace "+quote(name)+"? ") {
		return "", true
	}
	if l.backup.on {
		saved = l.backup.name(l.p, name)
		if err := l.p.Rename(name, saved); err != nil {
			l.p.Errorf("cannot backup %s: %s", quote(name), why(err))
			return "", false
		}
		return saved, true
	}
	if err := l.p.Unlink(name); err != nil {
		l.p.Errorf("cannot unlink %s: %s", quote(name), why(err))
		return "", false
	}
	return "", true
}

func lexicalSame(p *kernel.Proc, a, b string) bool {
	c := canon{p: p, mode: canonMissing, keep: true}
	x, _ := c.path(a) // nothing has to be there
	y, _ := c.path(b)
	return x == y
}

// relativeTarget returns the way to target from where the link lies.
func (l *linker) relativeTarget(target, name string) string {
	c := canon{p: l.p, mode: canonMissing}
	dir, err := c.path(dirOf(name))
	if err != nil {
		return target
	}
	to, err := c.path(dirOf(target))
	if err != nil {
		return target
	}
	full, err := c.path(target)
	if err != nil {
		full = joinName(to, lastName(target))
	}
	return relativeTo(full, dir)
}

func (l *linker) complain(target, name string, err error) {
	kind := "hard"
	if l.symbolic {
		kind = "symbolic"
	}
	if l.symbolic && (errors.Is(err, vfs.EEXIST) || isMissing(err) && target != "") || strings.HasSuffix(name, "/") && l.symbolic {
		l.p.Errorf("failed to create %s link %s: %s", kind, quote(name), why(err))
		return
	}
	if errors.Is(err, vfs.EEXIST) {
		l.p.Errorf("failed to create %s link %s: %s", kind, quote(name), why(err))
		return
	}
	arrow := " => "
	if l.symbolic {
		arrow = " -> "
	}
	l.p.Errorf("failed to create %s link %s%s%s: %s", kind, quote(name), arrow, quote(target), why(err))
}
