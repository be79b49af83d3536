package search

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const fdUsage = `Usage: fd [OPTIONS] [PATTERN [PATH]...]
Find files whose name matches a regular expression, below the current
directory or each PATH. Hidden files and what .gitignore, .ignore and
.fdignore name are passed by. Results are sorted.

  -H, --hidden             find hidden files too
  -I, --no-ignore          don't read ignore files
  -u, --unrestricted       --no-ignore and --hidden
  -s, --case-sensitive     case matters (default: if PATTERN has a capital)
  -i, --ignore-case        case does not matter
  -g, --glob               PATTERN is a glob of the whole name
  -F, --fixed-strings      PATTERN is plain text
      --and PATTERN        a further pattern that must match
  -p, --full-path          match the absolute path, not the name
  -e, --extension EXT      files with an extension; may be repeated
  -t, --type TYPE          f(ile), d(irectory), l (symlink), x (executable),
                           e(mpty), p(ipe); may be repeated
  -E, --exclude GLOB       pass by what matches GLOB; may be repeated
  -d, --max-depth N        how deep to go; also --min-depth, --exact-depth
  -S, --size [+|-]N[UNIT]  size in b, k, m, g, ki, mi or gi
      --changed-within T   changed in the last 10min, 2h, 3d, 1week, or
                           since a date; --changed-before: not since then
  -L, --follow             follow symbolic links
      --prune              don't go into directories that match
  -a, --absolute-path      print absolute paths
  -l, --list-details       print as ls -lhd does
  -0, --print0             a NUL after each name
  -1, --max-results N      end after one result, or after N
  -q, --quiet              print nothing; status 1 if nothing is found
  -C, --base-directory D   search in D
      --search-path PATH   a path to search, without PATTERN
      --format TEXT        print TEXT with {}, {/}, {//}, {.}, {/.} replaced
  -x, --exec COMMAND       run COMMAND for each result, up to ";"; {} is the
                           path, {/} its name, {//} its directory, {.} the
                           path and {/.} the name without the extension
  -X, --exec-batch COMMAND run COMMAND once with all results
      --show-errors        report directories that can't be read
  -c, --color WHEN, -j N, --strip-cwd-prefix, --no-require-git: accepted
`

const (
	fdNoIgnore rune = 256 + iota
	fdShowErrors
	fdAnd
	fdMinDepth
	fdExactDepth
	fdWithin
	fdBefore
	fdPrune
	fdMaxResults
	fdSearchPath
	fdFormat
	fdIgnored
	fdRequireGit
)

var fdOptions = option.Parser{Options: []option.Option{
	{Short: 'H', Long: "hidden"},
	{Short: 'I', Long: "no-ignore"},
	{Long: "no-ignore-vcs", ID: fdNoIgnore},
	{Long: "no-ignore-parent", ID: fdIgnored},
	{Short: 'u', Long: "unrestricted"},
	{Short: 's', Long: "case-sensitive"},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'g', Long: "glob"},
	{Long: "regex", ID: 'r'},
	{Short: 'F', Long: "fixed-strings"},
	{Long: "and", Arg: option.Required, ID: fdAnd},
	{Short: 'p', Long: "full-path"},
	{Short: 'e', Long: "extension", Arg: option.Required},
	{Short: 't', Long: "type", Arg: option.Required},
	{Short: 'E', Long: "exclude", Arg: option.Required},
	{Short: 'd', Long: "max-depth", Arg: option.Required},
	{Long: "maxdepth", Arg: option.Required, ID: 'd'},
	{Long: "min-depth", Arg: option.Required, ID: fdMinDepth},
	{Long: "exact-depth", Arg: option.Required, ID: fdExactDepth},
	{Short: 'S', Long: "size", Arg: option.Required},
	{Long: "changed-within", Arg: option.Required, ID: fdWithin},
	{Long: "newer", Arg: option.Required, ID: fdWithin},
	{Long: "change-newer-than", Arg: option.Required, ID: fdWithin},
	{Long: "changed-before", Arg: option.Required, ID: fdBefore},
	{Long: "older", Arg: option.Required, ID: fdBefore},
	{Short: 'L', Long: "follow"},
	{Long: "prune", ID: fdPrune},
	{Short: 'a', Long: "absolute-path"},
	{Short: 'l', Long: "list-details"},
	{Short: '0', Long: "print0"},
	{Short: '1'},
	{Long: "max-results", Arg: option.Required, ID: fdMaxResults},
	{Short: 'q', Long: "quiet"},
	{Long: "has-results", ID: 'q'},
	{Short: 'C', Long: "base-directory", Arg: option.Required},
	{Long: "search-path", Arg: option.Required, ID: fdSearchPath},
	{Long: "format", Arg: option.Required, ID: fdFormat},
	{Short: 'c', Long: "color", Arg: option.Required},
	{Short: 'j', Long: "threads", Arg: option.Required},
	{Long: "strip-cwd-prefix", Arg: option.Optional, ID: fdIgnored},
	{Long: "no-require-git", ID: fdRequireGit},
	{Long: "one-file-system", ID: fdIgnored},
	{Long: "show-errors", ID: fdShowErrors},
	{Short: 'V', Long: "version"},
	{Short: 'h', Long: "help"},
}}

