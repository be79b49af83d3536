package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

const grepUsage = `Usage: grep [OPTION]... PATTERNS [FILE]...
Search for PATTERNS in each FILE.
Example: grep -i 'hello world' menu.h main.c
PATTERNS can contain multiple patterns separated by newlines.

Pattern selection and interpretation:
  -E, --extended-regexp     PATTERNS are extended regular expressions
  -F, --fixed-strings       PATTERNS are strings
  -G, --basic-regexp        PATTERNS are basic regular expressions
  -P, --perl-regexp         PATTERNS are Perl regular expressions
  -e, --regexp=PATTERNS     use PATTERNS for matching
  -f, --file=FILE           take PATTERNS from FILE
  -i, --ignore-case         ignore case distinctions in patterns and data
      --no-ignore-case      do not ignore case distinctions (default)
  -w, --word-regexp         match only whole words
  -x, --line-regexp         match only whole lines
  -z, --null-data           a data line ends in 0 byte, not newline

Miscellaneous:
  -s, --no-messages         suppress error messages
  -v, --invert-match        select non-matching lines
  -V, --version             display version information and exit
      --help                display this help text and exit

Output control:
  -m, --max-count=NUM       stop after NUM selected lines
  -b, --byte-offset         print the byte offset with output lines
  -n, --line-number         print line number with output lines
      --line-buffered       flush output on every line
  -H, --with-filename       print file name with output lines
  -h, --no-filename         suppress the file name prefix on output
      --label=LABEL         use LABEL as the standard input file name prefix
  -o, --only-matching       show only nonempty parts of lines that match
  -q, --quiet, --silent     suppress all normal output
      --binary-files=TYPE   assume that binary files are TYPE;
                            TYPE is 'binary', 'text', or 'without-match'
  -a, --text                equivalent to --binary-files=text
  -I                        equivalent to --binary-files=without-match
  -d, --directories=ACTION  how to handle directories;
                            ACTION is 'read', 'recurse', or 'skip'
  -D, --devices=ACTION      how to handle devices, FIFOs and sockets;
                            ACTION is 'read' or 'skip'
  -r, --recursive           like --directories=recurse
  -R, --dereference-recursive  likewise, but follow all symlinks
      --include=GLOB        search only files that match GLOB (a file pattern)
      --exclude=GLOB        skip files that match GLOB
      --exclude-from=FILE   skip files that match any file pattern from FILE
      --exclude-dir=GLOB    skip directories that match GLOB
  -L, --files-without-match  print only names of FILEs with no selected lines
  -l, --files-with-matches  print only names of FILEs with selected lines
  -c, --count               print only a count of selected lines per FILE
  -T, --initial-tab         make tabs line up (if needed)
  -Z, --null                print 0 byte after FILE name

Context control:
  -B, --before-context=NUM  print NUM lines of leading context
  -A, --after-context=NUM   print NUM lines of trailing context
  -C, --context=NUM         print NUM lines of output context
  -NUM                      same as --context=NUM
      --group-separator=SEP  print SEP on line between matches with context
      --no-group-separator  do not print separator for matches with context
      --color[=WHEN],
      --colour[=WHEN]       use markers to highlight the matching strings;
                            WHEN is 'always', 'never', or 'auto'
  -U, --binary              do not strip CR characters at EOL (MSDOS/Windows)

When FILE is '-', read standard input.  With no FILE, read '.' if
recursive, '-' otherwise.  With fewer than two FILEs, assume -h.
Exit status is 0 if any line is selected, 1 otherwise;
if any error occurs and -q is not given, the exit status is 2.
`

// grepStyle says what grep looks for and how it shows what it finds.
type grepStyle struct {
	syntax      regex.Syntax
	fold        bool
	words       bool
	whole       bool
	invert      bool
	delim       byte
	max         int64 // lines to select in a file; -1: all
	before      int
	after       int
	around      int    // -C, where neither of the two was given
	separator   string // between groups of context
	separated   bool
	grouped     bool // context was asked for, be it of no lines
	count       bool
	list        int // 1: names of files that match, -1: of those that don't
	quiet       bool
	silent      bool // no messages about files
	only        bool
	numbers     bool
	offsets     bool
	names       int // 1 always, -1 never, 0 with several files
	label       string
	tab         bool
	nulls       bool // a NUL after names
	color       bool
	flush       bool
	binary      int
	recurse     bool
	follow      bool
	skipDirs    bool
	skipSpecial bool
	globs       []grepGlob
	bytes       bool
	lenient     bool    // bytes that are no characters don't make a file binary; files without a match aren't counted
	replace     *string // what is shown in place of a match
}

// What grep does with files that are not text.
const (
	binaryMessage = iota
	binaryText
	binaryNone
)

// grepGlob is a pattern of names to search or to leave out.
type grepGlob struct {
	pattern string
	include bool
	dir     bool
}

const (
	grepLabel rune = 256 + iota
	grepBinary
	grepExcludeFrom
	grepExclude
	grepExcludeDir
	grepInclude
	grepColor
	grepLineBuffered
	grepSeparator
	grepNoSeparator
	grepNoIgnoreCase
)

