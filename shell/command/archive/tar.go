package archive

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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
      --delete               remove members from an archive (not compressed)

  -f, --file=ARCHIVE         use archive file ARCHIVE; - is standard input or output
  -C, --directory=DIR        change to directory DIR
  -z, --gzip                 filter the archive through gzip
  -J, --xz                   filter the archive through xz
      --zstd                 filter the archive through zstd
  -j, --bzip2                filter the archive through bzip2 (reading only)
  -I, --use-compress-program=PROG
                             filter through PROG (with -d to decompress)
  -a, --auto-compress        use archive suffix to determine the compression
  -v, --verbose              verbosely list files processed
  -O, --to-stdout            extract files to standard output
  -p, --preserve-permissions extract information about file permissions
  -k, --keep-old-files       don't replace existing files when extracting
      --skip-old-files       the same, silently
      --overwrite            overwrite existing files when extracting
  -m, --touch                don't extract file modified time
      --strip-components=N   strip N leading components from file names
      --transform=EXPR, --xform=EXPR
                             rename members with s/RE/TEXT/[gixrRsShHN][;...]
      --show-transformed-names   list with names after --transform
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

const (
	tarDelete rune = 256 + iota
	tarTransform
	tarShowTransformed
)

var tarOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "create"},
	{Short: 'r', Long: "append"},
	{Short: 't', Long: "list"},
	{Short: 'x', Long: "extract"},
	{Short: 'x', Long: "get"},
	{Short: 'u', Long: "update"},
	{Short: 'd', Long: "diff"},
	{Short: 'd', Long: "compare"},
	{Short: 'A', Long: "catenate"},
	{Long: "delete", ID: tarDelete},
	{Short: 'I', Long: "use-compress-program", Arg: option.Required},
	{Long: "transform", Arg: option.Required, ID: tarTransform},
	{Long: "xform", Arg: option.Required, ID: tarTransform},
	{Long: "show-transformed-names", ID: tarShowTransformed},
	{Long: "show-stored-names", ID: tarShowTransformed},
	{Short: 'f', Long: "file", Arg: option.Required},
	{Short: 'C', Long: "directory", Arg: option.Required},
	{Short: 'z', Long: "gzip"},
	{Short: 'z', Long: "gunzip"},
	{Short: 'j', Long: "bzip2"},
	{Short: 'J', Long: "xz"},
	{Long: "zstd", ID: 'Y'},
	{Short: 'Z', Long: "compress"},
	{Short: 'a', Long: "auto-compress"},
	{Short: 'v', Long: "verbose"},
	{Short: 'O', Long: "to-stdout"},
	{Short: 'p', Long: "preserve-permissions"},
	{Short: 'p', Long: "same-permissions"},
	{Short: 'k', Long: "keep-old-files"},
	{Long: "skip-old-files", ID: 'K'},
	{Long: "overwrite", ID: 'w'},
	{Short: 'U', Long: "unlink-first", ID: 'w'},
	{Short: 'm', Long: "touch"},
	{Long: "strip-components", Arg: option.Required, ID: 's'},
	{Long: "one-top-level", Arg: option.Optional, ID: '1'},
	{Long: "exclude", Arg: option.Required, ID: 'e'},
	{Short: 'X', Long: "exclude-from", Arg: option.Required},
	{Short: 'T', Long: "files-from", Arg: option.Required},
	{Long: "null", ID: '0'},
	{Short: 'h', Long: "dereference"},
	{Short: 'P', Long: "absolute-names"},
	{Long: "no-recursion", ID: 'R'},
	{Long: "wildcards", ID: '*'},
	{Long: "no-wildcards", ID: 'W'},
	{Long: "anchored", ID: 'w'},
	{Long: "no-anchored", ID: 'w'},
	{Long: "wildcards-match-slash", ID: 'w'},
	{Long: "owner", Arg: option.Required, ID: 'o'},
	{Long: "group", Arg: option.Required, ID: 'g'},
	{Long: "mode", Arg: option.Required, ID: 'M'},
	{Long: "mtime", Arg: option.Required, ID: 'D'},
	{Long: "numeric-owner", ID: 'n'},
	{Long: "sort", Arg: option.Required, ID: 'w'},
	{Short: 'b', Long: "blocking-factor", Arg: option.Required, ID: 'w'},
	{Long: "no-same-owner", ID: 'q'},
	{Long: "same-owner", ID: 'w'},
	{Long: "no-same-permissions", ID: 'Q'},
	{Short: 'H', Long: "format", Arg: option.Required, ID: 'w'},
	{Short: 'S', Long: "sparse", ID: 'w'},
	{Short: 'o', ID: 'q'},
	{Long: "full-time", ID: 'F'},
	{Short: 'l', ID: 'w'},
	{Short: 'B', ID: 'w'},
	{Short: 'i', ID: 'w'},
	{Long: "exclude-vcs", ID: 'V'},
	{Long: "totals", ID: 'w'},
	{Long: "ignore-failed-read", ID: 'w'},
	{Long: "warning", Arg: option.Required, ID: 'w'},
	{Short: 'w', ID: 'w'},
}}