// fdRun is the state of one run of fd.
type fdRun struct {
	p                                                   *kernel.Proc
	hidden, noIgnore, noVCS, follow, absolute, fullPath bool
	quiet, print0, details, prune, anyGit, showErrors   bool
	globs, fixed                                        bool
	fold                                                int // 0: smart, 1: ignore case, -1: case matters
	minDepth, maxDepth                                  int // maxDepth -1: any
	limit                                               int // of results; 0: any
	patterns                                            []string
	match                                               []*regex.Regexp
	extensions, types, paths                            []string
	excluded                                            []ignoreRule
	sizes                                               []fdSize
	after, before                                       time.Time
	format                                              *string
	command                                             []string
	batch                                               bool

	base    string // of -C
	found   int
	results []string // for -X and -l
	status  int

	badStatus int // of a wrong option
}

// fdSize is a condition of --size: at least (+), at most (-), or exactly.
type fdSize struct {
	sign byte
	n    int64
}

func runFd(p *kernel.Proc) int {
	r := &fdRun{p: p, maxDepth: -1, badStatus: 2}
	args, ok := r.takeCommand(p.Args[1:])
	if !ok {
		return 2
	}
	p.Args = append([]string{p.Args[0]}, args...)
	opts, operands, ok := fdOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		switch o.Key {
		case 'V':
			_, _ = p.Out().WriteString("fd 10.2.0 (atoll)\n") // Flush reports the error
			return 0
		case 'h':
			_, _ = p.Out().WriteString(fdUsage) // likewise
			return 0
		}
		if !r.applyOption(o) {
			return r.badStatus
		}
	}
	if len(operands) > 0 {
		r.patterns, operands = append(r.patterns, operands[0]), operands[1:]
	}
	r.paths = append(r.paths, operands...)
	if r.base != "" {
		if err := p.Chdir(r.base); err != nil {
			return r.fail("The '--base-directory' path " + quoting.QuoteWord(r.base) + " is not a directory.")
		}
	}
	if !r.compilePatterns() {
		return 1
	}
	r.searchPaths()
	r.runBatch()
	if r.quiet && r.found == 0 {
		return 1
	}
	return r.status
}

// warn prints an error that does not change the status.
func (r *fdRun) warn(text string) {
	_, _ = r.p.Stderr.WriteString("[fd error]: " + text + "\n") // best effort
}

func (r *fdRun) fail(text string) int {
	r.warn(text)
	r.status = 1
	return 1
}

// takeCommand removes the command of -x or -X from the arguments.
func (r *fdRun) takeCommand(args []string) ([]string, bool) {
	at := slices.IndexFunc(args, func(a string) bool {
		return a == "-x" || a == "--exec" || a == "-X" || a == "--exec-batch" || strings.HasPrefix(a, "--exec=") || a == "--"
	})
	if at < 0 || args[at] == "--" {
		return args, true
	}
	r.batch = args[at] == "-X" || args[at] == "--exec-batch"
	rest := args[at+1:]
	if _, value, ok := strings.Cut(args[at], "="); ok {
		rest = append([]string{value}, rest...)
	}
	end := slices.Index(rest, ";")
	after := []string{}
	if end >= 0 {
		rest, after = rest[:end], rest[end+1:]
	}
	if len(rest) == 0 {
		r.fail("a command is missing after " + args[at])
		return nil, false
	}
	if !slices.ContainsFunc(rest, hasPlaceholder) {
		rest = append(slices.Clip(rest), "{}")
	}
	r.command = rest
	return append(slices.Clone(args[:at]), after...), true
}

