package system

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const yesUsage = `Usage: yes [STRING]...
  or:  yes OPTION
Repeatedly output a line with all specified STRING(s), or 'y'.

      --help     display this help and exit
`

func runYes(p *kernel.Proc) int {
	_, args, ok := option.NoOptions.Parse(p)
	if !ok {
		return 1
	}
	line := "y\n"
	if len(args) > 0 {
		line = strings.Join(args, " ") + "\n"
	}
	block := []byte(strings.Repeat(line, max(1, 8192/len(line))))
	p.Alloc(int64(len(block)))
	for {
		if _, err := p.Stdout.Write(block); err != nil {
			p.Errorf("standard output: %s", program.Reason(err))
			return 1
		}
	}
}
