package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const tarUsage = `Usage: tar [OPTION...] [FILE]...
GNU 'tar' saves many files together into a single tape or disk archive, and can
restore individual files from the archive.

Examples:
  tar -cf archive.tar foo bar  # Create archive.tar from files foo and bar.
  tar -tvf archive.tar         # List all files in archive.tar verbosely.
  tar -xf archive.tar          # Extract all files from archive.tar.

  -c, --create               create a new archive
  -r, --append               append files to the end of an archive
  -t, --list                 list the contents of an archive
  -x, --extract, --get       extract files from an archive

  -f, --file=ARCHIVE         use archive file ARCHIVE; - is standard input or output
  -C, --directory=DIR        change to directory DIR
  -z, --gzip                 filter the archive through gzip
  -j, --bzip2                filter the archive through bzip2 (reading only)
  -a, --auto-compress        use archive suffix to determine the compression
  -v, --verbose              verbosely list files processed
  -O, --to-stdout            extract files to standard output
  -p, --preserve-permissions extract information about file permissions
  -k, --keep-old-files       don't replace existing files when extracting
      --skip-old-files       the same, silently
      --overwrite            overwrite existing files when extracting
  -m, --touch                don't extract file modified time
      --strip-components=N   strip N leading components from file names
      --one-top-level[=DIR]  create a directory to extract into
      --exclude=PATTERN      exclude files, given as a PATTERN
  -X, --exclude-from=FILE    exclude patterns listed in FILE
  -T, --files-from=FILE      get names to extract or create from FILE
      --null                 -T reads null-terminated names
  -h, --dereference          follow symlinks
  -P, --absolute-names       don't strip leading '/'s from file names
      --no-recursion         avoid descending automatically in directories
      --wildcards            names to extract or list are patterns
      --owner=NAME, --group=NAME, --mode=CHANGES, --mtime=DATE
                             force these for added files
      --numeric-owner        always use numbers for user/group names
      --sort=ORDER           directories are always sorted by name
      --help                 display this help and exit
`

var tarOptions = parsing{options: []option{
	{short: 'c', long: "create"},
	{short: 'r', long: "append"},
	{short: 't', long: "list"},
	{short: 'x', long: "extract"},
	{short: 'x', long: "get"},
	{short: 'u', long: "update"},
	{short: 'd', long: "diff"},
	{short: 'd', long: "compare"},
	{short: 'A', long: "catenate"},
	{long: "delete", id: 'd'},
	{short: 'f', long: "file", arg: required},
	{short: 'C', long: "directory", arg: required},
	{short: 'z', long: "gzip"},
	{short: 'z', long: "gunzip"},
	{short: 'j', long: "bzip2"},
	{short: 'J', long: "xz"},
	{long: "zstd", id: 'J'},
	{short: 'Z', long: "compress", id: 'J'},
	{short: 'a', long: "auto-compress"},
	{short: 'v', long: "verbose"},
	{short: 'O', long: "to-stdout"},
	{short: 'p', long: "preserve-permissions"},
	{short: 'p', long: "same-permissions"},
	{short: 'k', long: "keep-old-files"},
	{long: "skip-old-files", id: 'K'},
	{long: "overwrite", id: 'w'},
	{short: 'U', long: "unlink-first", id: 'w'},
	{short: 'm', long: "touch"},
	{long: "strip-components", arg: required, id: 's'},
	{long: "one-top-level", arg: optional, id: '1'},
	{long: "exclude", arg: required, id: 'e'},
	{short: 'X', long: "exclude-from", arg: required},
	{short: 'T', long: "files-from", arg: required},
	{long: "null", id: '0'},
	{short: 'h', long: "dereference"},
	{short: 'P', long: "absolute-names"},
	{long: "no-recursion", id: 'R'},
	{long: "wildcards", id: '*'},
	{long: "no-wildcards", id: 'W'},
	{long: "anchored", id: 'w'},
	{long: "no-anchored", id: 'w'},
	{long: "wildcards-match-slash", id: 'w'},
	{long: "owner", arg: required, id: 'o'},
	{long: "group", arg: required, id: 'g'},
	{long: "mode", arg: required, id: 'M'},
	{long: "mtime", arg: required, id: 'D'},
	{long: "numeric-owner", id: 'n'},
	{long: "sort", arg: required, id: 'w'},
	{short: 'b', long: "blocking-factor", arg: required, id: 'w'},
	{long: "no-same-owner", id: 'q'},
	{long: "same-owner", id: 'w'},
	{long: "no-same-permissions", id: 'Q'},
	{short: 'H', long: "format", arg: required, id: 'w'},
	{short: 'S', long: "sparse", id: 'w'},
	{short: 'o', id: 'q'},
	{long: "full-time", id: 'F'},
	{short: 'l', id: 'w'},
	{short: 'B', id: 'w'},
	{short: 'i', id: 'w'},
	{long: "exclude-vcs", id: 'V'},
	{long: "totals", id: 'w'},
	{long: "ignore-failed-read", id: 'w'},
	{long: "warning", arg: required, id: 'w'},
	{short: 'w', id: 'w'},
}}

