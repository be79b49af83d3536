// Package command holds the programs of a virtual sandbox, one file each.
// They know nothing but the kernel they run on.
package command

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// Command is a virtual program.
type Command struct {
	Name    string
	Aliases []string // other names that it runs by
	Short   string   // one line: what it does, for help
	Usage   string   // what --help prints, from "Usage: " on, with the options
	Run     kernel.Program
}

// All returns every command, in the order of their families.
func All() []Command {
	var all []Command
	all = append(all, textCommands()...)
	all = append(all, fileCommands()...)
	all = append(all, searchCommands()...)
	all = append(all, dataCommands()...)
	all = append(all, systemCommands()...)
	return all
}

// Programs returns the programs of commands by each of their names.
func Programs(list []Command) map[string]kernel.Program {
	m := make(map[string]kernel.Program, 2*len(list))
	for _, c := range list {
		run := c.program()
		m[c.Name] = run
		for _, a := range c.Aliases {
			m[a] = run
		}
	}
	return m
}

// program answers --help before the command runs.
func (c Command) program() kernel.Program {
	return func(p *kernel.Proc) int {
		if len(p.Args) == 2 && p.Args[1] == "--help" {
			out := p.Out()
			_, _ = out.WriteString(c.help()) // a failing stdout shows at the flush
			return 0
		}
		return c.Run(p)
	}
}

func (c Command) help() string {
	usage := c.Usage
	if usage == "" {
		usage = "Usage: " + c.Name + " [ARG]...\n"
	}
	if usage[len(usage)-1] != '\n' {
		usage += "\n"
	}
	return usage
}
