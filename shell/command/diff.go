package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

const diffUsage = `Usage: diff [OPTION]... FILES
Compare FILES line by line.

Mandatory arguments to long options are mandatory for short options too.
      --normal                  output a normal diff (the default)
  -q, --brief                   report only when files differ
  -s, --report-identical-files  report when two files are the same
  -c, -C NUM, --context[=NUM]   output NUM (default 3) lines of copied context
  -u, -U NUM, --unified[=NUM]   output NUM (default 3) lines of unified context
  -y, --side-by-side            output in two columns
  -W, --width=NUM               output at most NUM (default 130) print columns
      --left-column             output only the left column of common lines
      --suppress-common-lines   do not output common lines

  -p, --show-c-function         show which C function each change is in
  -F, --show-function-line=RE   show the most recent line matching RE
      --label LABEL             use LABEL instead of file name and timestamp
                                  (can be repeated)

  -t, --expand-tabs             expand tabs to spaces in output
  -T, --initial-tab             make tabs line up by prepending a tab
      --tabsize=NUM             tab stops every NUM (default 8) print columns
      --suppress-blank-empty    suppress space or tab before empty output lines

  -r, --recursive                 recursively compare any subdirectories found
      --no-dereference            don't follow symbolic links
  -N, --new-file                  treat absent files as empty
      --unidirectional-new-file   treat absent first files as empty
      --ignore-file-name-case     ignore case when comparing file names
      --no-ignore-file-name-case  consider case when comparing file names
  -x, --exclude=PAT               exclude files that match PAT
  -X, --exclude-from=FILE         exclude files that match any pattern in FILE

  -i, --ignore-case               ignore case differences in file contents
  -E, --ignore-tab-expansion      ignore changes due to tab expansion
  -Z, --ignore-trailing-space     ignore white space at line end
  -b, --ignore-space-change       ignore changes in the amount of white space
  -w, --ignore-all-space          ignore all white space
  -B, --ignore-blank-lines        ignore changes where lines are all blank
  -I, --ignore-matching-lines=RE  ignore changes where all lines match RE

  -a, --text                      treat all files as text
      --strip-trailing-cr         strip trailing carriage return on input

  -d, --minimal            try hard to find a smaller set of changes
      --horizon-lines=NUM  keep NUM lines of the common prefix and suffix
      --speed-large-files  assume large files and many scattered small changes
      --color[=WHEN]       color output; WHEN is 'never', 'always', or 'auto';
                             plain --color means --color='auto'

      --help               display this help and exit
  -v, --version            output version information and exit

FILES are 'FILE1 FILE2' or 'DIR1 DIR2' or 'DIR FILE' or 'FILE DIR'.
If a FILE is '-', read standard input.
Exit status is 0 if inputs are the same, 1 if different, 2 if trouble.
`

// diffForm is how differences are shown.
type diffForm int

const (
	formUnset diffForm = iota
	formNormal
	formContext
	formUnified
	formSide
)

// diffRun is one run of diff.
type diffRun struct {
	p          *kernel.Proc
	form       diffForm
	context    int  // lines around a change; -1: the default
	explicit   bool // context was given as a number
	old        int  // -NUM
	brief      bool
	same       bool // say so when files are the same
	recurse    bool
	absent     bool // absent files are empty
	absent1    bool // absent first files are
	noFollow   bool
	text       bool
	minimal    bool
	fold       diffFold
	blank      bool // blank lines don't count
	ignore     []*regex.Regexp
	function   *regex.Regexp
	labels     []string
	exclude    []string
	width      int
	left       bool // side by side: common lines on the left only
	suppress   bool // side by side: no common lines
	expand     bool
	initial    bool // a tab before each line
	bare       bool // no blank before an empty line
	color      bool
	horizon    int
	options    []string // as they were given, for the lines above files of a tree
	conflict   bool
	badPattern bool
}

const (
	diffNormal rune = 256 + iota
	diffLabel
	diffWidthTab
	diffNoDeref
	diffUnidirectional
	diffStripCR
	diffLeft
	diffSuppress
	diffBare
	diffColor
	diffHorizon
	diffSpeed
	diffFileCase
	diffNoFileCase
)

