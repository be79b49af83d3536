package file

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const findUsage = `Usage: find [-H] [-L] [-P] [path...] [expression]

default path is the current directory; default expression is -print
expression may consist of: operators, options, tests, and actions:
operators (decreasing precedence; -and is implicit where no others are given):
      ( EXPR )   ! EXPR   -not EXPR   EXPR1 -a EXPR2   EXPR1 -and EXPR2
      EXPR1 -o EXPR2   EXPR1 -or EXPR2   EXPR1 , EXPR2
positional options (always true): -daystart -follow -nowarn -regextype -warn
normal options (always true, specified before other expressions):
      -depth -d --help -maxdepth LEVELS -mindepth LEVELS -mount -noleaf
      -version -xdev -ignore_readdir_race -noignore_readdir_race -files0-from F
tests (N can be +N or -N or N): -amin N -anewer FILE -atime N -cmin N
      -cnewer FILE -ctime N -empty -false -fstype TYPE -gid N -group NAME
      -ilname PATTERN -iname PATTERN -inum N -iwholename PATTERN -iregex PATTERN
      -links N -lname PATTERN -mmin N -mtime N -name PATTERN -newer FILE
      -nouser -nogroup -path PATTERN -perm [-/]MODE -regex PATTERN
      -readable -writable -executable
      -wholename PATTERN -size N[bcwkMG] -true -type [bcdpflsD] -uid N
      -used N -user NAME -xtype [bcdpfls] -newerXY REFERENCE -samefile FILE
actions: -delete -print0 -printf FORMAT -fprintf FILE FORMAT -print
      -fprint0 FILE -fprint FILE -ls -fls FILE -prune -quit
      -exec COMMAND ; -exec COMMAND {} + -ok COMMAND ;
      -execdir COMMAND ; -execdir COMMAND {} + -okdir COMMAND ;

The names of a directory are visited in order.
`

// findEntry is a file for which the expression is evaluated.
type findEntry struct {
	path  string
	root  string // the starting point
	depth int
	link  vfs.Info // of the name itself
	info  vfs.Info // of the target if links are followed
}

func (e *findEntry) name() string { return lastName(e.path) }

// findTest is a compiled expression.
type findTest func(e *findEntry) bool

// finder is the state of one run of find.
type finder struct {
	p      *kernel.Proc
	owners *account.Database
	zone   *time.Location
	start  time.Time

	follow     byte // P H L
	depthFirst bool
	least      int
	most       int // -1: any
	test       findTest
	batches    []*findBatch
	files      map[string]*findFile

	pruned bool // by the current entry
	quit   bool
	code   int
}

func runFind(p *kernel.Proc) int {
	f := &finder{p: p, owners: account.NewDatabase(p), zone: datetime.LocalZone(p), start: p.Now(), follow: 'P', most: -1}
	args, ok := f.parseLeading(p.Args[1:])
	if !ok {
		return 1
	}
	n := 0
	for n < len(args) && !isExpression(args[n]) {
		n++
	}
	paths := args[:n]
	parser := &findParser{f: f, args: args[n:], quiet: true}
	if !parser.parse() {
		f.close()
		return 1
	}
	switch {
	case parser.from != "":
		if paths, ok = f.pathsFrom(parser.from, paths); !ok {
			return 1
		}
	case len(paths) == 0:
		paths = []string{"."}
	}
	for _, path := range paths {
		f.walkRoot(path)
		if f.quit {
			break
		}
	}
	f.finishBatches()
	f.close()
	return f.code
}

// parseLeading parses the options before the paths.
func (f *finder) parseLeading(args []string) ([]string, bool) {
	for len(args) > 0 {
		switch a := args[0]; {
		case a == "-H" || a == "-L" || a == "-P":
			f.follow = a[1]
		case a == "-D":
			if len(args) < 2 {
				f.p.Errorf("Missing argument after the -D option.")
				option.SuggestHelp(f.p)
				return nil, false
			}
			args = args[1:]
		case strings.HasPrefix(a, "-O") && len(a) > 2 && strings.Trim(a[2:], "0123456789") == "":
		case a == "--":
			return args[1:], true
		default:
			return args, true
		}
		args = args[1:]
	}
	return args, true
}

func isExpression(a string) bool {
	return len(a) > 1 && a[0] == '-' || a == "(" || a == ")" || a == "!" || a == ","
}

