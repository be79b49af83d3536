package system

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const getoptUsage = `Usage: getopt <optstring> <parameters>
  or:  getopt [options] [--] <optstring> <parameters>
  or:  getopt [options] -o|--options <optstring> [options] [--] <parameters>
Parse command options.

  -a, --alternative             allow long options starting with single -
  -l, --longoptions <longopts>  the long options to be recognized
  -n, --name <progname>         the name under which errors are reported
  -o, --options <optstring>     the short options to be recognized
  -q, --quiet                   disable error reporting by getopt(3)
  -Q, --quiet-output            no normal output
  -s, --shell <shell>           set quoting conventions to those of <shell>
  -T, --test                    test for getopt(1) version
  -u, --unquoted                do not quote the output
      --help                    display this help and exit
`

var getoptOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'a', Long: "alternative"},
	{Short: 'l', Long: "longoptions", Arg: option.Required},
	{Long: "long", Arg: option.Required, ID: 'l'},
	{Short: 'n', Long: "name", Arg: option.Required},
	{Short: 'o', Long: "options", Arg: option.Required},
	{Short: 'q', Long: "quiet"},
	{Short: 'Q', Long: "quiet-output"},
	{Short: 's', Long: "shell", Arg: option.Required},
	{Short: 'T', Long: "test"},
	{Short: 'u', Long: "unquoted"},
}}

// getoptJob is the state of one run of getopt.
type getoptJob struct {
	p           *kernel.Proc
	name        string
	short       string
	hasShort    bool
	long        []option.Option
	alternative bool
	quiet       bool
	silent      bool
	unquoted    bool
	csh         bool
	order       byte // '+' stops at the first operand, '-' keeps operands in place
	out         []string
	code        int
}

func runGetopt(p *kernel.Proc) int {
	job := &getoptJob{p: p, name: "getopt"}
	if len(p.Args) == 1 {
		return job.rejectUsage("missing optstring argument")
	}
	args := p.Args[1:]
	if args[0] == "" || args[0][0] != '-' { // the old form: getopt has no options itself
		job.short, job.unquoted = args[0], true
		return job.run(args[1:])
	}
	opts, rest, ok := getoptOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if code, done := job.applyOption(o); done {
			return code
		}
	}
	if !job.hasShort {
		if len(rest) == 0 {
			return job.rejectUsage("missing optstring argument")
		}
		job.short, rest = rest[0], rest[1:]
	}
	return job.run(rest)
}

func (job *getoptJob) rejectUsage(msg string) int {
	job.p.Errorf("%s", msg)
	option.SuggestHelp(job.p)
	return 2
}

func (job *getoptJob) applyOption(o option.Setting) (code int, done bool) {
	switch o.Key {
	case 'a':
		job.alternative = true
	case 'l':
		for _, name := range strings.FieldsFunc(o.Value, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }) {
			arg := option.NoArgument
			switch {
			case strings.HasSuffix(name, "::"):
				arg = option.Optional
			case strings.HasSuffix(name, ":"):
				arg = option.Required
			}
			job.long = append(job.long, option.Option{Long: strings.TrimRight(name, ":"), Arg: arg})
		}
	case 'n':
		job.name = o.Value
	case 'o':
		job.short, job.hasShort = o.Value, true
	case 'q':
		job.quiet = true
	case 'Q':
		job.silent = true
	case 's':
		switch o.Value {
		case "sh", "bash":
			job.csh = false
		case "csh", "tcsh":
			job.csh = true
		default:
			return job.rejectUsage("unknown shell after -s or --shell argument"), true
		}
	case 'T':
		return 4, true
	case 'u':
		job.unquoted = true
	}
	return 0, false
}

// shortArg reports whether c is an option, and whether it takes an argument.
func (job *getoptJob) shortArg(c byte) (option.Argument, bool) {
	i := strings.IndexByte(job.short, c)
	if i < 0 || c == ':' || c == ';' {
		return option.NoArgument, false
	}
	switch rest := job.short[i+1:]; {
	case strings.HasPrefix(rest, "::"):
		return option.Optional, true
	case strings.HasPrefix(rest, ":"):
		return option.Required, true
	}
	return option.NoArgument, true
}

