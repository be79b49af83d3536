package system

import (
	"errors"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const envUsage = `Usage: env [OPTION]... [-] [NAME=VALUE]... [COMMAND [ARG]...]
Set each NAME to VALUE in the environment and run COMMAND.

  -i, --ignore-environment   start with an empty environment
  -0, --null                 end each output line with NUL, not newline
  -u, --unset=NAME           remove variable from the environment
  -C, --chdir=DIR            change working directory to DIR
  -S, --split-string=S       process and split S into separate arguments
  -v, --debug                print verbose information for each step
      --help                 display this help and exit

A mere - implies -i.  If no COMMAND, print the resulting environment.
`

var envOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'i', Long: "ignore-environment"},
	{Short: '0', Long: "null"},
	{Short: 'u', Long: "unset", Arg: option.Required},
	{Short: 'C', Long: "chdir", Arg: option.Required},
	{Short: 'S', Long: "split-string", Arg: option.Required},
	{Short: 'v', Long: "debug"},
	{Long: "block-signal", Arg: option.Optional, ID: 'b'},
	{Long: "default-signal", Arg: option.Optional, ID: 'b'},
	{Long: "ignore-signal", Arg: option.Optional, ID: 'b'},
	{Long: "list-signal-handling", ID: 'b'},
}}

func runEnv(p *kernel.Proc) int {
	if !envSplit(p) {
		return 125
	}
	opts, args, ok := envOptions.Parse(p)
	if !ok {
		return 125
	}
	vars := append([]string(nil), p.Env...)
	null, dir := false, ""
	for _, o := range opts {
		if o.Key == 'i' {
			vars = nil
		}
	}
	if len(args) > 0 && args[0] == "-" {
		vars, args = nil, args[1:]
	}
	for _, o := range opts {
		switch o.Key {
		case '0':
			null = true
		case 'u':
			if o.Value == "" || strings.Contains(o.Value, "=") {
				p.Errorf("cannot unset %s: Invalid argument", quoting.QuoteWord(o.Value))
				return 125
			}
			vars = unsetVar(vars, o.Value)
		case 'C':
			dir = o.Value
		}
	}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		vars = setVar(vars, args[0])
		args = args[1:]
	}
	switch {
	case len(args) == 0 && dir != "":
		p.Errorf("must specify command with --chdir (-C)")
		option.SuggestHelp(p)
		return 125
	case len(args) == 0:
		return printVars(p, vars, null)
	case null:
		p.Errorf("cannot specify --null (-0) with command")
		option.SuggestHelp(p)
		return 125
	}
	if dir != "" {
		if err := p.Chdir(dir); err != nil {
			p.Errorf("cannot change directory to %s: %s", quoting.QuoteWord(dir), program.Reason(err))
			return 125
		}
	}
	p.Env = vars
	return execCommand(p, args)
}

func printVars(p *kernel.Proc, vars []string, null bool) int {
	end := byte('\n')
	if null {
		end = 0
	}
	for _, v := range vars {
		_, _ = p.Out().WriteString(v) // Flush reports the error
		_ = p.Out().WriteByte(end)
	}
	return 0
}

func setVar(vars []string, assignment string) []string {
	name, _, _ := strings.Cut(assignment, "=")
	for i, v := range vars {
		if strings.HasPrefix(v, name) && strings.HasPrefix(v[len(name):], "=") {
			vars[i] = assignment
			return vars
		}
	}
	return append(vars, assignment)
}

func unsetVar(vars []string, name string) []string {
	var kept []string
	for _, v := range vars {
		if !strings.HasPrefix(v, name+"=") {
			kept = append(kept, v)
		}
	}
	return kept
}

// execCommand replaces this program by another. If that fails, it reports the error and returns 127 for
// a program that was not found and 126 otherwise.
func execCommand(p *kernel.Proc, args []string) int {
	s, err := p.Command(args)
	if err != nil {
		return reportExecError(p, args[0], err)
	}
	return p.Exec(s)
}

