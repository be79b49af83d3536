package file

import (
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const lsUsage = `Usage: ls [OPTION]... [FILE]...
List information about the FILEs (the current directory by default).
Sort entries by name if none of -cftuvSUX nor --sort is specified.

  -a, --all                  do not ignore entries starting with .
  -A, --almost-all           do not list implied . and ..
      --author               with -l, print the author of each file
  -b, --escape               print C-style escapes for nongraphic characters
      --block-size=SIZE      with -l, scale sizes by SIZE when printing them
  -B, --ignore-backups       do not list implied entries ending with ~
  -c                         with -lt: sort by, and show, ctime;
                               with -l: show ctime and sort by name;
                               otherwise: sort by ctime, newest first
  -C                         list entries by columns
      --color[=WHEN]         color the output WHEN: always, auto or never
  -d, --directory            list directories themselves, not their contents
  -f                         list all entries in the order of their names
  -F, --classify[=WHEN]      append indicator (one of */=>@|) to entries
      --file-type            likewise, except do not append '*'
      --format=WORD          across -x, commas -m, horizontal -x, long -l,
                               single-column -1, verbose -l, vertical -C
      --full-time            like -l --time-style=full-iso
  -g                         like -l, but do not list owner
      --group-directories-first  group directories before files
  -G, --no-group             in a long listing, don't print group names
  -h, --human-readable       with -l and -s, print sizes like 1K 234M 2G etc.
      --si                   likewise, but use powers of 1000 not 1024
  -H, --dereference-command-line
                             follow symbolic links listed on the command line
      --dereference-command-line-symlink-to-dir
                             follow each command line link to a directory
      --hide=PATTERN         do not list implied entries matching PATTERN
                               (overridden by -a or -A)
      --indicator-style=WORD  append indicator with style WORD: none (default),
                               slash (-p), file-type (--file-type), classify (-F)
  -i, --inode                print the index number of each file
  -I, --ignore=PATTERN       do not list implied entries matching PATTERN
  -k, --kibibytes            default to 1024-byte blocks
  -l                         use a long listing format
  -L, --dereference          show information for the file a link references
  -m                         fill width with a comma separated list of entries
  -n, --numeric-uid-gid      like -l, but list numeric user and group IDs
  -N, --literal              print entry names without quoting
  -o                         like -l, but do not list group information
  -p, --indicator-style=slash  append / indicator to directories
  -q, --hide-control-chars   print ? instead of nongraphic characters
  -Q, --quote-name           enclose entry names in double quotes
      --quoting-style=WORD   literal, locale, shell, shell-always,
                               shell-escape, shell-escape-always, c, escape
  -r, --reverse              reverse order while sorting
  -R, --recursive            list subdirectories recursively
  -s, --size                 print the allocated size of each file, in blocks
  -S                         sort by file size, largest first
      --sort=WORD            none (-U), size (-S), time (-t), version (-v),
                               extension (-X), width
      --time=WORD            atime (-u), ctime (-c), birth, mtime
      --time-style=STYLE     full-iso, long-iso, iso, locale or +FORMAT
  -t                         sort by time, newest first
  -T, --tabsize=COLS         assume tab stops at each COLS instead of 8
  -u                         as -c, with the access time
  -U                         do not sort (entries come by name)
  -v                         natural sort of (version) numbers within text
  -w, --width=COLS           set output width to COLS.  0 means no limit
  -x                         list entries by lines instead of by columns
  -X                         sort alphabetically by entry extension
      --zero                 end each output line with NUL, not newline
  -1                         list one file per line
      --help                 display this help and exit

Exit status: 0 if OK, 1 if minor problems, 2 if serious trouble.
`

type lsFormat int

const (
	lsOne lsFormat = iota
	lsLong
	lsColumns
	lsAcross
	lsCommas
)

type lsSort int

const (
	lsByName lsSort = iota
	lsUnsorted
	lsByTime
	lsBySize
	lsByExtension
	lsByVersion
	lsByWidth
)

type lsTime int

const (
	lsMtime lsTime = iota
	lsCtime
	lsAtime
	lsBirth
)

type lsIndicator int

const (
	lsNoMark lsIndicator = iota
	lsSlash
	lsFileType
	lsClassify
)

type lsHidden int

const (
	lsHide lsHidden = iota
	lsAlmost
	lsAll
)

// lister is the state of one run of ls.
type lister struct {
	p      *kernel.Proc
	owners *account.Database
	now    time.Time
	zone   *time.Location

	format     lsFormat
	sort       lsSort
	time       lsTime
	timeGiven  bool
	sortGiven  bool
	mark       lsIndicator
	hidden     lsHidden
	recursive  bool
	directory  bool
	reverse    bool
	dirsFirst  bool
	follow     byte // 'L' all links, 'H' operands, 'D' operands that lead to directories, 'P' none
	inode      bool
	blocks     bool
	numeric    bool
	noOwner    bool
	noGroup    bool
	author     bool
	human      int64  // 1024 or 1000
	blockSize  int64  // of blocks
	sizeUnit   int64  // of sizes
	suffix     string // after each size
	ignore     []string
	hide       []string
	quoting    quoting.Style
	question   bool
	color      bool
	colored    bool // an escape was written
	width      int
	tab        int
	timeStyle  string
	eol        byte
	failed     int
	printed    bool // something was printed before
	showHeader bool
}

// lsEntry is a name to list.
type lsEntry struct {
	name   string
	path   string
	info   vfs.Info
	mode   uint32
	target string // of a link, in the long format
	broken bool   // a link without a target
	tmode  uint32 // mode of a link's target
}

func runLs(p *kernel.Proc) int {
	l := &lister{p: p, owners: account.NewDatabase(p), now: p.Now(), zone: datetime.LocalZone(p), blockSize: 1024, sizeUnit: 1, width: 80, tab: 8, eol: '\n'}
	y := p.Stdout.Terminal()
	if y != nil {
		l.width = int(y.Size().Cols)
	}
	switch name := p.Name(); {
	case name == "dir":
		l.format, l.quoting = lsColumns, quoting.Escape
	case name == "vdir":
		l.format, l.quoting = lsLong, quoting.Escape
	case y != nil:
		l.format, l.quoting = lsColumns, quoting.ShellEscape
	}
	l.readEnvironment()
	opts, names, ok := lsOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if code := l.applyOption(o); code != 0 {
			return code
		}
	}
	l.completeOptions()
	l.run(names)
	return l.failed
}

