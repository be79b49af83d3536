package search

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const rgUsage = `Usage: rg [OPTIONS] PATTERN [PATH ...]
       rg [OPTIONS] -e PATTERN ... [PATH ...]
       rg [OPTIONS] --files [PATH ...]
Search the files below the current directory, or those named, for a regular
expression. Hidden files, binary files and what .gitignore, .ignore and
.rgignore name are passed by.

  -e, --regexp PATTERN      a pattern to search for; may be repeated
  -f, --file FILE           read patterns from FILE
  -F, --fixed-strings       patterns are plain text
  -i, --ignore-case         case does not matter
  -S, --smart-case          case matters only when a pattern has capital letters
  -s, --case-sensitive      case matters (default)
  -w, --word-regexp         match whole words
  -x, --line-regexp         match whole lines
  -v, --invert-match        lines that do not match
  -n, --line-number         show line numbers
  -N, --no-line-number      don't (default)
  -c, --count               count lines, per file
  -l, --files-with-matches  names of files with a match
      --files-without-match names of files without one
      --files               names of the files that would be searched
  -o, --only-matching       only the parts that match
  -r, --replace TEXT        show TEXT in place of each match; $1 is a group
  -m, --max-count NUM       at most NUM lines of each file
  -A, -B, -C NUM            lines of context after, before, around
  -g, --glob GLOB           search files that match; with ! pass them by
  -t, --type TYPE           search files of a type; -T passes them by
  -d, --max-depth NUM       how deep to go
      --hidden, -.          search hidden files too
      --no-ignore           don't read ignore files
  -u, --unrestricted        --no-ignore; twice: --hidden too; thrice: binary files too
  -L, --follow              follow symbolic links
  -a, --text                search binary files as text
  -H, --with-filename       show names of files; -I never shows them
  -0, --null                a NUL after names
  -q, --quiet               print nothing
      --color WHEN          never, always, ansi or auto
      --no-heading, --heading, --sort KEY, -j NUM: accepted
      --help                display this help and exit
`

const (
	rgFilesWithout rune = 256 + iota
	rgFiles
	rgHidden
	rgNoIgnore
	rgColor
	rgIgnored
	rgSeparator
	rgNoSeparator
	rgNoMessages
	rgTrim
)

var rgOptions = option.Parser{Options: []option.Option{
	{Short: 'e', Long: "regexp", Arg: option.Required},
	{Short: 'f', Long: "file", Arg: option.Required},
	{Short: 'F', Long: "fixed-strings"},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'S', Long: "smart-case"},
	{Short: 's', Long: "case-sensitive"},
	{Short: 'w', Long: "word-regexp"},
	{Short: 'x', Long: "line-regexp"},
	{Short: 'v', Long: "invert-match"},
	{Short: 'n', Long: "line-number"},
	{Short: 'N', Long: "no-line-number"},
	{Short: 'c', Long: "count"},
	{Short: 'l', Long: "files-with-matches"},
	{Long: "files-without-match", ID: rgFilesWithout},
	{Long: "files", ID: rgFiles},
	{Short: 'o', Long: "only-matching"},
	{Short: 'r', Long: "replace", Arg: option.Required},
	{Short: 'm', Long: "max-count", Arg: option.Required},
	{Short: 'A', Long: "after-context", Arg: option.Required},
	{Short: 'B', Long: "before-context", Arg: option.Required},
	{Short: 'C', Long: "context", Arg: option.Required},
	{Short: 'g', Long: "glob", Arg: option.Required},
	{Short: 't', Long: "type", Arg: option.Required},
	{Short: 'T', Long: "type-not", Arg: option.Required},
	{Short: 'd', Long: "max-depth", Arg: option.Required},
	{Short: '.', Long: "hidden", ID: rgHidden},
	{Long: "no-ignore", ID: rgNoIgnore},
	{Long: "no-ignore-vcs", ID: rgNoIgnore},
	{Short: 'u', Long: "unrestricted"},
	{Short: 'L', Long: "follow"},
	{Short: 'a', Long: "text"},
	{Short: 'H', Long: "with-filename"},
	{Short: 'I', Long: "no-filename"},
	{Short: '0', Long: "null"},
	{Short: 'q', Long: "quiet"},
	{Short: 'b', Long: "byte-offset"},
	{Long: "color", Arg: option.Required, ID: rgColor},
	{Long: "no-heading", ID: rgIgnored},
	{Long: "heading", ID: rgIgnored},
	{Long: "sort", Arg: option.Required, ID: rgIgnored},
	{Short: 'j', Long: "threads", Arg: option.Required, ID: rgIgnored},
	{Short: 'P', Long: "pcre2", ID: rgIgnored},
	{Long: "context-separator", Arg: option.Required, ID: rgSeparator},
	{Long: "no-context-separator", ID: rgNoSeparator},
	{Long: "no-messages", ID: rgNoMessages},
	{Long: "line-buffered", ID: rgIgnored},
	{Long: "no-config", ID: rgIgnored},
}}