func (job *getoptJob) run(args []string) int {
	for job.short != "" && strings.IndexByte("+-:", job.short[0]) >= 0 {
		if job.short[0] == ':' {
			job.quiet = true
		} else {
			job.order = job.short[0]
		}
		job.short = job.short[1:]
	}
	if job.order == 0 && job.p.Getenv("POSIXLY_CORRECT") != "" {
		job.order = '+'
	}
	var operands []string
	for len(args) > 0 {
		job.p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			operands = append(operands, args...)
			args = nil
		case strings.HasPrefix(a, "--"), job.alternative && len(a) > 1 && a[0] == '-' && job.isLong(a[1:]):
			args = args[job.longOption(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), a, args):]
		case len(a) > 1 && a[0] == '-':
			args = args[job.shortOptions(a[1:], args):]
		case job.order == '+':
			operands = append(append(operands, a), args...)
			args = nil
		case job.order == '-':
			job.out = append(job.out, job.quoteWord(a))
		default:
			operands = append(operands, a)
		}
	}
	job.out = append(job.out, "--")
	for _, o := range operands {
		job.out = append(job.out, job.quoteWord(o))
	}
	if !job.silent {
		_, _ = job.p.Out().WriteString(" " + strings.Join(job.out, " ") + "\n") // Flush reports the error
	}
	return job.code
}

func (job *getoptJob) reportError(msg string) {
	job.code = 1
	if !job.quiet {
		_, _ = job.p.Stderr.WriteString(job.name + ": " + msg + "\n") // best effort
	}
}

// isLong reports whether a word after one hyphen is a long option.
func (job *getoptJob) isLong(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	for _, o := range job.long {
		if strings.HasPrefix(o.Long, name) {
			_, short := job.shortArg(word[0])
			return len(name) > 1 || !short
		}
	}
	return false
}

// longOption handles a long option and returns how many more words it used.
func (job *getoptJob) longOption(word, given string, rest []string) int {
	name, value, has := strings.Cut(word, "=")
	var hits []option.Option
	for _, o := range job.long {
		if o.Long == name {
			hits = []option.Option{o}
			break
		}
		if strings.HasPrefix(o.Long, name) {
			hits = append(hits, o)
		}
	}
	lead := given[:len(given)-len(word)]
	switch {
	case len(hits) == 0:
		job.reportError("unrecognized option '" + lead + name + "'")
		return 0
	case len(hits) > 1:
		msg := "option '" + given + "' is ambiguous; possibilities:"
		for _, o := range hits {
			msg += " '" + lead + o.Long + "'"
		}
		job.reportError(msg)
		return 0
	}
	o := hits[0]
	used := 0
	switch {
	case o.Arg == option.NoArgument && has:
		job.reportError("option '" + lead + o.Long + "' doesn't allow an argument")
		return 0
	case o.Arg == option.Required && !has && len(rest) == 0:
		job.reportError("option '" + lead + o.Long + "' requires an argument")
		return 0
	case o.Arg == option.Required && !has:
		value, used = rest[0], 1
	}
	job.out = append(job.out, "--"+o.Long)
	if o.Arg != option.NoArgument {
		job.out = append(job.out, job.quoteWord(value))
	}
	return used
}

// shortOptions handles a bundle of short options and returns how many more words it used.
func (job *getoptJob) shortOptions(bundle string, rest []string) int {
	for i := range len(bundle) {
		c := bundle[i]
		arg, ok := job.shortArg(c)
		if !ok {
			job.reportError("invalid option -- '" + string(c) + "'")
			continue
		}
		tail := bundle[i+1:]
		switch {
		case arg == option.NoArgument:
			job.out = append(job.out, "-"+string(c))
			continue
		case tail != "" || arg == option.Optional:
			job.out = append(job.out, "-"+string(c), job.quoteWord(tail))
			return 0
		case len(rest) == 0:
			job.reportError("option requires an argument -- '" + string(c) + "'")
			return 0
		}
		job.out = append(job.out, "-"+string(c), job.quoteWord(rest[0]))
		return 1
	}
	return 0
}

func (job *getoptJob) quoteWord(s string) string {
	if job.unquoted {
		return s
	}
	r := []string{"'", `'\''`}
	if job.csh {
		r = append(r, "!", `'\!'`, "\n", "'\\n'")
	}
	return "'" + strings.NewReplacer(r...).Replace(s) + "'"
}
