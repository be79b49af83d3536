package system

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const stdbufUsage = `Usage: stdbuf OPTION... COMMAND
Run COMMAND. The buffering asked for is what commands of a sandbox do anyway.

  -i, --input=MODE   adjust standard input stream buffering
  -o, --output=MODE  adjust standard output stream buffering
  -e, --error=MODE   adjust standard error stream buffering
      --help         display this help and exit
`

func runStdbuf(p *kernel.Proc) int {
	opts, args, ok := option.Parser{StopAtOperand: true, Options: []option.Option{
		{Short: 'i', Long: "input", Arg: option.Required}, {Short: 'o', Long: "output", Arg: option.Required}, {Short: 'e', Long: "error", Arg: option.Required},
	}}.Parse(p)
	if !ok {
		return 125
	}
	for _, o := range opts {
		if _, fault := number.ParseSize(o.Value, "EGkKMPTYZ0"); o.Value != "L" && fault != number.Valid {
			p.Errorf("invalid mode %s", quoting.QuoteWord(o.Value))
			return 125
		}
		if o.Key == 'i' && o.Value == "L" {
			p.Errorf("line buffering stdin is meaningless")
			option.SuggestHelp(p)
			return 125
		}
	}
	if option.ReportMissing(p, args, 1) {
		return 125
	}
	if len(opts) == 0 {
		p.Errorf("you must specify a buffering mode option")
		option.SuggestHelp(p)
		return 125
	}
	s, err := p.Command(args)
	if err != nil {
		return reportRunFailure(p, args[0], err)
	}
	return p.Exec(s)
}