// rgRun is the state of one run of rg.
type rgRun struct {
	*grepRun
	smart    bool
	listOnly bool // list the files instead of searching them
	hidden   bool
	noIgnore bool // read no ignore files
	depth    int  // largest depth; -1: any
	globs    []ignoreRule
	types    []string // patterns of names
	notType  []string
	listed   bool
}

func runRg(p *kernel.Proc) int {
	g := &grepRun{p: p, errorStatus: 2, grepStyle: grepStyle{syntax: regex.Perl, delim: '\n', max: -1, before: -1, after: -1, separator: "--", separated: true, lenient: true}}
	r := &rgRun{grepRun: g, depth: -1}
	opts, operands, ok := rgOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if !r.applyOption(o) {
			return 2
		}
	}
	if !g.hasPatterns && !r.listOnly {
		if len(operands) == 0 {
			p.Errorf("a pattern is missing")
			option.SuggestHelp(p)
			return 2
		}
		g.patterns, operands = operands[:1], operands[1:]
	}
	if !r.preparePatterns() {
		return 2
	}
	g.completeOptions()
	r.walkOperands(operands)
	switch {
	case g.quiet && g.selected:
		return 0
	case g.failed:
		return 2
	case g.selected || r.listed:
		return 0
	}
	return 1
}

// preparePatterns combines the patterns, decides about case and compiles them.
func (r *rgRun) preparePatterns() bool {
	g := r.grepRun
	if r.smart {
		g.fold = strings.IndexFunc(strings.Join(g.patterns, ""), unicode.IsUpper) < 0
	}
	if r.listOnly {
		return true
	}
	if g.syntax == regex.Perl && g.countPatterns() > 1 {
		joined := g.joinPatterns()
		g.p.Alloc(int64(6*g.countPatterns() + len(joined)))
		g.patterns = []string{"(?:" + strings.ReplaceAll(joined, "\n", ")|(?:") + ")"}
	}
	return g.compilePatterns()
}

func (r *rgRun) applyOption(o option.Setting) bool {
	g := r.grepRun
	switch o.Key {
	case 'F':
		g.syntax = regex.Fixed
	case 'S':
		r.smart = true
	case 's':
		g.fold, r.smart = false, false
	case 'N':
		g.numbers = false
	case 'r':
		g.replace = &o.Value
	case 'g':
		rule, ok := newIgnoreRule(o.Value, "")
		if ok {
			r.globs = append(r.globs, rule)
		}
	case 't', 'T':
		return r.applyFileType(o)
	case 'd':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 0 {
			g.p.Errorf("invalid value %s for '--max-depth'", quoting.QuoteWord(o.Value))
			return false
		}
		r.depth = n
	case 'u':
		switch {
		case !r.noIgnore:
			r.noIgnore = true
		case !r.hidden:
			r.hidden = true
		default:
			g.binary = binaryText
		}
	case 'L':
		g.follow = true
	case 'I':
		g.names = -1
	case '0':
		g.nulls = true
	case 'e', 'f', 'i', 'w', 'x', 'v', 'm', 'A', 'B', 'C':
		return g.applyOption(o)
	case 'n', 'c', 'l', 'o', 'a', 'H', 'q', 'b':
		return g.applyOutputOption(o)
	default:
		return r.applyLongOption(o)
	}
	return true
}