func reportExecError(p *kernel.Proc, name string, err error) int {
	p.Errorf("%s: %s", quoting.QuoteWord(name), program.Reason(err))
	return runStatus(err)
}

// reportRunFailure is reportExecError with another message.
func reportRunFailure(p *kernel.Proc, name string, err error) int {
	p.Errorf("failed to run command %s: %s", quoting.QuoteWord(name), program.Reason(err))
	return runStatus(err)
}

// runStatus returns the exit status for a program that can't be run.
func runStatus(err error) int {
	var ce *kernel.CommandError
	if errors.As(err, &ce) {
		return ce.Code
	}
	return 126
}

// envSplit replaces a -S option by the words of its argument.
func envSplit(p *kernel.Proc) bool {
	if len(p.Args) < 2 {
		return true
	}
	text, rest, lead := "", []string(nil), []string(nil)
	switch a := p.Args[1]; {
	case (a == "-S" || a == "--split-string") && len(p.Args) > 2:
		text, rest = p.Args[2], p.Args[3:]
	case strings.HasPrefix(a, "--split-string="):
		text, rest = a[len("--split-string="):], p.Args[2:]
	case strings.HasPrefix(a, "-S") && len(a) > 2:
		text, rest = a[2:], p.Args[2:]
	case (a == "-iS" || a == "-vS") && len(p.Args) > 2:
		text, rest, lead = p.Args[2], p.Args[3:], []string{a[:2]}
	case (strings.HasPrefix(a, "-vS") || strings.HasPrefix(a, "-iS")) && len(a) > 3:
		text, rest, lead = a[3:], p.Args[2:], []string{a[:2]}
	default:
		return true
	}
	list, msg := splitString(text, p.Getenv)
	if msg != "" {
		p.Errorf("%s", msg)
		return false
	}
	p.Args = slices.Concat(p.Args[:1], lead, list, rest)
	return true
}

// splitEscape writes the character that a backslash and d stand for.
func splitEscape(w *strings.Builder, d, quote byte) bool {
	switch {
	case quote == '\'' && d != '\'' && d != '\\':
		w.WriteString(`\` + string(d))
	case d == '_':
		w.WriteByte(' ')
	case strings.IndexByte("fnrtv", d) >= 0:
		w.WriteByte("\f\n\r\t\v"[strings.IndexByte("fnrtv", d)])
	case strings.IndexByte(`#$"'\`, d) >= 0:
		w.WriteByte(d)
	default:
		return false
	}
	return true
}

// splitString splits a -S argument into words, with quotes, escapes and ${NAME}.
func splitString(s string, getenv func(string) string) (list []string, msg string) {
	var w strings.Builder
	open := false
	quote := byte(0)
	flush := func() {
		if open {
			list = append(list, w.String())
		}
		open = false
		w.Reset()
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == 0 && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			flush()
			continue
		case quote == 0 && c == '#' && !open:
			return list, ""
		case c == quote:
			quote = 0
			continue
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
			continue
		case c == '$' && quote != '\'':
			end := strings.IndexByte(s[i:], '}')
			if !strings.HasPrefix(s[i+1:], "{") || end < 0 {
				return nil, "only ${VARNAME} expansion is supported, error at: " + s[i:]
			}
			if v := getenv(s[i+2 : i+end]); v != "" {
				w.WriteString(v)
				open = true
			}
			i += end
			continue
		case c == '\\' && i+1 < len(s):
			i++
			switch d := s[i]; {
			case d == 'c' && quote == 0:
				flush()
				return list, ""
			case d == '_' && quote == 0:
				flush()
				continue
			case !splitEscape(&w, d, quote):
				return nil, "invalid sequence '\\" + string(d) + "' in -S"
			}
			open = true
			continue
		}
		w.WriteByte(c)
		open = true
	}
	if quote != 0 {
		return nil, "no terminating quote in -S string"
	}
	flush()
	return list, ""
}