// tarMember is an operand of tar and the directory to which it is relative.
type tarMember struct {
	name, dir string
	found     bool
}

// tarJob is the state of one run of tar.
type tarJob struct {
	p       *kernel.Proc
	action  rune
	file    string
	dir     string
	members []tarMember

	pack        rune   // z, j, J (xz), Y (zstd), or 0
	program     string // of -I
	renames     []tarRename
	transformed bool // lists have the names after --transform
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
	mode        *filemode.Change
	mtime       time.Time
	owners      *account.Database
	zone        *time.Location
	width       int // of owner, group and size in long lists
	removed     map[string]bool
	code        int
	afterNames  []string // positional options after the names
	sawOperands bool
}

// tarOwner is the owner or group of --owner or --group.
type tarOwner struct {
	name string
	id   int
}

// tarStop ends a run of tar; its cause has been reported.
type tarStop struct{}

func (tarStop) Error() string { return "stopped" }

func runTar(p *kernel.Proc) int {
	j := &tarJob{p: p, file: "-", width: 19, removed: map[string]bool{}, owners: account.NewDatabase(p), zone: datetime.LocalZone(p)}
	if len(p.Args) > 1 && len(p.Args[1]) > option.MaxBundle && p.Args[1][0] != '-' {
		j.reportUsage("too many options in one argument")
		return 2
	}
	args, short := tarOldStyle(p.Args[1:])
	if short != 0 {
		j.reportUsage("Old option '%c' requires an argument.", short)
		return 2
	}
	if !j.parseArguments(args) {
		return max(j.code, 2)
	}
	var err error
	switch j.action {
	case 'c', 'r':
		err = j.create()
	case tarDelete:
		err = j.deleteMembers()
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

// reportError reports an error that does not stop the run.
func (j *tarJob) reportError(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = 2
}

// reportFatal reports an error that ends the run.
func (j *tarJob) reportFatal(format string, args ...any) error {
	j.p.Errorf(format, args...)
	j.p.Errorf("Error is not recoverable: exiting now")
	return tarStop{}
}

func (j *tarJob) reportUsage(format string, args ...any) bool {
	j.p.Errorf(format, args...)
	_, _ = io.WriteString(j.p.Stderr, "Try 'tar --help' or 'tar --usage' for more information.\n") // best effort
	return false
}

// tarOldStyle converts a first argument without a dash into options; those with arguments get the
// following ones in turn. It returns the letter that lacks its argument, or 0.
func tarOldStyle(args []string) ([]string, rune) {
	if len(args) == 0 || args[0] == "" || args[0][0] == '-' {
		return args, 0
	}
	rest := args[1:]
	var out []string
	for _, c := range args[0] {
		out = append(out, "-"+string(c))
		o, _ := tarOptions.FindShort(c)
		switch {
		case o.Arg != option.Required:
		case len(rest) == 0:
			return nil, c
		default:
			out = append(out, rest[0])
			rest = rest[1:]
		}
	}
	return append(out, rest...), 0
}

// parseArguments parses options and names in order, since -C applies to the names after it.
func (j *tarJob) parseArguments(args []string) bool {
	for len(args) > 0 {
		j.p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			for _, name := range args {
				j.addMember(name)
			}
			args = nil
		case len(a) > 1 && a[0] == '-':
			list, used, msg := j.parseOne(a, args)
			if msg != "" {
				j.code = 64
				return j.reportUsage("%s", msg)
			}
			args = args[used:]
			for _, g := range list {
				if !j.applyOption(g) {
					return false
				}
			}
		default:
			j.addMember(a)
			j.sawOperands = true
		}
	}
	return j.check()
}

func (j *tarJob) parseOne(a string, rest []string) ([]option.Setting, int, string) {
	if !strings.HasPrefix(a, "--") {
		return tarOptions.ParseShort(a, rest)
	}
	g, used, msg := tarOptions.ParseLong(a, rest)
	return []option.Setting{g}, used, msg
}

func (j *tarJob) addMember(name string) {
	j.p.Alloc(2 * tarMemberSize) // the slice may grow to twice the size that it needs
	j.members = append(j.members, tarMember{name: name, dir: j.dir})
}

// tarMemberSize is the size of a tarMember in memory, in bytes.
const tarMemberSize = 48

// check checks the combination of options.
func (j *tarJob) check() bool {
	switch {
	case j.action == 0:
		return j.reportUsage("You must specify one of the '-Acdtrux', '--delete' or '--test-label' options")
	case strings.ContainsRune("udA", j.action):
		j.p.Errorf("-%c is not supported here: create a new archive, append with -r, or remove members with --delete", j.action)
		return false
	case j.pack == 'Z' || j.pack == 'j' && j.action == 'c':
		j.p.Errorf("this compression is not supported here: use -z, -J or --zstd")
		return false
	case j.action == 'c' && len(j.members) == 0:
		return j.reportUsage("Cowardly refusing to create an empty archive")
	}
	if len(j.afterNames) > 0 && j.action != 't' && j.action != 'x' {
		j.reportError("The following options were used after any non-optional arguments in archive create or update mode.  These options are positional and affect only arguments that follow them.  Please, rearrange them properly.")
		for _, o := range j.afterNames {
			j.p.Errorf("%s has no effect", o)
		}
	}
	if j.auto && j.action == 'c' && j.pack == 0 {
		j.pack = packOfName(j.file)
	}
	return true
}

// applyOption applies one option. It reports an error and returns false.
func (j *tarJob) applyOption(g option.Setting) bool {
	switch g.Key {
	case 'c', 'r', 't', 'x', 'u', 'd', 'A', tarDelete:
		if j.action != 0 && j.action != g.Key {
			return j.reportUsage("You may not specify more than one '-Acdtrux', '--delete' or  '--test-label' option")
		}
		j.action = g.Key
	case 'f':
		j.file = g.Value
	case 'C':
		j.dir = joinTarPath(j.dir, g.Value)
	case 'z', 'j', 'J', 'Y', 'Z':
		j.pack = g.Key
	case 'I':
		if strings.TrimSpace(g.Value) == "" {
			return j.reportUsage("-I needs a program")
		}
		j.program = g.Value
	case tarTransform:
		list, err := parseTransform(j.p, g.Value)
		if err != nil {
			return j.reportUsage("%v", err)
		}
		j.renames = append(j.renames, list...)
	case tarShowTransformed:
		j.transformed = true
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
		n, err := strconv.Atoi(g.Value)
		if err != nil || n < 0 {
			return j.reportUsage("%s: Invalid number of elements", g.Value)
		}
		j.strip = n
	case '1':
		j.topLevel = tarTopLevel(g.Value, j.file)
	default:
		return j.applySelection(g)
	}
	return true
}

// applySelection applies the options that select files and how they are stored.
func (j *tarJob) applySelection(g option.Setting) bool {
	switch g.Key {
	case 'e':
		if j.sawOperands {
			j.afterNames = append(j.afterNames, fmt.Sprintf("--exclude '%s'", g.Value))
			return true
		}
		j.excludes = append(j.excludes, g.Value)
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
		j.wild, j.wildSet = g.Key == '*', true
	case 'n':
		j.numeric = true
	case 'q':
		j.noOwner = true
	case 'Q':
		j.masked = true
	case 'F':
		j.fullTime = true
	default:
		return j.applyOverride(g)
	}
	return true
}

// applyOverride applies the options that override attributes of files in the archive.
func (j *tarJob) applyOverride(g option.Setting) bool {
	switch g.Key {
	case 'o':
		j.owner = tarOwnerOf(g.Value, j.owners.UID)
	case 'g':
		j.group = tarOwnerOf(g.Value, j.owners.GID)
	case 'M':
		m, ok := filemode.ParseChange(g.Value)
		if !ok {
			return j.reportUsage("Invalid mode given on option")
		}
		j.mode = &m
	case 'D':
		t, ok := datetime.Parse(g.Value, j.p.Now(), j.zone)
		if !ok {
			return j.reportUsage("Invalid date format: %s", g.Value)
		}
		j.mtime = t
	}
	return true
}

// tarOwnerOf parses NAME, NUMBER, or NAME:NUMBER.
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

func joinTarPath(dir, name string) string {
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

// listFile reads the file of -X or -T.
func (j *tarJob) listFile(g option.Setting) bool {
	in, err := stream.Open(j.p, g.Value)
	if err != nil {
		_ = j.reportFatal("%s: Cannot open: %s", tarName(g.Value), program.Reason(err)) // the caller stops too
		return false
	}
	defer stream.Close(in)
	delim := byte('\n')
	if j.null && g.Key == 'T' {
		delim = 0
	}
	list := stream.NewLineReader(j.p, in, delim)
	defer list.Close()
	for line := list.Next(); line != nil; line = list.Next() {
		name := string(stream.TrimDelimiter(line, delim))
		switch {
		case name == "":
		case g.Key == 'X':
			j.excludes = append(j.excludes, name)
		default:
			j.p.Alloc(int64(len(name)) + 64)
			j.addMember(name)
		}
	}
	return true
}

// isExcluded reports whether a pattern of --exclude matches a name, or a part of it after a slash.
func (j *tarJob) isExcluded(name string) bool {
	name = strings.TrimSuffix(name, "/")
	for _, pattern := range j.excludes {
		pattern = strings.TrimSuffix(pattern, "/")
		for tail := name; ; {
			if glob.Match(j.p, pattern, tail) {
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

// safeName returns the name of a member below the directory: without a prefix that leads out of it. It
// reports each removed prefix once.
func (j *tarJob) safeName(name, what string) string {
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

// packOfName returns the compression that -a derives from the name of an archive.
func packOfName(name string) rune {
	switch {
	case strings.HasSuffix(name, "gz"), strings.HasSuffix(name, ".taz"):
		return 'z'
	case strings.HasSuffix(name, ".xz"), strings.HasSuffix(name, ".txz"):
		return 'J'
	case strings.HasSuffix(name, ".zst"), strings.HasSuffix(name, ".tzst"):
		return 'Y'
	}
	return 0
}
