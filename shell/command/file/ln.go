package file

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

var lnOptions = option.Parser{Options: []option.Option{
	{Short: 'b'},
	{Long: "backup", Arg: option.Optional, ID: 'b'},
	{Short: 'd', Long: "directory"},
	{Short: 'F', ID: 'd'},
	{Short: 'f', Long: "force"},
	{Short: 'i', Long: "interactive"},
	{Short: 'L', Long: "logical"},
	{Short: 'n', Long: "no-dereference"},
	{Short: 'P', Long: "physical"},
	{Short: 'r', Long: "relative"},
	{Short: 's', Long: "symbolic"},
	{Short: 'S', Long: "suffix", Arg: option.Required},
	{Short: 't', Long: "target-directory", Arg: option.Required},
	{Short: 'T', Long: "no-target-directory"},
	{Short: 'v', Long: "verbose"},
}}

type linker struct {
	p                              *kernel.Proc
	symbolic, force, ask, relative bool
	noFollow, logical, plain, talk bool
	into                           string
	backup                         backup
}

func runLn(p *kernel.Proc) int {
	opts, names, ok := lnOptions.Parse(p)
	if !ok {
		return 1
	}
	l := linker{p: p, backup: newBackup(p)}
	for _, o := range opts {
		switch o.Key {
		case 'b':
			if !l.backup.applyOption(p, o) {
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
			l.backup.suffix, l.backup.on = o.Value, true
		case 't':
			l.into = o.Value
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
		option.SuggestHelp(l.p)
		return 1
	}
	if l.plain {
		switch {
		case l.into != "":
			l.p.Errorf("cannot combine --target-directory and --no-target-directory")
			return 1
		case len(names) == 1:
			l.p.Errorf("missing destination file operand after %s", quoting.QuoteName(names[0]))
			option.SuggestHelp(l.p)
			return 1
		case len(names) > 2:
			l.p.Errorf("extra operand %s", quoting.QuoteName(names[2]))
			option.SuggestHelp(l.p)
			return 1
		}
		return l.makeLink(names[0], names[1])
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
			return l.makeLink(names[0], last)
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
		if l.makeLink(name, joinName(dir, lastName(name))) != 0 {
			code = 1
		}
	}
	return code
}

// notDir reports why links can't be created in dir.
func (l *linker) notDir(format, dir string) {
	if _, err := l.p.Stat(dir); err != nil {
		l.p.Errorf(format, quoting.QuoteName(dir), program.Reason(err))
		return
	}
	l.p.Errorf("target %s is not a directory", quoting.QuoteName(dir))
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

// makeLink creates a link called name to target and returns the exit status.
func (l *linker) makeLink(target, name string) int {
	if !l.symbolic {
		if !l.isLinkable(target) {
			return 1
		}
	}
	if l.relative {
		target = l.relativeTarget(target, name)
	}
	saved := ""
	if info, err := l.p.Lstat(name); err == nil && (l.force || l.ask || l.backup.on) {
		var ok bool
		if saved, ok = l.clearName(target, name, info); !ok {
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
		err = l.hardLink(target, name)
	}
	if err != nil {
		l.reportError(target, name, err)
		return 1
	}
	if l.talk {
		arrow := " => "
		if l.symbolic {
			arrow = " -> "
		}
		text := quoting.QuoteName(name) + arrow + quoting.QuoteName(target)
		if saved != "" {
			text = quoting.QuoteName(saved) + " ~ " + quoting.QuoteName(name) + arrow + quoting.QuoteName(target)
		}
		_, _ = l.p.Out().WriteString(text + "\n") // Flush reports the error
	}
	return 0
}

func (l *linker) isLinkable(target string) bool {
	info, err := l.p.Lstat(target)
	if err == nil && l.logical {
		info, err = l.p.Stat(target)
	}
	if err != nil {
		l.p.Errorf("failed to access %s: %s", quoting.QuoteName(target), program.Reason(err))
		return false
	}
	if info.IsDir() {
		l.p.Errorf("%s: hard link not allowed for directory", quoting.QuoteNameIfNeeded(target))
		return false
	}
	return true
}

func (l *linker) hardLink(target, name string) error {
	if l.logical {
		if path, err := (canon{p: l.p, mode: canonAll}).resolvePath(target); err == nil {
			target = path
		}
	}
	return l.p.Link(target, name)
}

// clearName removes or backs up the old file. saved is the name of the backup.
func (l *linker) clearName(target, name string, info vfs.Info) (saved string, ok bool) {
	if info.IsDir() {
		l.p.Errorf("%s: cannot overwrite directory", quoting.QuoteNameIfNeeded(name))
		return "", false
	}
	if same, err := l.p.Stat(target); err == nil && same.Ino() == info.Ino() && (same.Nlink() == 1 || lexicalSame(l.p, target, name)) {
		l.p.Errorf("%s and %s are the same file", quoting.QuoteName(target), quoting.QuoteName(name))
		return "", false
	}
	if l.ask && !askUser(l.p, l.p.Name()+": replace "+quoting.QuoteName(name)+"? ") {
		return "", true
	}
	if l.backup.on {
		saved = l.backup.name(l.p, name)
		if err := l.p.Rename(name, saved); err != nil {
			l.p.Errorf("cannot backup %s: %s", quoting.QuoteName(name), program.Reason(err))
			return "", false
		}
		return saved, true
	}
	if err := l.p.Unlink(name); err != nil {
		l.p.Errorf("cannot unlink %s: %s", quoting.QuoteName(name), program.Reason(err))
		return "", false
	}
	return "", true
}

func lexicalSame(p *kernel.Proc, a, b string) bool {
	c := canon{p: p, mode: canonMissing, keep: true}
	x, _ := c.resolvePath(a) // no part must exist
	y, _ := c.resolvePath(b)
	return x == y
}

// relativeTarget returns the path from the directory of the link to target.
func (l *linker) relativeTarget(target, name string) string {
	c := canon{p: l.p, mode: canonMissing}
	dir, err := c.resolvePath(dirOf(name))
	if err != nil {
		return target
	}
	to, err := c.resolvePath(dirOf(target))
	if err != nil {
		return target
	}
	full, err := c.resolvePath(target)
	if err != nil {
		full = joinName(to, lastName(target))
	}
	return relativeTo(full, dir)
}

func (l *linker) reportError(target, name string, err error) {
	kind := "hard"
	if l.symbolic {
		kind = "symbolic"
	}
	if l.symbolic && (errors.Is(err, vfs.EEXIST) || isMissing(err) && target != "") || strings.HasSuffix(name, "/") && l.symbolic {
		l.p.Errorf("failed to create %s link %s: %s", kind, quoting.QuoteName(name), program.Reason(err))
		return
	}
	if errors.Is(err, vfs.EEXIST) {
		l.p.Errorf("failed to create %s link %s: %s", kind, quoting.QuoteName(name), program.Reason(err))
		return
	}
	arrow := " => "
	if l.symbolic {
		arrow = " -> "
	}
	l.p.Errorf("failed to create %s link %s%s%s: %s", kind, quoting.QuoteName(name), arrow, quoting.QuoteName(target), program.Reason(err))
}
