package system

import (
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const niceUsage = `Usage: nice [OPTION] [COMMAND [ARG]...]
Run COMMAND with an adjusted niceness. With no COMMAND, print the current
niceness. All processes of a sandbox have the same.

  -n, --adjustment=N   add integer N to the niceness (default 10)
      --help           display this help and exit
`

func runNice(p *kernel.Proc) int {
	opts, args, ok := option.Parser{StopAtOperand: true, AllowDigits: true, Options: []option.Option{{Short: 'n', Long: "adjustment", Arg: option.Required}}}.Parse(p)
	if !ok {
		return 125
	}
	for _, o := range opts {
		if _, err := strconv.Atoi(o.Value); err != nil {
			p.Errorf("invalid adjustment %s", quoting.QuoteWord(o.Value))
			return 125
		}
	}
	switch {
	case len(args) > 0:
		return execCommand(p, args)
	case len(opts) > 0:
		p.Errorf("a command must be given with an adjustment")
		option.SuggestHelp(p)
		return 125
	}
	_, _ = p.Out().WriteString("0\n") // Flush reports the error
	return 0
}