// tarMember is a name given to tar, with the directory that it counts from.
type tarMember struct {
	name, dir string
	found     bool
}

// tarJob is one run of tar.
type tarJob struct {
	p       *kernel.Proc
	action  rune
	file    string
	dir     string
	members []tarMember

	pack        rune // z, j, J, or 0
	auto        bool
	verbose     int
	toStdout    bool
	keep, skip  bool
	touch       bool
	strip       int
	topLevel    string
	excludes    []string
	follow      bool
	absolute    bool
	shallow     bool
	wild        bool
	wildSet     bool
	null        bool
	noOwner     bool
	masked      bool
	numeric     bool
	fullTime    bool
	owner       *tarOwner
	group       *tarOwner
	mode        *modeChange
	mtime       time.Time
	owners      *owners
	zone        *time.Location
	width       int // of owner, group and size in long lists
	removed     map[string]bool
	code        int
	afterNames  []string // positional options that came too late
	sawOperands bool
}

// tarOwner is what --owner or --group forces.
type tarOwner struct {
	name string
	id   int
}

// tarStop ends a run of tar whose reason has been told.
type tarStop struct{}

func (tarStop) Error() string { return "stopped" }

func tarMain(p *kernel.Proc) int {
	j := &tarJob{p: p, file: "-", width: 19, removed: map[string]bool{}, owners: newOwners(p), zone: zoneOf(p)}
	args, short := tarOldStyle(p.Args[1:])
	if short != 0 {
		j.usage("Old option '%c' requires an argument.", short)
		return 2
	}
	if !j.arguments(args) {
		return max(j.code, 2)
	}
	var err error
	switch j.action {
	case 'c', 'r':
		err = j.create()
	default:
		err = j.read()
	}
	switch {
	case err != nil:
		return 2
	case j.code != 0:
		p.Errorf("Exiting with failure status due to previous errors")
	}
	return j.code
}

// complain reports an error that the rest goes on after.
func (j *tarJob) complain(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = 2
}

// fatal reports an error that ends the run.
func (j *tarJob) fatal(format string, args ...any) error {
	j.p.Errorf(format, args...)
	j.p.Errorf("Error is not recoverable: exiting now")
	return tarStop{}
}

func (j *tarJob) usage(format string, args ...any) bool {
	j.p.Errorf(format, args...)
	_, _ = io.WriteString(j.p.Stderr, "Try 'tar --help' or 'tar --usage' for more information.\n") // nobody to tell
	return false
}

