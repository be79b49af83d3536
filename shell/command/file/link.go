package file

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const linkUsage = `Usage: link FILE1 FILE2
Call the link function to create a link named FILE2 to an existing FILE1.

      --help     display this help and exit
`

func runLink(p *kernel.Proc) int {
	_, names, ok := option.Parser{}.Parse(p)
	if !ok || option.ReportMissing(p, names, 2) || option.ReportExtra(p, names, 2) {
		return 1
	}
	if err := p.Link(names[0], names[1]); err != nil {
		p.Errorf("cannot create link %s to %s: %s", quoting.QuoteName(names[1]), quoting.QuoteName(names[0]), program.Reason(err))
		return 1
	}
	return 0
}

const unlinkUsage = `Usage: unlink FILE
Call the unlink function to remove the specified FILE.

      --help     display this help and exit
`

func runUnlink(p *kernel.Proc) int {
	_, names, ok := option.Parser{}.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) || option.ReportExtra(p, names, 1) {
		return 1
	}
	if err := p.Unlink(names[0]); err != nil {
		p.Errorf("cannot unlink %s: %s", quoting.QuoteName(names[0]), program.Reason(err))
		return 1
	}
	return 0
}
