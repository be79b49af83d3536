package system

import (
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const manUsage = `Usage: man [OPTION]... [SECTION] PAGE...
Print what the --help of a command prints: a sandbox has no manual.

  -f, -k         list the commands whose name or purpose holds a word
      --help     display this help and exit
`

// newManProgram returns the program of man, which prints the help of the commands that all returns.
func newManProgram(all func() []program.Command) kernel.Program {
	return func(p *kernel.Proc) int { return printManual(p, all) }
}

func printManual(p *kernel.Proc, all func() []program.Command) int {
	opts, args, ok := option.Parser{StopAtOperand: true, Options: []option.Option{{Short: 'f'}, {Short: 'k'}, {Short: 'a'}, {Short: 'P', Arg: option.Required}, {Short: 'w'}}}.Parse(p)
	if !ok {
		return 2
	}
	if len(args) > 1 && strings.Trim(args[0], "0123456789npl") == "" {
		args = args[1:]
	}
	if len(args) == 0 {
		_, _ = p.Stderr.WriteString("What manual page do you want?\nFor example, try 'man man'.\n") // best effort
		return 1
	}
	show := manPage
	if len(opts) > 0 {
		switch opts[0].Key {
		case 'f':
			show = func(c program.Command, a string) string { return manLine(c, c.Name == a) }
		case 'k':
			show = func(c program.Command, a string) string { return manLine(c, strings.Contains(c.Name+" "+c.Short, a)) }
		}
	}
	code := 0
	for _, a := range args {
		text := ""
		for _, c := range all() {
			text += show(c, a)
		}
		_, _ = p.Out().WriteString(text) // Flush reports the error
		if text == "" {
			_, _ = p.Stderr.WriteString("No manual entry for " + a + "\n")
			code = 16
		}
	}
	return code
}

// manPage returns the manual of a command if it has that name, else "".
func manPage(c program.Command, name string) string {
	if c.Name != name && !slices.Contains(c.Aliases, name) {
		return ""
	}
	return c.Name + " - " + c.Short + "\n\n" + c.Help()
}

func manLine(c program.Command, hit bool) string {
	if !hit {
		return ""
	}
	return c.Name + " (1) - " + c.Short + "\n"
}