func (r *fdRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'H':
		r.hidden = true
	case 'I':
		r.noIgnore = true
	case fdNoIgnore:
		r.noVCS = true
	case 'u':
		r.hidden, r.noIgnore = true, true
	case 's':
		r.fold = -1
	case 'i':
		r.fold = 1
	case 'g':
		r.globs = true
	case 'r':
		r.globs = false
	case 'F':
		r.fixed = true
	case 'p':
		r.fullPath = true
	case 'L':
		r.follow = true
	case 'a':
		r.absolute = true
	case 'l':
		r.details = true
	case '0':
		r.print0 = true
	case '1':
		r.limit = 1
	case 'q':
		r.quiet, r.limit = true, 1
	case fdShowErrors:
		r.showErrors = true
	case fdPrune:
		r.prune = true
	case fdRequireGit:
		r.anyGit = true
	case 'C':
		r.base = o.Value
	case fdSearchPath:
		r.paths = append(r.paths, o.Value)
	case fdFormat:
		r.format = &o.Value
	case fdAnd:
		r.patterns = append(r.patterns, o.Value)
	default:
		return r.applyCondition(o)
	}
	return true
}

// applyCondition applies an option that files must fulfil.
func (r *fdRun) applyCondition(o option.Setting) bool {
	switch o.Key {
	case 'e':
		r.extensions = append(r.extensions, "."+strings.ToLower(strings.TrimPrefix(o.Value, ".")))
	case 't':
		kind, ok := fdTypes[o.Value]
		if !ok {
			r.fail("invalid value " + quoting.QuoteWord(o.Value) + " for '--type': f, d, l, x, e, s, p, b or c")
			return false
		}
		r.types = append(r.types, kind)
	case 'E':
		if rule, ok := newIgnoreRule(o.Value, ""); ok {
			r.excluded = append(r.excluded, rule)
		}
	case 'd', fdMinDepth, fdExactDepth, fdMaxResults:
		return r.applyNumber(o)
	case 'S':
		size, ok := parseFdSize(o.Value)
		if !ok {
			r.fail(quoting.QuoteWord(o.Value) + " is not a valid size constraint: [+|-]NUMBER UNIT, such as +10k")
			return false
		}
		r.sizes = append(r.sizes, size)
	case fdWithin, fdBefore:
		at, ok := parseFdTime(r.p.Now(), o.Value)
		if !ok {
			r.badStatus = 1
			r.fail(quoting.QuoteWord(o.Value) + " is not a valid date or duration: 10min, 2h, 3d, 2weeks, or YYYY-MM-DD [HH:MM:SS]")
			return false
		}
		if o.Key == fdWithin {
			r.after = at
		} else {
			r.before = at
		}
	}
	return true
}

func (r *fdRun) applyNumber(o option.Setting) bool {
	n, err := strconv.Atoi(o.Value)
	if err != nil || n < 0 {
		r.fail("invalid value " + quoting.QuoteWord(o.Value) + " for " + quoting.QuoteWord(o.Name) + ": a number is needed")
		return false
	}
	switch o.Key {
	case 'd':
		r.maxDepth = n
	case fdMinDepth:
		r.minDepth = n
	case fdExactDepth:
		r.minDepth, r.maxDepth = n, n
	case fdMaxResults:
		r.limit = n
	}
	return true
}

// fdTypes are the values of --type.
var fdTypes = map[string]string{
	"f": "f", "file": "f", "d": "d", "dir": "d", "directory": "d", "l": "l", "symlink": "l", "x": "x", "executable": "x", "e": "e", "empty": "e",
	"s": "s", "socket": "s", "p": "p", "pipe": "p", "b": "b", "block-device": "b", "c": "c", "char-device": "c",
}

// parseFdSize parses a condition of --size.
func parseFdSize(text string) (fdSize, bool) {
	s := fdSize{sign: '='}
	if text != "" && (text[0] == '+' || text[0] == '-') {
		s.sign, text = text[0], text[1:]
	}
	digits := strings.TrimRight(strings.ToLower(text), "bkmgti")
	unit := strings.TrimSuffix(strings.ToLower(text[len(digits):]), "b")
	factor := map[string]int64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40}[unit]
	n, err := strconv.ParseInt(digits, 10, 32)
	s.n = n * factor
	return s, err == nil && n >= 0 && factor > 0
}