// readEnvironment reads COLUMNS, TABSIZE and QUOTING_STYLE.
func (l *lister) readEnvironment() {
	if n, err := strconv.Atoi(l.p.Getenv("COLUMNS")); err == nil && n >= 0 {
		l.width = n
	}
	if n, err := strconv.Atoi(l.p.Getenv("TABSIZE")); err == nil && n >= 0 {
		l.tab = n
	}
	for _, c := range option.QuotingStyles {
		if c.Word == l.p.Getenv("QUOTING_STYLE") {
			l.quoting = quoting.Style(c.Value)
		}
	}
	l.timeStyle = l.p.Getenv("TIME_STYLE")
}

func (l *lister) completeOptions() {
	if l.follow == 0 {
		l.follow = 'D'
		if l.directory || l.mark == lsClassify || l.format == lsLong {
			l.follow = 'P'
		}
	}
	if l.color && !isColorTerminal(l.p) {
		l.color = false
	}
	if !l.sortGiven && l.format != lsLong && l.timeGiven {
		l.sort = lsByTime
	}
}

// run lists the operands: files first, then the content of each directory.
func (l *lister) run(names []string) {
	l.showHeader = len(names) > 1 || l.recursive
	if len(names) == 0 {
		names = []string{"."}
	}
	var files, dirs []lsEntry
	for _, name := range names {
		e, ok := l.newOperand(name)
		switch {
		case !ok:
			l.failed = 2
		case e.mode&filemode.TypeMask == filemode.TypeDir && !l.directory:
			dirs = append(dirs, e)
		default:
			files = append(files, e)
		}
	}
	l.sortEntries(files)
	l.sortEntries(dirs)
	if len(files) > 0 {
		l.printEntries(files)
		l.printed = true
	}
	for _, d := range dirs {
		l.list(d.path, d.name, nil)
	}
}

// newOperand returns the entry of an operand.
func (l *lister) newOperand(name string) (lsEntry, bool) {
	e := lsEntry{name: name, path: name}
	info, err := l.p.Lstat(name)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && l.follow != 'P' {
		to, terr := l.p.Stat(name)
		switch {
		case terr != nil && l.follow != 'D':
			err = terr
		case terr == nil && (l.follow != 'D' || to.IsDir()):
			info = to
		}
	}
	if err != nil {
		l.p.Errorf("cannot access %s: %s", quoting.QuoteName(name), program.Reason(err))
		return e, false
	}
	l.fillEntry(&e, info)
	return e, true
}