// pathsFrom returns the starting points that a file lists.
func (f *finder) pathsFrom(from string, given []string) ([]string, bool) {
	if len(given) > 0 {
		f.p.Errorf("extra operand %s\nfind: file operands cannot be combined with -files0-from", quoting.QuoteWord(given[0]))
		return nil, false
	}
	in, err := stream.Open(f.p, from)
	if err != nil {
		f.p.Errorf("cannot open %s for reading: %s", quoting.QuoteWord(from), program.Reason(err))
		return nil, false
	}
	defer stream.Close(in)
	b, err := f.p.ReadAll(in)
	if err != nil {
		f.p.Errorf("%s: read error: %s", quoting.QuoteWord(from), program.Reason(err))
		return nil, false
	}
	var list []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(b), "\x00"), "\x00") {
		if name == "" {
			f.reportError("%s: invalid zero-length file name", quoting.QuoteWord(from))
			continue
		}
		list = append(list, name)
	}
	return list, true
}

func (f *finder) reportError(format string, a ...any) {
	f.p.Errorf(format, a...)
	f.code = 1
}

// walkRoot walks from one starting point.
func (f *finder) walkRoot(path string) {
	link, err := f.p.Lstat(path)
	if err != nil {
		f.reportError("%s: %s", quoting.QuoteWord(path), program.Reason(err))
		return
	}
	e := &findEntry{path: path, root: path, link: link, info: link}
	if f.follow != 'P' && link.Mode()&fs.ModeSymlink != 0 {
		if to, err := f.p.Stat(path); err == nil {
			e.info = to
		}
	}
	f.visitEntry(e, nil)
}

// visitEntry evaluates an entry and, for a directory, its entries.
func (f *finder) visitEntry(e *findEntry, up *ancestors) {
	f.p.Tick(2)
	dir := e.info.IsDir()
	if dir && up.contains(e.info.Ino()) {
		f.reportError("File system loop detected; %s is part of the same file system loop as %s.", quoting.QuoteWord(e.path), quoting.QuoteWord(f.loopStart(e, up)))
		return
	}
	descend := dir && (f.most < 0 || e.depth < f.most)
	if !f.depthFirst {
		f.pruned = false
		f.applyTest(e)
		descend = descend && !f.pruned
	}
	if descend && !f.quit {
		f.list(e, &ancestors{e.info.Ino(), up})
	}
	if f.depthFirst && !f.quit {
		f.applyTest(e)
	}
}

// loopStart returns the path of the directory that a loop leads back to.
func (f *finder) loopStart(e *findEntry, up *ancestors) string {
	path := e.path
	for a := up; a != nil; a = a.up {
		path = path[:max(0, strings.LastIndexByte(strings.TrimRight(path, "/"), '/'))]
		if a.ino == e.info.Ino() {
			break
		}
	}
	return path
}

func (f *finder) applyTest(e *findEntry) {
	if e.depth >= f.least {
		f.test(e)
	}
}

func (f *finder) list(e *findEntry, here *ancestors) {
	list, err := f.p.ReadDir(e.path)
	if err != nil {
		f.reportError("%s: %s", quoting.QuoteWord(e.path), program.Reason(err))
		return
	}
	for _, d := range list {
		if f.quit {
			return
		}
		k := findEntry{path: joinName(e.path, d.Name()), root: e.root, depth: e.depth + 1}
		if !f.fillEntry(&k, d) {
			continue
		}
		f.visitEntry(&k, here)
	}
}

// fillEntry sets the type of an entry of a directory.
func (f *finder) fillEntry(k *findEntry, d fs.DirEntry) bool {
	fi, err := d.Info()
	info, ok := fi.(vfs.Info)
	if !ok || err != nil {
		if info, err = f.p.Lstat(k.path); err != nil {
			f.reportError("%s: %s", quoting.QuoteWord(k.path), program.Reason(err))
			return false
		}
	}
	k.link, k.info = info, info
	if f.follow == 'L' && info.Mode()&fs.ModeSymlink != 0 {
		to, err := f.p.Stat(k.path)
		switch {
		case err == nil:
			k.info = to
		case errors.Is(err, vfs.ELOOP):
			f.reportError("%s: %s", quoting.QuoteWord(k.path), program.Reason(err))
			return false
		}
	}
	return true
}