// parseFdTime parses a duration before now, or a date.
func parseFdTime(now time.Time, text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	if seconds, ok := strings.CutPrefix(text, "@"); ok {
		n, err := strconv.ParseInt(seconds, 10, 64)
		return time.Unix(n, 0), err == nil
	}
	units := map[string]time.Duration{
		"s": time.Second, "sec": time.Second, "second": time.Second, "m": time.Minute, "min": time.Minute, "minute": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour,
		"d": 24 * time.Hour, "day": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 2630016 * time.Second, "M": 2630016 * time.Second, "y": 31557600 * time.Second, "year": 31557600 * time.Second,
	}
	total := time.Duration(0)
	for rest := strings.TrimSpace(text); ; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseInt(rest[:digits], 10, 32)
		if err != nil {
			return now, false
		}
		rest = strings.TrimLeft(rest[digits:], " ")
		letters := len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsLetter))
		unit, ok := units[rest[:letters]]
		if !ok {
			unit, ok = units[strings.TrimSuffix(rest[:letters], "s")]
		}
		if !ok || n > int64(100*365*24*time.Hour/unit) {
			return now, false
		}
		total += time.Duration(n) * unit
		if rest = strings.TrimLeft(rest[letters:], " "); rest == "" {
			return now.Add(-total), true
		}
	}
}

// compilePatterns compiles the patterns; globs stay text.
func (r *fdRun) compilePatterns() bool {
	for _, text := range r.patterns {
		if info, err := r.p.Stat(text); !r.fullPath && strings.Contains(text, "/") && err == nil && info.IsDir() {
			r.fail("The search pattern " + quoting.QuoteWord(text) + " contains a path-separation character ('/') and will not lead to any search results.\n\nIf you want to search for all files inside the directory, use a match-all pattern:\n\n  fd . " + quoting.QuoteWord(text) + "\n\nInstead, if you want your pattern to match the full file path, use:\n\n  fd --full-path " + quoting.QuoteWord(text))
			return false
		}
		o := regex.Options{Syntax: regex.Perl, Budget: r.p}
		if r.fixed {
			o.Syntax = regex.Fixed
		}
		if r.globs {
			continue
		}
		o.IgnoreCase = r.ignoresCase(text)
		re, err := regex.Compile(text, o)
		if err != nil {
			r.fail("the pattern " + quoting.QuoteWord(text) + " is no regular expression: " + err.Error() + "; use --fixed-strings or --glob for another one")
			return false
		}
		r.match = append(r.match, re)
	}
	return true
}

func (r *fdRun) ignoresCase(text string) bool {
	if r.fold != 0 {
		return r.fold > 0
	}
	for i, c := range text {
		if unicode.IsUpper(c) && (r.globs || r.fixed || i == 0 || text[i-1] != '\\') {
			return false
		}
	}
	return true
}

// searchPaths searches each path, or the current directory.
func (r *fdRun) searchPaths() {
	if len(r.paths) == 0 {
		r.walk(".", "", r.rulesAbove("."), 1)
		return
	}
	valid := false
	for _, name := range r.paths {
		info, err := r.p.Stat(name)
		if err != nil || !info.IsDir() {
			r.warn("Search path " + quoting.QuoteWord(name) + " is not a directory.")
			continue
		}
		valid = true
		prefix := strings.TrimRight(name, "/") + "/"
		r.walk(name, prefix, r.rulesAbove(name), 1)
	}
	if !valid {
		r.fail("No valid search paths given.")
	}
}

// rulesAbove returns the rules of the parents of a directory.
func (r *fdRun) rulesAbove(dir string) ignoreRules {
	rules := ignoreRules{own: ".fdignore", git: r.anyGit, noVCS: r.noVCS}
	if r.noIgnore {
		return rules
	}
	return rules.withParents(r.p, dir)
}

func (r *fdRun) isDone() bool { return r.limit > 0 && r.found >= r.limit }

// walk visits the files below a directory.
func (r *fdRun) walk(dir, prefix string, rules ignoreRules, depth int) {
	if r.maxDepth >= 0 && depth > r.maxDepth || depth > maxTree {
		return
	}
	entries, err := r.p.ReadDir(dir)
	if err != nil {
		if r.showErrors {
			r.warn(dir + ": " + program.Reason(err))
		}
		return
	}
	if !r.noIgnore {
		rules = rules.withDirectory(r.p, dir)
	}
	for _, e := range entries {
		if r.isDone() {
			return
		}
		r.p.Tick(1)
		r.visit(prefix+e.Name(), e.Type(), rules, depth)
	}
}