var grepOptions = parsing{digits: true, options: []option{
	{short: 'E', long: "extended-regexp"},
	{short: 'F', long: "fixed-strings"},
	{short: 'G', long: "basic-regexp"},
	{short: 'P', long: "perl-regexp"},
	{short: 'e', long: "regexp", arg: required},
	{short: 'f', long: "file", arg: required},
	{short: 'i', long: "ignore-case"},
	{short: 'y', id: 'i'},
	{long: "no-ignore-case", id: grepNoIgnoreCase},
	{short: 'w', long: "word-regexp"},
	{short: 'x', long: "line-regexp"},
	{short: 'z', long: "null-data"},
	{short: 's', long: "no-messages"},
	{short: 'V', long: "version"},
	{short: 'm', long: "max-count", arg: required},
	{short: 'b', long: "byte-offset"},
	{short: 'n', long: "line-number"},
	{long: "line-buffered", id: grepLineBuffered},
	{short: 'H', long: "with-filename"},
	{short: 'h', long: "no-filename"},
	{long: "label", arg: required, id: grepLabel},
	{short: 'o', long: "only-matching"},
	{short: 'q', long: "quiet"},
	{long: "silent", id: 'q'},
	{long: "binary-files", arg: required, id: grepBinary},
	{short: 'a', long: "text"},
	{short: 'I'},
	{short: 'd', long: "directories", arg: required},
	{short: 'D', long: "devices", arg: required},
	{short: 'r', long: "recursive"},
	{short: 'R', long: "dereference-recursive"},
	{long: "include", arg: required, id: grepInclude},
	{long: "exclude", arg: required, id: grepExclude},
	{long: "exclude-from", arg: required, id: grepExcludeFrom},
	{long: "exclude-dir", arg: required, id: grepExcludeDir},
	{short: 'L', long: "files-without-match"},
	{short: 'l', long: "files-with-matches"},
	{short: 'c', long: "count"},
	{short: 'T', long: "initial-tab"},
	{short: 'Z', long: "null"},
	{short: 'v', long: "invert-match"},
	{short: 'B', long: "before-context", arg: required},
	{short: 'A', long: "after-context", arg: required},
	{short: 'C', long: "context", arg: required},
	{long: "group-separator", arg: required, id: grepSeparator},
	{long: "no-group-separator", id: grepNoSeparator},
	{long: "color", arg: optional, id: grepColor},
	{long: "colour", arg: optional, id: grepColor},
	{short: 'U', long: "binary"},
	{short: 'u', long: "unix-byte-offsets"},
}}

// grepRun is one run of grep.
type grepRun struct {
	grepStyle
	p        *kernel.Proc
	patterns []string
	given    bool // patterns came by -e or -f
	match    *grepMatcher
	help     bool // an option asked for it by being wrong
	refusal  int  // the exit status when an option is wrong
	failed   bool
	selected bool
	printed  bool // a line has been printed, so a separator may follow
}

func grep(p *kernel.Proc) int {
	g := &grepRun{p: p, refusal: 2, grepStyle: grepStyle{delim: '\n', max: -1, before: -1, after: -1, separator: "--", separated: true}}
	switch p.Name() {
	case "egrep":
		g.syntax = regex.ERE
	case "fgrep":
		g.syntax = regex.Fixed
	}
	opts, operands, ok := grepOptions.parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if o.key == 'V' {
			_, _ = p.Out().WriteString("grep (atoll) 3.8\n") // shows at the flush
			return 0
		}
		if !g.option(o) {
			return g.refusal
		}
	}
	if g.help {
		_, _ = p.Out().WriteString(grepUsage) // shows at the flush
		return 0
	}
	if !g.given {
		if len(operands) == 0 {
			_, _ = p.Stderr.WriteString("Usage: grep [OPTION]... PATTERNS [FILE]...\n") // nobody to tell
			tryHelp(p)
			return 2
		}
		g.patterns, operands = strings.Split(operands[0], "\n"), operands[1:]
	}
	g.bytes = byteLocale(p)
	if !g.compile() {
		return 2
	}
	g.settle()
	nothing := g.invert && len(g.patterns) == 1 && g.patterns[0] == "" // every line matches
	if (g.max == 0 || nothing) && g.list >= 0 {
		return 1
	}
	return g.files(operands)
}

// settle completes the options that depend on each other.
func (g *grepRun) settle() {
	g.grouped = g.before >= 0 || g.after >= 0 || g.around > 0
	if g.before < 0 {
		g.before = g.around
	}
	if g.after < 0 {
		g.after = g.around
	}
	if g.quiet || g.list != 0 || g.count {
		g.before, g.after, g.grouped = 0, 0, false
	}
}

