package command

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
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

var rgOptions = parsing{options: []option{
	{short: 'e', long: "regexp", arg: required}, {short: 'f', long: "file", arg: required}, {short: 'F', long: "fixed-strings"}, {short: 'i', long: "ignore-case"}, {short: 'S', long: "smart-case"},
	{short: 's', long: "case-sensitive"}, {short: 'w', long: "word-regexp"}, {short: 'x', long: "line-regexp"}, {short: 'v', long: "invert-match"}, {short: 'n', long: "line-number"}, {short: 'N', long: "no-line-number"},
	{short: 'c', long: "count"}, {short: 'l', long: "files-with-matches"}, {long: "files-without-match", id: rgFilesWithout}, {long: "files", id: rgFiles}, {short: 'o', long: "only-matching"}, {short: 'r', long: "replace", arg: required},
	{short: 'm', long: "max-count", arg: required}, {short: 'A', long: "after-context", arg: required}, {short: 'B', long: "before-context", arg: required}, {short: 'C', long: "context", arg: required}, {short: 'g', long: "glob", arg: required},
	{short: 't', long: "type", arg: required}, {short: 'T', long: "type-not", arg: required}, {short: 'd', long: "max-depth", arg: required}, {short: '.', long: "hidden", id: rgHidden}, {long: "no-ignore", id: rgNoIgnore}, {long: "no-ignore-vcs", id: rgNoIgnore},
	{short: 'u', long: "unrestricted"}, {short: 'L', long: "follow"}, {short: 'a', long: "text"}, {short: 'H', long: "with-filename"}, {short: 'I', long: "no-filename"}, {short: '0', long: "null"}, {short: 'q', long: "quiet"}, {short: 'b', long: "byte-offset"},
	{long: "color", arg: required, id: rgColor}, {long: "no-heading", id: rgIgnored}, {long: "heading", id: rgIgnored}, {long: "sort", arg: required, id: rgIgnored}, {short: 'j', long: "threads", arg: required, id: rgIgnored}, {short: 'P', long: "pcre2", id: rgIgnored},
	{long: "context-separator", arg: required, id: rgSeparator}, {long: "no-context-separator", id: rgNoSeparator}, {long: "no-messages", id: rgNoMessages}, {long: "line-buffered", id: rgIgnored}, {long: "no-config", id: rgIgnored},
}}

// rgRun is a search of a tree.
type rgRun struct {
	*grepRun
	smart   bool
	only    bool // list the files
	hidden  bool
	all     bool // read no ignore files
	depth   int  // -1: any
	globs   []ignoreRule
	types   []string // patterns of names
	notType []string
	listed  bool
}

func rg(p *kernel.Proc) int {
	g := &grepRun{p: p, refusal: 2, grepStyle: grepStyle{syntax: regex.Perl, delim: '\n', max: -1, before: -1, after: -1, separator: "--", separated: true, lenient: true}}
	r := &rgRun{grepRun: g, depth: -1}
	opts, operands, ok := rgOptions.parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if !r.option(o) {
			return 2
		}
	}
	if !g.given && !r.only {
		if len(operands) == 0 {
			p.Errorf("a pattern is missing")
			tryHelp(p)
			return 2
		}
		g.patterns, operands = operands[:1], operands[1:]
	}
	if !r.prepare() {
		return 2
	}
	g.settle()
	r.walk(operands)
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

// prepare joins the patterns and decides about case.
func (r *rgRun) prepare() bool {
	g := r.grepRun
	if r.smart {
		g.fold = strings.IndexFunc(strings.Join(g.patterns, ""), unicode.IsUpper) < 0
	}
	if r.only {
		return true
	}
	if g.syntax == regex.Perl && len(g.patterns) > 1 {
		g.patterns = []string{"(?:" + strings.Join(g.patterns, ")|(?:") + ")"}
	}
	return g.compile()
}

