package search

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// grepStyle holds the options of grep: what it searches for and how it prints matches.
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
	around      int    // -C: default of before and after
	separator   string // between groups of context
	separated   bool
	grouped     bool // context was requested, even of no lines
	count       bool
	list        int // 1: print names of files that match, -1: of those that don't
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
	lenient     bool    // invalid characters don't make a file binary; files without a match aren't counted
	replace     *string // replaces matches in the output
}

// Ways to treat files that are not text.
const (
	binaryMessage = iota
	binaryText
	binaryNone
)

// grepGlob is a pattern of names to include or exclude.
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

var grepOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'E', Long: "extended-regexp"},
	{Short: 'F', Long: "fixed-strings"},
	{Short: 'G', Long: "basic-regexp"},
	{Short: 'P', Long: "perl-regexp"},
	{Short: 'e', Long: "regexp", Arg: option.Required},
	{Short: 'f', Long: "file", Arg: option.Required},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'y', ID: 'i'},
	{Long: "no-ignore-case", ID: grepNoIgnoreCase},
	{Short: 'w', Long: "word-regexp"},
	{Short: 'x', Long: "line-regexp"},
	{Short: 'z', Long: "null-data"},
	{Short: 's', Long: "no-messages"},
	{Short: 'V', Long: "version"},
	{Short: 'm', Long: "max-count", Arg: option.Required},
	{Short: 'b', Long: "byte-offset"},
	{Short: 'n', Long: "line-number"},
	{Long: "line-buffered", ID: grepLineBuffered},
	{Short: 'H', Long: "with-filename"},
	{Short: 'h', Long: "no-filename"},
	{Long: "label", Arg: option.Required, ID: grepLabel},
	{Short: 'o', Long: "only-matching"},
	{Short: 'q', Long: "quiet"},
	{Long: "silent", ID: 'q'},
	{Long: "binary-files", Arg: option.Required, ID: grepBinary},
	{Short: 'a', Long: "text"},
	{Short: 'I'},
	{Short: 'd', Long: "directories", Arg: option.Required},
	{Short: 'D', Long: "devices", Arg: option.Required},
	{Short: 'r', Long: "recursive"},
	{Short: 'R', Long: "dereference-recursive"},
	{Long: "include", Arg: option.Required, ID: grepInclude},
	{Long: "exclude", Arg: option.Required, ID: grepExclude},
	{Long: "exclude-from", Arg: option.Required, ID: grepExcludeFrom},
	{Long: "exclude-dir", Arg: option.Required, ID: grepExcludeDir},
	{Short: 'L', Long: "files-without-match"},
	{Short: 'l', Long: "files-with-matches"},
	{Short: 'c', Long: "count"},
	{Short: 'T', Long: "initial-tab"},
	{Short: 'Z', Long: "null"},
	{Short: 'v', Long: "invert-match"},
	{Short: 'B', Long: "before-context", Arg: option.Required},
	{Short: 'A', Long: "after-context", Arg: option.Required},
	{Short: 'C', Long: "context", Arg: option.Required},
	{Long: "group-separator", Arg: option.Required, ID: grepSeparator},
	{Long: "no-group-separator", ID: grepNoSeparator},
	{Long: "color", Arg: option.Optional, ID: grepColor},
	{Long: "colour", Arg: option.Optional, ID: grepColor},
	{Short: 'U', Long: "binary"},
	{Short: 'u', Long: "unix-byte-offsets"},
}}

// globCost is the memory of a pattern for names in bytes.
const globCost = 64

// grepRun is the state of one run of grep or rg.
type grepRun struct {
	grepStyle
	p           *kernel.Proc
	patterns    []string // texts with one pattern in each line
	hasPatterns bool     // by -e or -f
	match       *grepMatcher
	wantsUsage  bool // an option is wrong: print the usage
	errorStatus int  // exit status for a wrong option
	failed      bool
	selected    bool
	printed     bool // a line has been printed, so a separator may follow
}

func runGrep(p *kernel.Proc) int {
	g := &grepRun{p: p, errorStatus: 2, grepStyle: grepStyle{delim: '\n', max: -1, before: -1, after: -1, separator: "--", separated: true}}
	switch p.Name() {
	case "egrep":
		g.syntax = regex.ERE
	case "fgrep":
		g.syntax = regex.Fixed
	}
	opts, operands, ok := grepOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if o.Key == 'V' {
			_, _ = p.Out().WriteString("grep (atoll) 3.8\n") // Flush reports the error
			return 0
		}
		if !g.applyOption(o) {
			return g.errorStatus
		}
	}
	if g.wantsUsage {
		_, _ = p.Out().WriteString(grepUsage) // Flush reports the error
		return 0
	}
	if !g.hasPatterns {
		if len(operands) == 0 {
			_, _ = p.Stderr.WriteString("Usage: grep [OPTION]... PATTERNS [FILE]...\n") // best effort
			option.SuggestHelp(p)
			return 2
		}
		g.patterns, operands = operands[:1], operands[1:]
	}
	g.bytes = character.LocaleIsBytes(p)
	if !g.compilePatterns() {
		return 2
	}
	g.completeOptions()
	nothing := g.invert && len(g.patterns) == 1 && g.patterns[0] == "" // every line matches
	if (g.max == 0 || nothing) && g.list >= 0 {
		return 1
	}
	return g.searchOperands(operands)
}

