// Package program defines a command of the shell: its names, its help and the function that runs it.
package program

import "github.com/atoll-sandbox/atoll/internal/unix/kernel"

// Command is a command of the shell.
type Command struct {
	Name    string
	Aliases []string // other names for the command
	Short   string   // one line for lists of commands
	Usage   string   // the text of --help
	Run     kernel.Program
}

// ByName returns the programs of commands by each of their names. Each program answers --help itself.
func ByName(list []Command) map[string]kernel.Program {
	m := make(map[string]kernel.Program, 2*len(list))
	for _, c := range list {
		run := c.withHelp()
		m[c.Name] = run
		for _, a := range c.Aliases {
			m[a] = run
		}
	}
	return m
}

// withHelp returns the program of a command, extended to answer --help.
func (c Command) withHelp() kernel.Program {
	return func(p *kernel.Proc) int {
		if len(p.Args) == 2 && p.Args[1] == "--help" {
			out := p.Out()
			_, _ = out.WriteString(c.Help()) // a failing stdout shows at the flush
			return 0
		}
		return c.Run(p)
	}
}

// Help returns the text that --help prints.
func (c Command) Help() string {
	usage := c.Usage
	if usage == "" {
		usage = "Usage: " + c.Name + " [ARG]...\n"
	}
	if usage[len(usage)-1] != '\n' {
		usage += "\n"
	}
	return usage
}

// Reason returns the reason of an error in the words of the GNU tools.
func Reason(err error) string { return kernel.Reason(err).Error() }

// FlushOutput extends a program to flush its standard output before it returns. If that fails, it
// reports the error, and the exit status is failure.
func FlushOutput(run kernel.Program, failure int) kernel.Program {
	return func(p *kernel.Proc) int {
		code := run(p)
		if err := p.Out().Flush(); err != nil {
			p.Errorf("write error: %s", Reason(err))
			return failure
		}
		return code
	}
}

// AddVersion extends commands to answer --version, naming the suite that they imitate.
func AddVersion(list []Command, suite string) []Command {
	for i, c := range list {
		run := c.Run
		list[i].Run = func(p *kernel.Proc) int {
			switch {
			case len(p.Args) == 2 && p.Args[1] == "--version":
				_, _ = p.Out().WriteString(p.Name() + " (atoll; as " + suite + "\n") // shows at the flush
			case asksForHelp(p.Args[1:]):
				_, _ = p.Out().WriteString(c.Help()) // likewise
			default:
				return run(p)
			}
			return 0
		}
	}
	return list
}

// asksForHelp reports whether --help is among the options.
func asksForHelp(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--help" {
			return true
		}
	}
	return false
}
