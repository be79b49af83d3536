package search

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// diffForm is an output format of diff.
type diffForm int

const (
	formUnset diffForm = iota
	formNormal
	formContext
	formUnified
	formSide
)

// diffRun is the state of one run of diff.
type diffRun struct {
	p                  *kernel.Proc
	form               diffForm
	context            int  // lines of context; -1: the default
	explicit           bool // context was given as a number
	oldContext         int  // -NUM
	brief              bool
	reportSame         bool // report identical files
	recurse            bool
	absentAsEmpty      bool // absent files are empty
	absentFirstAsEmpty bool // only absent first files are
	noFollow           bool
	text               bool
	minimal            bool
	fold               diffFold
	blank              bool // ignore blank lines
	ignore             []*regex.Regexp
	function           *regex.Regexp
	labels             []string
	exclude            []string
	width              int
	left               bool // side by side: common lines on the left only
	suppress           bool // side by side: no common lines
	expand             bool
	initial            bool // a tab before each line
	bare               bool // no blank before an empty line
	color              bool
	horizon            int
	options            []string // as given, for the lines before the differences in a tree
	conflict           bool
	badPattern         bool
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

var diffOptions = option.Parser{Options: []option.Option{
	{Long: "normal", ID: diffNormal},
	{Short: 'q', Long: "brief"},
	{Short: 's', Long: "report-identical-files"},
	{Short: 'c'},
	{Short: 'C', Arg: option.Required},
	{Long: "context", Arg: option.Optional, ID: 'C'},
	{Short: 'u'},
	{Short: 'U', Arg: option.Required},
	{Long: "unified", Arg: option.Optional, ID: 'U'},
	{Short: 'y', Long: "side-by-side"},
	{Short: 'W', Long: "width", Arg: option.Required},
	{Long: "left-column", ID: diffLeft},
	{Long: "suppress-common-lines", ID: diffSuppress},
	{Short: 'p', Long: "show-c-function"},
	{Short: 'F', Long: "show-function-line", Arg: option.Required},
	{Short: 'L', Long: "label", Arg: option.Required},
	{Short: 't', Long: "expand-tabs"},
	{Short: 'T', Long: "initial-tab"},
	{Long: "tabsize", Arg: option.Required, ID: diffWidthTab},
	{Long: "suppress-blank-empty", ID: diffBare},
	{Short: 'r', Long: "recursive"},
	{Long: "no-dereference", ID: diffNoDeref},
	{Short: 'N', Long: "new-file"},
	{Short: 'P', Long: "unidirectional-new-file"},
	{Short: 'x', Long: "exclude", Arg: option.Required},
	{Short: 'X', Long: "exclude-from", Arg: option.Required},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'E', Long: "ignore-tab-expansion"},
	{Short: 'Z', Long: "ignore-trailing-space"},
	{Short: 'b', Long: "ignore-space-change"},
	{Short: 'w', Long: "ignore-all-space"},
	{Short: 'B', Long: "ignore-blank-lines"},
	{Short: 'I', Long: "ignore-matching-lines", Arg: option.Required},
	{Short: 'a', Long: "text"},
	{Long: "strip-trailing-cr", ID: diffStripCR},
	{Short: 'd', Long: "minimal"},
	{Long: "horizon-lines", Arg: option.Required, ID: diffHorizon},
	{Short: 'H', Long: "speed-large-files"},
	{Long: "color", Arg: option.Optional, ID: diffColor},
	{Long: "colour", Arg: option.Optional, ID: diffColor},
	{Short: 'v', Long: "version"},
	{Short: '0', ID: '0'},
	{Short: '1', ID: '0'},
	{Short: '2', ID: '0'},
	{Short: '3', ID: '0'},
	{Short: '4', ID: '0'},
	{Short: '5', ID: '0'},
	{Short: '6', ID: '0'},
	{Short: '7', ID: '0'},
	{Short: '8', ID: '0'},
	{Short: '9', ID: '0'},
}}

func runDiff(p *kernel.Proc) int {
	d := &diffRun{p: p, context: -1, oldContext: -1, width: 130, fold: diffFold{tabWidth: 8}}
	opts, operands, ok := diffOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if o.Key == 'v' {
			_, _ = p.Out().WriteString("diff (GNU diffutils) 3.8, as atoll understands it\n") // Flush reports the error
			return 0
		}
		if !d.applyOption(o) {
			if !d.badPattern {
				suggestDiffHelp(p)
			}
			return 2
		}
	}
	switch {
	case d.conflict:
		p.Errorf("conflicting output style options")
		suggestDiffHelp(p)
		return 2
	case len(operands) < 2:
		last := p.Name()
		if len(p.Args) > 1 {
			last = p.Args[len(p.Args)-1]
		}
		p.Errorf("missing operand after %s", quoting.QuoteWord(last))
		suggestDiffHelp(p)
		return 2
	case len(operands) > 2:
		p.Errorf("extra operand %s", quoting.QuoteWord(operands[2]))
		suggestDiffHelp(p)
		return 2
	}
	d.completeOptions()
	d.options = withoutOperands(p.Args[1:], operands)
	return d.compareOperands(operands[0], operands[1])
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