func (r *rgRun) applyLongOption(o option.Setting) bool {
	g := r.grepRun
	switch o.Key {
	case rgFilesWithout:
		g.list = -1
	case rgFiles:
		r.listOnly = true
	case rgHidden:
		r.hidden = true
	case rgNoIgnore:
		r.noIgnore = true
	case rgColor:
		g.color = o.Value == "always" || o.Value == "ansi"
	case rgSeparator, rgNoSeparator:
		g.separator, g.separated = o.Value, o.Key == rgSeparator
	case rgNoMessages:
		g.silent = true
	}
	return true
}

// applyFileType applies -t or -T, a type of files.
func (r *rgRun) applyFileType(o option.Setting) bool {
	names, ok := rgTypes[o.Value]
	if !ok {
		r.p.Errorf("unrecognized file type: %s", o.Value)
		return false
	}
	if o.Key == 't' {
		r.types = append(r.types, names...)
	} else {
		r.notType = append(r.notType, names...)
	}
	return true
}

var rgTypes = map[string][]string{
	"c": {"*.c", "*.h"}, "cpp": {"*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.h", "*.hxx"}, "cs": {"*.cs"}, "css": {"*.css", "*.scss"}, "csv": {"*.csv"}, "docker": {"*Dockerfile*"}, "go": {"*.go"},
	"html": {"*.htm", "*.html"}, "java": {"*.java"}, "js": {"*.js", "*.jsx", "*.mjs", "*.cjs", "*.vue"}, "json": {"*.json", "composer.lock"}, "kotlin": {"*.kt", "*.kts"}, "lua": {"*.lua"},
	"make": {"Makefile", "makefile", "GNUmakefile", "*.mk", "*.mak"}, "markdown": {"*.md", "*.markdown", "*.mdx"}, "md": {"*.md", "*.markdown", "*.mdx"}, "perl": {"*.pl", "*.pm", "*.t"}, "php": {"*.php"},
	"proto": {"*.proto"}, "py": {"*.py", "*.pyi"}, "python": {"*.py", "*.pyi"}, "ruby": {"*.rb", "Rakefile", "Gemfile", "*.gemspec"}, "rust": {"*.rs"}, "scala": {"*.scala"}, "sh": {"*.sh", "*.bash", "*.zsh", ".bashrc", ".profile"},
	"sql": {"*.sql"}, "swift": {"*.swift"}, "tf": {"*.tf"}, "toml": {"*.toml", "Cargo.lock"}, "ts": {"*.ts", "*.tsx", "*.mts", "*.cts"}, "txt": {"*.txt"}, "typescript": {"*.ts", "*.tsx", "*.mts", "*.cts"}, "xml": {"*.xml", "*.xsd", "*.xsl"}, "yaml": {"*.yaml", "*.yml"},
}