// visit reports an entry of a directory, if it is wanted, and walks into it.
func (r *fdRun) visit(name string, mode fs.FileMode, rules ignoreRules, depth int) {
	base := path.Base(name)
	if r.follow && mode&fs.ModeSymlink != 0 {
		if info, err := r.p.Stat(name); err == nil && !(info.IsDir() && r.isLoop(name)) {
			mode = info.Mode()
		}
	}
	if !r.hidden && strings.HasPrefix(base, ".") || !r.noIgnore && rules.isIgnored(r.p, r.p.Path(name), mode.IsDir()) {
		return
	}
	for _, rule := range r.excluded {
		if rule.matchesFile(r.p, name, mode.IsDir()) {
			return
		}
	}
	wanted := depth >= r.minDepth && r.isWanted(name, mode)
	if wanted {
		r.report(name, mode)
	}
	if mode.IsDir() && !(wanted && r.prune) {
		r.walk(name, name+"/", rules, depth+1)
	}
}

// isLoop reports whether a link leads to a directory above it.
func (r *fdRun) isLoop(name string) bool {
	target, err := r.p.Resolve(name)
	at, err2 := r.p.Resolve(path.Dir(name))
	return err != nil || err2 != nil || strings.HasPrefix(at+"/", strings.TrimSuffix(target, "/")+"/")
}

// isWanted reports whether a file fulfils the conditions.
func (r *fdRun) isWanted(name string, mode fs.FileMode) bool {
	text := path.Base(name)
	if r.fullPath {
		text = r.p.Path(name)
	}
	for _, re := range r.match {
		if !re.Match([]byte(text), 0, nil, r.p) {
			return false
		}
	}
	if r.globs && !r.matchesGlobs(text) {
		return false
	}
	if len(r.extensions) > 0 {
		lower := strings.ToLower(path.Base(name))
		if !slices.ContainsFunc(r.extensions, func(e string) bool { return strings.HasSuffix(lower, e) && len(lower) > len(e) }) {
			return false
		}
	}
	return r.hasType(name, mode) && r.hasSizeAndTime(name, mode)
}

func (r *fdRun) matchesGlobs(text string) bool {
	for _, pattern := range r.patterns {
		subject := text
		if r.ignoresCase(pattern) {
			pattern, subject = strings.ToLower(pattern), strings.ToLower(subject)
		}
		var ok bool
		if r.fullPath {
			ok = matchSegments(r.p, strings.Split(strings.TrimPrefix(pattern, "/"), "/"), strings.Split(strings.TrimPrefix(subject, "/"), "/"))
		} else {
			ok = slices.ContainsFunc(expandBraces(pattern), func(pat string) bool { return glob.Match(r.p, pat, subject) })
		}
		if !ok {
			return false
		}
	}
	return true
}

// hasType reports whether a file has one of the types; x and e restrict the others.
func (r *fdRun) hasType(name string, mode fs.FileMode) bool {
	if len(r.types) == 0 {
		return true
	}
	kinds, ok := 0, false
	for _, t := range r.types {
		switch t {
		case "f":
			kinds, ok = kinds+1, ok || mode.IsRegular()
		case "d":
			kinds, ok = kinds+1, ok || mode.IsDir()
		case "l":
			kinds, ok = kinds+1, ok || mode&fs.ModeSymlink != 0
		case "s":
			kinds, ok = kinds+1, ok || mode&fs.ModeSocket != 0
		case "p":
			kinds, ok = kinds+1, ok || mode&fs.ModeNamedPipe != 0
		case "c":
			kinds, ok = kinds+1, ok || mode&fs.ModeCharDevice != 0
		case "b":
			kinds, ok = kinds+1, ok || mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
		}
	}
	if kinds > 0 && !ok {
		return false
	}
	if slices.Contains(r.types, "x") {
		info, err := r.p.Lstat(name)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return !slices.Contains(r.types, "e") || r.isEmpty(name, mode)
}

func (r *fdRun) isEmpty(name string, mode fs.FileMode) bool {
	if mode.IsDir() {
		list, err := r.p.ReadDir(name)
		return err == nil && len(list) == 0
	}
	info, err := r.p.Lstat(name)
	return err == nil && mode.IsRegular() && info.Size() == 0
}

func (r *fdRun) hasSizeAndTime(name string, mode fs.FileMode) bool {
	if len(r.sizes) == 0 && r.after.IsZero() && r.before.IsZero() {
		return true
	}
	info, err := r.p.Lstat(name)
	if err != nil || len(r.sizes) > 0 && !mode.IsRegular() {
		return false
	}
	for _, s := range r.sizes {
		n := info.Size()
		if s.sign == '+' && n < s.n || s.sign == '-' && n > s.n || s.sign == '=' && n != s.n {
			return false
		}
	}
	return (r.after.IsZero() || info.ModTime().After(r.after)) && (r.before.IsZero() || info.ModTime().Before(r.before))
}