// tarOldStyle turns a first argument without a dash into options; those that
// take arguments get the ones that follow, in turn. The letter that comes
// back lacks its argument.
func tarOldStyle(args []string) ([]string, rune) {
	if len(args) == 0 || args[0] == "" || args[0][0] == '-' {
		return args, 0
	}
	rest := args[1:]
	var out []string
	for _, c := range args[0] {
		out = append(out, "-"+string(c))
		o, _ := tarOptions.short(c)
		switch {
		case o.arg != required:
		case len(rest) == 0:
			return nil, c
		default:
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...), 0
}

// arguments reads options and names in their order, for a -C counts for the
// names behind it.
func (j *tarJob) arguments(args []string) bool {
	for len(args) > 0 {
		j.p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			for _, name := range args {
				j.member(name)
			}
			args = nil
		case len(a) > 1 && a[0] == '-':
			list, used, msg := j.parseOne(a, args)
			if msg != "" {
				j.code = 64
				return j.usage("%s", msg)
			}
			args = args[used:]
			for _, g := range list {
				if !j.option(g) {
					return false
				}
			}
		default:
			j.member(a)
			j.sawOperands = true
		}
	}
	return j.check()
}

func (j *tarJob) parseOne(a string, rest []string) ([]given, int, string) {
	if !strings.HasPrefix(a, "--") {
		return tarOptions.shortOptions(a, rest)
	}
	g, used, msg := tarOptions.longOption(a, rest)
	return []given{g}, used, msg
}

func (j *tarJob) member(name string) {
	j.members = append(j.members, tarMember{name: name, dir: j.dir})
}

// check says whether the options make a run.
func (j *tarJob) check() bool {
	switch {
	case j.action == 0:
		return j.usage("You must specify one of the '-Acdtrux', '--delete' or '--test-label' options")
	case strings.ContainsRune("udA", j.action):
		j.p.Errorf("-%c is not supported here: create a new archive, or append with -r", j.action)
		return false
	case j.pack == 'J' || j.pack == 'j' && j.action == 'c':
		j.p.Errorf("this compression is not supported here: use -z")
		return false
	case j.action == 'c' && len(j.members) == 0:
		return j.usage("Cowardly refusing to create an empty archive")
	}
	if len(j.afterNames) > 0 && j.action != 't' && j.action != 'x' {
		j.complain("The following options were used after any non-optional arguments in archive create or update mode.  These options are positional and affect only arguments that follow them.  Please, rearrange them properly.")
		for _, o := range j.afterNames {
			j.p.Errorf("%s has no effect", o)
		}
	}
	if j.auto && j.action == 'c' && j.pack == 0 && (strings.HasSuffix(j.file, "gz") || strings.HasSuffix(j.file, ".taz")) {
		j.pack = 'z'
	}
	return true
}

// option takes one option; false means that it has told why not.
func (j *tarJob) option(g given) bool {
	switch g.key {
	case 'c', 'r', 't', 'x', 'u', 'd', 'A':
		if j.action != 0 && j.action != g.key {
			return j.usage("You may not specify more than one '-Acdtrux', '--delete' or  '--test-label' option")
		}
		j.action = g.key
	case 'f':
		j.file = g.value
	case 'C':
		j.dir = tarJoin(j.dir, g.value)
	case 'z', 'j', 'J':
		j.pack = g.key
	case 'a':
		j.auto = true
	case 'v':
		j.verbose++
	case 'O':
		j.toStdout = true
	case 'k':
		j.keep = true
	case 'K':
		j.keep, j.skip = true, true
	case 'm':
		j.touch = true
	case 's':
		n, err := strconv.Atoi(g.value)
		if err != nil || n < 0 {
			return j.usage("%s: Invalid number of elements", g.value)
		}
		j.strip = n
	case '1':
		j.topLevel = tarTopLevel(g.value, j.file)
	default:
		return j.choice(g)
	}
	return true
}

// choice takes the options about which files and how.
func (j *tarJob) choice(g given) bool {
	switch g.key {
	case 'e':
		if j.sawOperands {
			j.afterNames = append(j.afterNames, fmt.Sprintf("--exclude '%s'", g.value))
			return true
		}
		j.excludes = append(j.excludes, g.value)
	case 'V':
		j.excludes = append(j.excludes, ".git", ".gitignore", ".gitmodules", ".gitattributes", ".hg", ".svn", "CVS", ".bzr")
	case 'X', 'T':
		return j.listFile(g)
	case '0':
		j.null = true
	case 'h':
		j.follow = true
	case 'P':
		j.absolute = true
	case 'R':
		j.shallow = true
	case '*', 'W':
		j.wild, j.wildSet = g.key == '*', true
	case 'n':
		j.numeric = true
	case 'q':
		j.noOwner = true
	case 'Q':
		j.masked = true
	case 'F':
		j.fullTime = true
	default:
		return j.forced(g)
	}
	return true
}

