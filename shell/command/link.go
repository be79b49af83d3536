package command

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const linkUsage = `Usage: link FILE1 FILE2
Call the link function to create a link named FILE2 to an existing FILE1.

      --help     display this help and exit
`

func link(p *kernel.Proc) int {
	_, names, ok := parsing{}.parse(p)
	if !ok || missing(p, names, 2) || extra(p, names, 2) {
		return 1
	}
	if err := p.Link(names[0], names[1]); err != nil {
		p.Errorf("cannot create link %s to %s: %s", quote(names[1]), quote(names[0]), why(err))
		return 1
	}
	return 0
}

const unlinkUsage = `Usage: unlink FILE
Call the unlink function to remove the specified FILE.

      --help     display this help and exit
`

func unlink(p *kernel.Proc) int {
	_, names, ok := parsing{}.parse(p)
	if !ok || missing(p, names, 1) || extra(p, names, 1) {
		return 1
	}
	if err := p.Unlink(names[0]); err != nil {
		p.Errorf("cannot unlink %s: %s", quote(names[0]), why(err))
		return 1
	}
	return 0
}