var diffOptions = parsing{options: []option{
	{long: "normal", id: diffNormal},
	{short: 'q', long: "brief"},
	{short: 's', long: "report-identical-files"},
	{short: 'c'},
	{short: 'C', arg: required},
	{long: "context", arg: optional, id: 'C'},
	{short: 'u'},
	{short: 'U', arg: required},
	{long: "unified", arg: optional, id: 'U'},
	{short: 'y', long: "side-by-side"},
	{short: 'W', long: "width", arg: required},
	{long: "left-column", id: diffLeft},
	{long: "suppress-common-lines", id: diffSuppress},
	{short: 'p', long: "show-c-function"},
	{short: 'F', long: "show-function-line", arg: required},
	{short: 'L', long: "label", arg: required},
	{short: 't', long: "expand-tabs"},
	{short: 'T', long: "initial-tab"},
	{long: "tabsize", arg: required, id: diffWidthTab},
	{long: "suppress-blank-empty", id: diffBare},
	{short: 'r', long: "recursive"},
	{long: "no-dereference", id: diffNoDeref},
	{short: 'N', long: "new-file"},
	{short: 'P', long: "unidirectional-new-file"},
	{short: 'x', long: "exclude", arg: required},
	{short: 'X', long: "exclude-from", arg: required},
	{short: 'i', long: "ignore-case"},
	{short: 'E', long: "ignore-tab-expansion"},
	{short: 'Z', long: "ignore-trailing-space"},
	{short: 'b', long: "ignore-space-change"},
	{short: 'w', long: "ignore-all-space"},
	{short: 'B', long: "ignore-blank-lines"},
	{short: 'I', long: "ignore-matching-lines", arg: required},
	{short: 'a', long: "text"},
	{long: "strip-trailing-cr", id: diffStripCR},
	{short: 'd', long: "minimal"},
	{long: "horizon-lines", arg: required, id: diffHorizon},
	{short: 'H', long: "speed-large-files"},
	{long: "color", arg: optional, id: diffColor},
	{long: "colour", arg: optional, id: diffColor},
	{short: 'v', long: "version"},
	{short: '0', id: '0'},
	{short: '1', id: '0'},
	{short: '2', id: '0'},
	{short: '3', id: '0'},
	{short: '4', id: '0'},
	{short: '5', id: '0'},
	{short: '6', id: '0'},
	{short: '7', id: '0'},
	{short: '8', id: '0'},
	{short: '9', id: '0'},
}}

func diff(p *kernel.Proc) int {
	d := &diffRun{p: p, context: -1, old: -1, width: 130, fold: diffFold{tabWidth: 8}}
	opts, operands, ok := diffOptions.parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if o.key == 'v' {
			_, _ = p.Out().WriteString("diff (GNU diffutils) 3.8, as atoll understands it\n") // shows at the flush
			return 0
		}
		if !d.option(o) {
			if !d.badPattern {
				diffTry(p)
			}
			return 2
		}
	}
	switch {
	case d.conflict:
		p.Errorf("conflicting output style options")
		diffTry(p)
		return 2
	case len(operands) < 2:
		last := p.Name()
		if len(p.Args) > 1 {
			last = p.Args[len(p.Args)-1]
		}
		p.Errorf("missing operand after %s", cite(last))
		diffTry(p)
		return 2
	case len(operands) > 2:
		p.Errorf("extra operand %s", cite(operands[2]))
		diffTry(p)
		return 2
	}
	d.settle()
	d.options = withoutOperands(p.Args[1:], operands)
	return d.operands(operands[0], operands[1])
}

// withoutOperands returns the options among args, quoted for a shell.
func withoutOperands(args, operands []string) []string {
	var list []string
	left := len(operands)
	for i := len(args) - 1; i >= 0; i-- {
		if left > 0 && args[i] == operands[left-1] {
			left--
			continue
		}
		list = append(list, shellWord(args[i]))
	}
	slices.Reverse(list)
	return list
}

func diffTry(p *kernel.Proc) { p.Errorf("Try '%s --help' for more information.", p.Name()) }

// style chooses how differences are shown; two ways don't go together.
func (d *diffRun) style(f diffForm) {
	if d.form != formUnset && d.form != f {
		d.conflict = true
	}
	d.form = f
}

// settle completes the options that depend on each other.
func (d *diffRun) settle() {
	if d.old > d.context || d.old >= 0 && !d.explicit {
		d.context = d.old
	}
	if d.form == formUnset {
		d.form = formNormal
		if d.function != nil {
			d.form = formContext
		}
	}
	if d.context < 0 {
		d.context = 3
	}
	if d.form != formContext && d.form != formUnified {
		d.context = 0
	}
	d.horizon = max(d.horizon, d.context)
}