// walkOperands searches the operands. Without any, it searches standard input if that is a file or a
// pipe, or else the current directory. Standard input of the host counts only if it has data: a
// program that starts a command often leaves it an empty one.
func (r *rgRun) walkOperands(operands []string) {
	if len(operands) == 0 {
		mode := r.p.Stdin.Mode()
		if !r.listOnly && (mode.IsRegular() || mode&fs.ModeNamedPipe != 0) && !r.p.Stdin.HostInputIsEmpty() {
			r.searchFile("-", "<stdin>", false)
			return
		}
		r.searchTree(".", "", r.loadParentRules("."), 1)
		return
	}
	for _, name := range operands {
		if r.isDone() {
			return
		}
		if name == "-" {
			r.searchFile("-", "<stdin>", len(operands) > 1)
			continue
		}
		info, err := r.p.Stat(name)
		switch {
		case err != nil:
			r.failed = true
			if !r.silent {
				r.p.Errorf("%s: %s (os error 2)", name, program.Reason(err))
			}
		case info.IsDir():
			r.searchTree(name, strings.TrimRight(name, "/")+"/", r.loadParentRules(name), 1)
		default:
			r.visitFile(name, len(operands) > 1)
		}
	}
}

// visitFile searches or lists one file.
func (r *rgRun) visitFile(name string, several bool) {
	if r.listOnly {
		r.listed = true
		end := byte('\n')
		if r.nulls {
			end = 0
		}
		_, _ = r.p.Out().WriteString(name + string(end)) // Flush reports the error
		return
	}
	r.searchFile(name, name, several)
}

// searchTree searches the files below a directory.
func (r *rgRun) searchTree(dir, prefix string, rules ignoreRules, depth int) {
	if r.depth >= 0 && depth > r.depth || depth > maxTree {
		return
	}
	entries, err := r.p.ReadDir(dir)
	if err != nil {
		r.reportError(dir, err)
		return
	}
	if !r.noIgnore {
		rules = rules.withDirectory(r.p, dir)
	}
	skipBinary := r.binary
	if r.binary == binaryMessage {
		r.binary = binaryNone
	}
	for _, e := range entries {
		if r.isDone() {
			break
		}
		r.p.Tick(1)
		r.searchEntry(prefix+e.Name(), e.Type(), rules, depth)
	}
	r.binary = skipBinary
}

// searchEntry searches an entry of a directory.
func (r *rgRun) searchEntry(name string, mode fs.FileMode, rules ignoreRules, depth int) {
	if mode&fs.ModeSymlink != 0 {
		info, err := r.p.Stat(name)
		if !r.follow || err != nil {
			return
		}
		if mode = info.Mode(); mode.IsDir() && r.isLoop(name) {
			return
		}
	}
	base := path.Base(name)
	if !r.hidden && strings.HasPrefix(base, ".") && !r.isAskedFor(name) || !r.noIgnore && rules.isIgnored(r.p, r.p.Path(name), mode.IsDir()) {
		return
	}
	switch {
	case mode.IsDir():
		if base != ".git" && !r.isExcludedByGlob(name, true) {
			r.searchTree(name, name+"/", rules, depth+1)
		}
	case mode.IsRegular() && !r.isExcludedByGlob(name, false) && r.hasWantedType(base):
		r.visitFile(name, true)
	}
}

// isAskedFor reports whether a glob of -g names a hidden file.
func (r *rgRun) isAskedFor(name string) bool {
	for _, g := range r.globs {
		if !g.negated && g.matchesFile(r.p, name, false) {
			return true
		}
	}
	return false
}

// isExcludedByGlob reports whether the globs of -g exclude a file. The last glob that matches decides:
// a negated one excludes. If none matches, the file is excluded if any glob is not negated.
func (r *rgRun) isExcludedByGlob(name string, dir bool) bool {
	asks := false
	for _, g := range slices.Backward(r.globs) {
		if (g.negated || !dir) && g.matchesFile(r.p, name, dir) {
			return g.negated
		}
		asks = asks || !g.negated
	}
	return asks && !dir
}

// hasWantedType reports whether the types of -t and -T include a file.
func (r *rgRun) hasWantedType(base string) bool {
	for _, t := range r.notType {
		if glob.Match(r.p, t, base) {
			return false
		}
	}
	for _, t := range r.types {
		if glob.Match(r.p, t, base) {
			return true
		}
	}
	return len(r.types) == 0
}