// fillEntry sets the type and the target of an entry.
func (l *lister) fillEntry(e *lsEntry, info vfs.Info) {
	e.info, e.mode = info, filemode.ToUnix(info.Mode())
	if e.mode&filemode.TypeMask != filemode.TypeLink || l.format != lsLong && !l.color && !l.dirsFirst && l.mark != lsClassify && l.mark != lsFileType {
		return
	}
	if l.format == lsLong {
		e.target, _ = l.p.Readlink(e.path) // it is a link
	}
	to, err := l.p.Stat(e.path)
	if err != nil {
		e.broken = true
		return
	}
	e.tmode = filemode.ToUnix(to.Mode())
}

// list lists a directory and, with -R, its subdirectories.
func (l *lister) list(path, name string, up *ancestors) {
	info, err := l.p.Stat(path)
	if err == nil && up.contains(info.Ino()) {
		l.p.Errorf("%s: not listing already-listed directory", quoting.QuoteNameIfNeeded(name))
		l.failed = 2
		return
	}
	list, err := l.p.ReadDir(path)
	if err != nil {
		l.p.Errorf("cannot open directory %s: %s", quoting.QuoteName(name), program.Reason(err))
		l.failed = max(l.failed, 1)
		return
	}
	l.p.Alloc(int64(len(list)) * 400)
	entries := l.listEntries(path, list)
	l.printHeader(name)
	if l.format == lsLong || l.blocks {
		var total int64
		for i := range entries {
			total += entries[i].info.Blocks()
		}
		l.writeText("total " + l.blockCount(total))
		_ = l.p.Out().WriteByte(l.eol) // Flush reports the error
	}
	l.sortEntries(entries)
	l.printEntries(entries)
	l.printed = true
	if l.recursive {
		here := &ancestors{info.Ino(), up}
		for i := range entries {
			e := &entries[i]
			if e.mode&filemode.TypeMask == filemode.TypeDir && e.name != "." && e.name != ".." {
				l.list(e.path, joinName(name, e.name), here)
			}
		}
	}
	l.p.Free(int64(len(list)) * 400)
}

func joinName(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func (l *lister) printHeader(name string) {
	out := l.p.Out()
	if l.showHeader {
		if l.printed {
			_ = out.WriteByte('\n') // Flush reports the error, here and below
		}
		q := l.quoting
		text := q.Quote(name, ":")
		if q == quoting.Literal {
			text = l.quoteName(name)
		}
		_, _ = out.WriteString(text + ":\n")
	}
}

// listEntries returns the visible entries of a directory.
func (l *lister) listEntries(dir string, list []fs.DirEntry) []lsEntry {
	entries := make([]lsEntry, 0, len(list)+2)
	if l.hidden == lsAll {
		for _, dot := range []string{".", ".."} {
			if info, err := l.p.Stat(joinName(dir, dot)); err == nil {
				e := lsEntry{name: dot, path: joinName(dir, dot)}
				l.fillEntry(&e, info)
				entries = append(entries, e)
			}
		}
	}
	for _, d := range list {
		l.p.Tick(2)
		name := d.Name()
		if l.isIgnored(name) {
			continue
		}
		e := lsEntry{name: name, path: joinName(dir, name)}
		info, ok := l.statEntry(e.path, d)
		if ok {
			l.fillEntry(&e, info)
			entries = append(entries, e)
		}
	}
	return entries
}

func (l *lister) statEntry(path string, d fs.DirEntry) (vfs.Info, bool) {
	if l.follow == 'L' && d.Type()&fs.ModeSymlink != 0 {
		info, err := l.p.Stat(path)
		if err != nil {
			l.p.Errorf("cannot access %s: %s", quoting.QuoteName(path), program.Reason(err))
			l.failed = max(l.failed, 1)
			return vfs.Info{}, false
		}
		return info, true
	}
	fi, err := d.Info()
	if info, ok := fi.(vfs.Info); ok && err == nil {
		return info, true
	}
	info, err := l.p.Lstat(path)
	return info, err == nil
}

func (l *lister) isIgnored(name string) bool {
	if l.hidden == lsHide && strings.HasPrefix(name, ".") {
		return true
	}
	if l.hidden == lsHide {
		for _, pat := range l.hide {
			if glob.Match(l.p, pat, name) {
				return true
			}
		}
	}
	for _, pat := range l.ignore {
		if glob.Match(l.p, pat, name) {
			return true
		}
	}
	return false
}