// option takes in one option; it says what is wrong with a value.
func (d *diffRun) option(o given) bool {
	switch o.key {
	case diffNormal:
		d.style(formNormal)
	case 'c', 'C':
		d.style(formContext)
		return d.lines(o)
	case 'u', 'U':
		d.style(formUnified)
		return d.lines(o)
	case 'y':
		d.style(formSide)
	case '0':
		d.old = min(max(d.old, 0)*10+int(o.name[1]-'0'), 1<<30)
	case 'W', diffWidthTab, diffHorizon:
		return d.number(o)
	case 'F', 'I', 'p':
		return d.pattern(o)
	case 'X':
		return d.excludeFrom(o.value)
	case 'x':
		d.exclude = append(d.exclude, o.value)
	case 'L':
		d.labels = append(d.labels, o.value)
		if len(d.labels) > 2 {
			d.p.Errorf("too many file label options")
			return false
		}
	case diffColor:
		d.color = o.value == "always" || (o.value == "auto" || o.value == "") && d.p.Stdout.IsTerminal()
	default:
		d.flag(o.key)
	}
	return true
}

// shellWord quotes a word where a shell needs it.
func shellWord(s string) string { return quoteShell.of(s, "") }

func (d *diffRun) flag(key rune) {
	switch key {
	case 'q':
		d.brief = true
	case 's':
		d.same = true
	case diffLeft:
		d.left = true
	case diffSuppress:
		d.suppress = true
	case 't':
		d.expand = true
	case 'T':
		d.initial = true
	case diffBare:
		d.bare = true
	case 'r':
		d.recurse = true
	case diffNoDeref:
		d.noFollow = true
	case 'N':
		d.absent = true
	case 'P':
		d.absent1 = true
	case 'i':
		d.fold.fold = true
	case 'E':
		d.space(spaceTabs)
	case 'Z':
		d.space(spaceTrailing)
	case 'b':
		d.space(spaceAmount)
	case 'w':
		d.space(spaceNone)
	case 'B':
		d.blank = true
	case 'a':
		d.text = true
	case diffStripCR:
		d.fold.cr = true
	case 'd':
		d.minimal = true
	}
}

// space adds to what of white space doesn't count.
func (d *diffRun) space(f spaceFold) {
	if f+d.fold.space == spaceTabs+spaceTrailing {
		f = spaceTabsTail
	}
	d.fold.space = max(d.fold.space, f)
}

// lines takes in the lines of context.
func (d *diffRun) lines(o given) bool {
	if !o.has {
		d.context = max(d.context, 3)
		return true
	}
	n, err := strconv.ParseInt(o.value, 10, 64)
	if err != nil || n < 0 {
		d.p.Errorf("invalid context length %s", cite(o.value))
		return false
	}
	d.context, d.explicit = max(d.context, int(min(n, 1<<30))), true
	return true
}

func (d *diffRun) number(o given) bool {
	n, err := strconv.ParseInt(o.value, 10, 64)
	what := map[rune]string{'W': "width", diffWidthTab: "tabsize", diffHorizon: "horizon length"}[o.key]
	if err != nil || n < 0 || n == 0 && o.key != diffHorizon {
		d.p.Errorf("invalid %s %s", what, cite(o.value))
		return false
	}
	n = min(n, 1<<30)
	switch o.key {
	case 'W':
		d.width = int(n)
	case diffWidthTab:
		d.fold.tabWidth = int(min(n, 1<<16))
	default:
		d.horizon = int(n)
	}
	return true
}

// pattern takes in a regular expression.
func (d *diffRun) pattern(o given) bool {
	text := o.value
	if o.key == 'p' {
		text = "^[[:alpha:]$_]"
	}
	re, err := regex.Compile(text, regex.Options{Dialect: regex.Grep, Budget: d.p})
	if err != nil {
		d.p.Errorf("%s: %s", text, err)
		d.badPattern = true
		return false
	}
	if o.key == 'I' {
		d.ignore = append(d.ignore, re)
	} else {
		d.function = re
	}
	return true
}

func (d *diffRun) excludeFrom(name string) bool {
	b, err := d.p.ReadFile(name)
	if err != nil {
		d.p.Errorf("%s: %s", name, why(err))
		return false
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			d.exclude = append(d.exclude, line)
		}
	}
	return true
}