// forced takes the options that set what the archive says of files.
func (j *tarJob) forced(g given) bool {
	switch g.key {
	case 'o':
		j.owner = tarOwnerOf(g.value, j.owners.uid)
	case 'g':
		j.group = tarOwnerOf(g.value, j.owners.gid)
	case 'M':
		m, ok := parseMode(g.value)
		if !ok {
			return j.usage("Invalid mode given on option")
		}
		j.mode = &m
	case 'D':
		t, ok := parseDate(g.value, j.p.Now(), j.zone)
		if !ok {
			return j.usage("Invalid date format: %s", g.value)
		}
		j.mtime = t
	}
	return true
}

// tarOwnerOf reads NAME, NUMBER, or NAME:NUMBER.
func tarOwnerOf(s string, find func(string) (int, bool)) *tarOwner {
	name, num, both := strings.Cut(s, ":")
	if n, err := strconv.Atoi(num); both && err == nil {
		return &tarOwner{name, n}
	}
	if n, err := strconv.Atoi(s); err == nil {
		return &tarOwner{"", n}
	}
	id, _ := find(name)
	return &tarOwner{name, id}
}

func tarJoin(dir, name string) string {
	if dir == "" || strings.HasPrefix(name, "/") {
		return name
	}
	return dir + "/" + name
}

func tarTopLevel(dir, file string) string {
	if dir != "" {
		return dir
	}
	base := file[strings.LastIndexByte(file, '/')+1:]
	if i := strings.Index(base, ".tar"); i > 0 {
		return base[:i]
	}
	return strings.TrimSuffix(base, ".tgz")
}

// listFile reads -X and -T.
func (j *tarJob) listFile(g given) bool {
	in, err := open(j.p, g.value)
	if err != nil {
		_ = j.fatal("%s: Cannot open: %s", tarName(g.value), why(err)) // the caller stops too
		return false
	}
	defer closeInput(in)
	delim := byte('\n')
	if j.null && g.key == 'T' {
		delim = 0
	}
	list := newLines(j.p, in, delim)
	defer list.close()
	for line := list.next(); line != nil; line = list.next() {
		name := string(trimDelim(line, delim))
		switch {
		case name == "":
		case g.key == 'X':
			j.excludes = append(j.excludes, name)
		default:
			j.p.Alloc(int64(len(name)) + 64)
			j.member(name)
		}
	}
	return true
}

// excluded tells whether a pattern of --exclude matches a name or one of the
// tails of it that begin behind a slash.
func (j *tarJob) excluded(name string) bool {
	name = strings.TrimSuffix(name, "/")
	for _, pattern := range j.excludes {
		pattern = strings.TrimSuffix(pattern, "/")
		for tail := name; ; {
			if wildcard(j.p, pattern, tail) {
				return true
			}
			_, after, ok := strings.Cut(tail, "/")
			if !ok {
				break
			}
			tail = after
		}
	}
	return false
}

// safe returns the name that a member has below the directory: without what
// leads out of it. It tells once of each prefix that it takes away.
func (j *tarJob) safe(name, what string) string {
	if j.absolute {
		return name
	}
	cut := 0
	for i := 0; i < len(name); {
		end := strings.IndexByte(name[i:], '/')
		if end < 0 {
			end = len(name)
		} else {
			end += i
		}
		if name[i:end] == ".." {
			cut = end
		}
		i = end + 1
	}
	for cut < len(name) && name[cut] == '/' {
		cut++
	}
	if cut > 0 {
		prefix := name[:cut]
		if !j.removed[what+prefix] {
			j.removed[what+prefix] = true
			j.p.Errorf("Removing leading `%s' from %s", prefix, what)
		}
		name = name[cut:]
	}
	if name == "" {
		return "."
	}
	return name
}