func suggestDiffHelp(p *kernel.Proc) { p.Errorf("Try '%s --help' for more information.", p.Name()) }

// chooseForm sets the output format; two different ones are a conflict.
func (d *diffRun) chooseForm(f diffForm) {
	if d.form != formUnset && d.form != f {
		d.conflict = true
	}
	d.form = f
}

// completeOptions sets the defaults of options that depend on each other.
func (d *diffRun) completeOptions() {
	if d.oldContext > d.context || d.oldContext >= 0 && !d.explicit {
		d.context = d.oldContext
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

// applyOption applies one option. It reports an invalid value and returns false.
func (d *diffRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case diffNormal:
		d.chooseForm(formNormal)
	case 'c', 'C':
		d.chooseForm(formContext)
		return d.applyContext(o)
	case 'u', 'U':
		d.chooseForm(formUnified)
		return d.applyContext(o)
	case 'y':
		d.chooseForm(formSide)
	case '0':
		d.oldContext = min(max(d.oldContext, 0)*10+int(o.Name[1]-'0'), 1<<30)
	case 'W', diffWidthTab, diffHorizon:
		return d.applyNumber(o)
	case 'F', 'I', 'p':
		return d.addPattern(o)
	case 'X':
		return d.excludeFrom(o.Value)
	case 'x':
		d.exclude = append(d.exclude, o.Value)
	case 'L':
		d.labels = append(d.labels, o.Value)
		if len(d.labels) > 2 {
			d.p.Errorf("too many file label options")
			return false
		}
	case diffColor:
		d.color = o.Value == "always" || (o.Value == "auto" || o.Value == "") && d.p.Stdout.IsTerminal()
	default:
		d.applyFlag(o.Key)
	}
	return true
}

// shellWord quotes a word if a shell needs it.
func shellWord(s string) string { return quoting.Shell.Quote(s, "") }

func (d *diffRun) applyFlag(key rune) {
	switch key {
	case 'q':
		d.brief = true
	case 's':
		d.reportSame = true
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
		d.absentAsEmpty = true
	case 'P':
		d.absentFirstAsEmpty = true
	case 'i':
		d.fold.fold = true
	case 'E':
		d.addSpaceFold(spaceTabs)
	case 'Z':
		d.addSpaceFold(spaceTrailing)
	case 'b':
		d.addSpaceFold(spaceAmount)
	case 'w':
		d.addSpaceFold(spaceNone)
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

// addSpaceFold adds a kind of white space to ignore.
func (d *diffRun) addSpaceFold(f spaceFold) {
	if f+d.fold.space == spaceTabs+spaceTrailing {
		f = spaceTabsTail
	}
	d.fold.space = max(d.fold.space, f)
}

// applyContext sets the number of lines of context.
func (d *diffRun) applyContext(o option.Setting) bool {
	if !o.HasValue {
		d.context = max(d.context, 3)
		return true
	}
	n, err := strconv.ParseInt(o.Value, 10, 64)
	if err != nil || n < 0 {
		d.p.Errorf("invalid context length %s", quoting.QuoteWord(o.Value))
		return false
	}
	d.context, d.explicit = max(d.context, int(min(n, 1<<30))), true
	return true
}

func (d *diffRun) applyNumber(o option.Setting) bool {
	n, err := strconv.ParseInt(o.Value, 10, 64)
	what := map[rune]string{'W': "width", diffWidthTab: "tabsize", diffHorizon: "horizon length"}[o.Key]
	if err != nil || n < 0 || n == 0 && o.Key != diffHorizon {
		d.p.Errorf("invalid %s %s", what, quoting.QuoteWord(o.Value))
		return false
	}
	n = min(n, 1<<30)
	switch o.Key {
	case 'W':
		d.width = int(n)
	case diffWidthTab:
		d.fold.tabWidth = int(min(n, 1<<16))
	default:
		d.horizon = int(n)
	}
	return true
}

// addPattern adds the regular expression of -I, -F or -p.
func (d *diffRun) addPattern(o option.Setting) bool {
	text := o.Value
	if o.Key == 'p' {
		text = "^[[:alpha:]$_]"
	}
	re, err := regex.Compile(text, regex.Options{Dialect: regex.Grep, Budget: d.p})
	if err != nil {
		d.p.Errorf("%s: %s", text, err)
		d.badPattern = true
		return false
	}
	if o.Key == 'I' {
		d.ignore = append(d.ignore, re)
	} else {
		d.function = re
	}
	return true
}

// excludeFrom adds the patterns in a file to those of -x.
func (d *diffRun) excludeFrom(name string) bool {
	b, err := d.p.ReadFile(name)
	if err != nil {
		d.p.Errorf("%s: %s", name, program.Reason(err))
		return false
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" {
			d.exclude = append(d.exclude, line)
		}
	}
	return true
}
