package system

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const setsidUsage = `Usage: setsid [OPTION] COMMAND [ARG]...
Run COMMAND in a new process group.

  -c, --ctty     ignored: there is no terminal
  -f, --fork     run beside the caller
  -w, --wait     wait for COMMAND and return its status
      --help     display this help and exit
`

func runSetsid(p *kernel.Proc) int {
	opts, args, ok := option.Parser{StopAtOperand: true, Options: []option.Option{{Short: 'c', Long: "ctty"}, {Short: 'f', Long: "fork"}, {Short: 'w', Long: "wait"}}}.Parse(p)
	if !ok {
		return 1
	}
	if len(args) == 0 {
		p.Errorf("no command specified")
		option.SuggestHelp(p)
		return 1
	}
	for _, o := range opts {
		if o.Key != 'f' {
			continue
		}
		s, err := p.Command(args)
		if err == nil {
			s.Group = -1
			_, err = p.Spawn(s)
		}
		if err != nil {
			return reportExecError(p, args[0], err)
		}
		return 0
	}
	s, err := p.Command(args)
	if err != nil {
		p.Errorf("failed to execute %s: %s", args[0], program.Reason(err))
		return runStatus(err)
	}
	p.SetGroup(0)
	return p.Exec(s)
}