// completeOptions sets the defaults of options that depend on each other.
func (g *grepRun) completeOptions() {
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

// applyOption applies one option. It reports an invalid value and returns false.
func (g *grepRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'E':
		g.syntax = regex.ERE
	case 'F':
		g.syntax = regex.Fixed
	case 'G':
		g.syntax = regex.BRE
	case 'P':
		g.syntax = regex.Perl
	case 'e':
		g.hasPatterns = true
		g.patterns = append(g.patterns, o.Value)
	case 'f':
		return g.addPatternFile(o.Value)
	case 'i', grepNoIgnoreCase:
		g.fold = o.Key == 'i'
	case 'w':
		g.words = true
	case 'x':
		g.whole = true
	case 'z':
		g.delim = 0
	case 'v':
		g.invert = true
	case 'd', 'D', grepBinary:
		return g.applyMethod(o)
	case 'r', 'R':
		g.recurse, g.follow = true, o.Key == 'R'
	case grepInclude, grepExclude, grepExcludeDir:
		g.globs = append(g.globs, grepGlob{pattern: o.Value, include: o.Key == grepInclude, dir: o.Key == grepExcludeDir})
	case grepExcludeFrom:
		return g.excludeFrom(o.Value)
	case 'm', 'A', 'B', 'C', '#':
		return g.applyNumber(o)
	default:
		return g.applyOutputOption(o)
	}
	return true
}

// applyOutputOption applies the options for the output.
func (g *grepRun) applyOutputOption(o option.Setting) bool {
	switch o.Key {
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
		g.label = o.Value
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
		g.separator, g.separated = o.Value, o.Key == grepSeparator
	case grepColor:
		return g.applyColor(o)
	}
	return true
}

func (g *grepRun) applyColor(o option.Setting) bool {
	switch o.Value {
	case "always", "yes", "force":
		g.color = true
	case "never", "no", "none":
		g.color = false
	case "auto", "tty", "if-tty", "":
		g.color = g.p.Stdout.IsTerminal()
	default:
		g.wantsUsage = true
	}
	return true
}

func (g *grepRun) applyMethod(o option.Setting) bool {
	if o.Key == grepBinary {
		kind := slices.Index([]string{"binary", "text", "without-match"}, o.Value)
		if kind < 0 {
			g.p.Errorf("unknown binary-files type")
			return false
		}
		g.binary = kind
		return true
	}
	if o.Key == 'D' {
		if o.Value != "read" && o.Value != "skip" {
			g.p.Errorf("unknown devices method")
			return false
		}
		g.skipSpecial = o.Value == "skip"
		return true
	}
	what := slices.Index([]string{"read", "recurse", "skip"}, o.Value)
	if what < 0 {
		g.p.Errorf("invalid argument %s for '--directories'\nValid arguments are:\n  - 'read'\n  - 'recurse'\n  - 'skip'", quoting.QuoteWord(o.Value))
		_, _ = g.p.Stderr.WriteString("Usage: grep [OPTION]... PATTERNS [FILE]...\n") // best effort
		option.SuggestHelp(g.p)
		g.errorStatus = 1
		return false
	}
	g.recurse, g.skipDirs = what == 1, what == 2
	return true
}

// applyNumber applies -m, -A, -B, -C and -NUM.
func (g *grepRun) applyNumber(o option.Setting) bool {
	n, fault := number.ParseSize(o.Value, "kKmMGTPEZY0")
	if fault == number.TooLarge {
		n, fault = 1<<62, number.Valid
	}
	if o.Key == 'm' {
		if v, err := strconv.ParseInt(o.Value, 10, 64); err == nil && v < 0 {
			n, fault = -1, number.Valid
		}
		if fault != number.Valid {
			g.p.Errorf("invalid max count")
			return false
		}
		g.max = n
		return true
	}
	if fault != number.Valid {
		g.p.Errorf("%s: invalid context length argument", o.Value)
		return false
	}
	lines := int(min(n, 1<<40))
	switch o.Key {
	case 'A':
		g.after = lines
	case 'B':
		g.before = lines
	default:
		g.around = lines
	}
	return true
}

// addPatternFile adds the lines of a file to the patterns.
func (g *grepRun) addPatternFile(name string) bool {
	b, ok := g.readWholeFile(name)
	g.hasPatterns = true
	if len(b) > 0 {
		g.p.Alloc(int64(len(b)))
		g.patterns = append(g.patterns, strings.TrimSuffix(string(b), "\n"))
		g.p.Free(int64(cap(b)))
	}
	return ok
}

// excludeFrom adds the patterns in a file to those of --exclude.
func (g *grepRun) excludeFrom(name string) bool {
	b, ok := g.readWholeFile(name)
	g.p.Alloc(int64(len(b)))
	for line := range strings.Lines(string(b)) {
		g.p.Alloc(globCost)
		if line = strings.TrimSpace(line); line != "" {
			g.globs = append(g.globs, grepGlob{pattern: line})
		}
	}
	return ok
}

// readWholeFile returns the content of a file. It reports an error and returns false.
func (g *grepRun) readWholeFile(name string) ([]byte, bool) {
	in, err := stream.Open(g.p, name)
	if err == nil {
		var b []byte
		b, err = g.p.ReadAll(in)
		stream.Close(in)
		if err == nil {
			return b, true
		}
	}
	g.p.Errorf("%s: %s", name, program.Reason(err))
	return nil, false
}
