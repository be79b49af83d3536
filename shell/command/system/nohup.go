package system

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const nohupUsage = `Usage: nohup COMMAND [ARG]...
  or:  nohup OPTION
Run COMMAND, ignoring hangup signals.

      --help     display this help and exit
`

func runNohup(p *kernel.Proc) int {
	_, args, ok := option.Parser{StopAtOperand: true}.Parse(p)
	if !ok || option.ReportMissing(p, args, 1) {
		return 125
	}
	s, err := p.Command(args)
	if err != nil {
		return reportRunFailure(p, args[0], err)
	}
	p.SetSignal(kernel.SIGHUP, kernel.Ignore)
	return p.Exec(s)
}
