package system

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const printenvUsage = `Usage: printenv [OPTION]... [VARIABLE]...
Print the values of the specified environment VARIABLE(s).
If no VARIABLE is specified, print name and value pairs for them all.

  -0, --null     end each output line with NUL, not newline
      --help     display this help and exit
`

func runPrintenv(p *kernel.Proc) int {
	opts, names, ok := option.Parser{StopAtOperand: true, Options: []option.Option{{Short: '0', Long: "null"}}}.Parse(p)
	if !ok {
		return 2
	}
	if len(names) == 0 {
		return printVars(p, p.Env, len(opts) > 0)
	}
	code := 0
	for _, n := range names {
		v, found := p.LookupEnv(n)
		if !found {
			code = 1
			continue
		}
		printVars(p, []string{v}, len(opts) > 0)
	}
	return code
}