// option takes in one option; it says what is wrong with a value.
func (g *grepRun) option(o given) bool {
	switch o.key {
	case 'E':
		g.syntax = regex.ERE
	case 'F':
		g.syntax = regex.Fixed
	case 'G':
		g.syntax = regex.BRE
	case 'P':
		g.syntax = regex.Perl
	case 'e':
		g.given = true
		g.patterns = append(g.patterns, strings.Split(o.value, "\n")...)
	case 'f':
		return g.patternFile(o.value)
	case 'i', grepNoIgnoreCase:
		g.fold = o.key == 'i'
	case 'w':
		g.words = true
	case 'x':
		g.whole = true
	case 'z':
		g.delim = 0
	case 'v':
		g.invert = true
	case 'd', 'D', grepBinary:
		return g.action(o)
	case 'r', 'R':
		g.recurse, g.follow = true, o.key == 'R'
	case grepInclude, grepExclude, grepExcludeDir:
		g.globs = append(g.globs, grepGlob{pattern: o.value, include: o.key == grepInclude, dir: o.key == grepExcludeDir})
	case grepExcludeFrom:
		return g.excludeFrom(o.value)
	case 'm', 'A', 'B', 'C', '#':
		return g.number(o)
	default:
		return g.shape(o)
	}
	return true
}

// shape takes in the options about what is printed.
func (g *grepRun) shape(o given) bool {
	switch o.key {
	case 's':
		g.silent = true
	case 'b':
		g.offsets = true
	case 'n':
		g.numbers = true
	case grepLineBuffered:
		g.flush = true
	case 'H':
		g.names = 1
	case 'h':
		g.names = -1
	case grepLabel:
		g.label = o.value
	case 'o':
		g.only = true
	case 'q':
		g.quiet = true
	case 'a':
		g.binary = binaryText
	case 'I':
		g.binary = binaryNone
	case 'L':
		g.list = -1
	case 'l':
		g.list = 1
	case 'c':
		g.count = true
	case 'T':
		g.tab = true
	case 'Z':
		g.nulls = true
	case 'u':
		g.p.Errorf("warning: --unix-byte-offsets (-u) is obsolete")
	case grepSeparator, grepNoSeparator:
		g.separator, g.separated = o.value, o.key == grepSeparator
	case grepColor:
		return g.colors(o)
	}
	return true
}

func (g *grepRun) colors(o given) bool {
	switch o.value {
	case "always", "yes", "force":
		g.color = true
	case "never", "no", "none":
		g.color = false
	case "auto", "tty", "if-tty", "":
		g.color = g.p.Stdout.IsTerminal()
	default:
		g.help = true
	}
	return true
}

func (g *grepRun) action(o given) bool {
	if o.key == grepBinary {
		kind := slices.Index([]string{"binary", "text", "without-match"}, o.value)
		if kind < 0 {
			g.p.Errorf("unknown binary-files type")
			return false
		}
		g.binary = kind
		return true
	}
	if o.key == 'D' {
		if o.value != "read" && o.value != "skip" {
			g.p.Errorf("unknown devices method")
			return false
		}
		g.skipSpecial = o.value == "skip"
		return true
	}
	what := slices.Index([]string{"read", "recurse", "skip"}, o.value)
	if what < 0 {
		g.p.Errorf("invalid argument %s for '--directories'\nValid arguments are:\n  - 'read'\n  - 'recurse'\n  - 'skip'", cite(o.value))
		_, _ = g.p.Stderr.WriteString("Usage: grep [OPTION]... PATTERNS [FILE]...\n") // nobody to tell
		tryHelp(g.p)
		g.refusal = 1
		return false
	}
	g.recurse, g.skipDirs = what == 1, what == 2
	return true
}

// number takes in -m, -A, -B, -C and -NUM.
func (g *grepRun) number(o given) bool {
	n, fault := parseSize(o.value, "kKmMGTPEZY0")
	if fault == sizeHuge {
		n, fault = 1<<62, sizeFine
	}
	if o.key == 'm' {
		if v, err := strconv.ParseInt(o.value, 10, 64); err == nil && v < 0 {
			n, fault = -1, sizeFine
		}
		if fault != sizeFine {
			g.p.Errorf("invalid max count")
			return false
		}
		g.max = n
		return true
	}
	if fault != sizeFine {
		g.p.Errorf("%s: invalid context length argument", o.value)
		return false
	}
	lines := int(min(n, 1<<40))
	switch o.key {
	case 'A':
		g.after = lines
	case 'B':
		g.before = lines
	default:
		g.around = lines
	}
	return true
}

// patternFile adds the lines of a file to the patterns.
func (g *grepRun) patternFile(name string) bool {
	b, ok := g.wholeFile(name)
	g.given = true
	if text := strings.TrimSuffix(string(b), "\n"); text != "" || len(b) > 0 {
		g.patterns = append(g.patterns, strings.Split(text, "\n")...)
	}
	return ok
}

func (g *grepRun) excludeFrom(name string) bool {
	b, ok := g.wholeFile(name)
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			g.globs = append(g.globs, grepGlob{pattern: line})
		}
	}
	return ok
}

func (g *grepRun) wholeFile(name string) ([]byte, bool) {
	in, err := open(g.p, name)
	if err == nil {
		var b []byte
		b, err = g.p.ReadAll(in)
		closeInput(in)
		if err == nil {
			return b, true
		}
	}
	g.p.Errorf("%s: %s", name, why(err))
	return nil, false
}