func (r *rgRun) option(o given) bool {
	g := r.grepRun
	switch o.key {
	case 'F':
		g.syntax = regex.Fixed
	case 'S':
		r.smart = true
	case 's':
		g.fold, r.smart = false, false
	case 'N':
		g.numbers = false
	case 'r':
		g.replace = &o.value
	case 'g':
		rule, ok := newIgnoreRule(o.value, "")
		if ok {
			r.globs = append(r.globs, rule)
		}
	case 't', 'T':
		return r.fileType(o)
	case 'd':
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 0 {
			g.p.Errorf("invalid value %s for '--max-depth'", cite(o.value))
			return false
		}
		r.depth = n
	case 'u':
		switch {
		case !r.all:
			r.all = true
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
		return g.option(o)
	case 'n', 'c', 'l', 'o', 'a', 'H', 'q', 'b':
		return g.shape(o)
	default:
		return r.rare(o)
	}
	return true
}

func (r *rgRun) rare(o given) bool {
	g := r.grepRun
	switch o.key {
	case rgFilesWithout:
		g.list = -1
	case rgFiles:
		r.only = true
	case rgHidden:
		r.hidden = true
	case rgNoIgnore:
		r.all = true
	case rgColor:
		g.color = o.value == "always" || o.value == "ansi"
	case rgSeparator, rgNoSeparator:
		g.separator, g.separated = o.value, o.key == rgSeparator
	case rgNoMessages:
		g.silent = true
	}
	return true
}

// fileType takes in a type of files.
func (r *rgRun) fileType(o given) bool {
	names, ok := rgTypes[o.value]
	if !ok {
		r.p.Errorf("unrecognized file type: %s", o.value)
		return false
	}
	if o.key == 't' {
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

// walk searches the operands, standard input when it is one, or the current
// directory.
func (r *rgRun) walk(operands []string) {
	if len(operands) == 0 {
		mode := r.p.Stdin.Mode()
		if !r.only && (mode.IsRegular() || mode&fs.ModeNamedPipe != 0) {
			r.search("-", "<stdin>", false)
			return
		}
		r.tree(".", "", r.above("."), 1)
		return
	}
	for _, name := range operands {
		if r.done() {
			return
		}
		if name == "-" {
			r.search("-", "<stdin>", len(operands) > 1)
			continue
		}
		info, err := r.p.Stat(name)
		switch {
		case err != nil:
			r.failed = true
			if !r.silent {
				r.p.Errorf("%s: %s (os error 2)", name, why(err))
			}
		case info.IsDir():
			r.tree(name, strings.TrimRight(name, "/")+"/", r.above(name), 1)
		default:
			r.visit(name, len(operands) > 1)
		}
	}
}

// visit searches or lists one file.
func (r *rgRun) visit(name string, several bool) {
	if r.only {
		r.listed = true
		end := byte('\n')
		if r.nulls {
			end = 0
		}
		_, _ = r.p.Out().WriteString(name + string(end)) // shows at the flush
		return
	}
	r.search(name, name, several)
}

// tree searches what is below a directory.
func (r *rgRun) tree(dir, prefix string, rules ignoreRules, depth int) {
	if r.depth >= 0 && depth > r.depth || depth > maxTree {
		return
	}
	entries, err := r.p.ReadDir(dir)
	if err != nil {
		r.complain(dir, err)
		return
	}
	if !r.all {
		rules = rules.in(r.p, dir)
	}
	skipBinary := r.binary
	if r.binary == binaryMessage {
		r.binary = binaryNone
	}
	for _, e := range entries {
		if r.done() {
			break
		}
		r.p.Tick(1)
		r.entry(prefix+e.Name(), e.Type(), rules, depth)
	}
	r.binary = skipBinary
}

func (r *rgRun) entry(name string, mode fs.FileMode, rules ignoreRules, depth int) {
	if mode&fs.ModeSymlink != 0 {
		info, err := r.p.Stat(name)
		if !r.follow || err != nil {
			return
		}
		if mode = info.Mode(); mode.IsDir() && r.loops(name) {
			return
		}
	}
	base := path.Base(name)
	if !r.hidden && strings.HasPrefix(base, ".") && !r.asked(name) || !r.all && rules.hit(r.p, r.p.Path(name), mode.IsDir()) {
		return
	}
	switch {
	case mode.IsDir():
		if base != ".git" && !r.excluded(name, true) {
			r.tree(name, name+"/", rules, depth+1)
		}
	case mode.IsRegular() && !r.excluded(name, false) && r.typed(base):
		r.visit(name, true)
	}
}

// asked reports whether a glob names a hidden file.
func (r *rgRun) asked(name string) bool {
	for _, g := range r.globs {
		if !g.negated && g.matches(r.p, name, false) {
			return true
		}
	}
	return false
}

// excluded reports whether the globs of -g leave a file out: the last one that
// names it decides, and where none does, whether there is one that asks for
// files. A negated one is what leaves out.
func (r *rgRun) excluded(name string, dir bool) bool {
	asks := false
	for _, g := range slices.Backward(r.globs) {
		if (g.negated || !dir) && g.matches(r.p, name, dir) {
			return g.negated
		}
		asks = asks || !g.negated
	}
	return asks && !dir
}

// typed reports whether the types of -t and -T let a file pass.
func (r *rgRun) typed(base string) bool {
	for _, t := range r.notType {
		if wildcard(r.p, t, base) {
			return false
		}
	}
	for _, t := range r.types {
		if wildcard(r.p, t, base) {
			return true
		}
	}
	return len(r.types) == 0
}
