package command

import "github.com/atoll-sandbox/atoll/internal/kernel"

// layoutCommands returns the commands that lay text out anew.
func layoutCommands() []Command {
	return []Command{
		{Name: "tac", Short: "print lines last to first", Usage: tacUsage, Run: flushed(tac, 1)},
		{Name: "rev", Short: "reverse the characters of each line", Usage: revUsage, Run: flushed(rev, 1)},
		{Name: "nl", Short: "number lines", Usage: nlUsage, Run: flushed(nl, 1)},
		{Name: "fold", Short: "wrap lines to a width", Usage: foldUsage, Run: flushed(fold, 1)},
		{Name: "expand", Short: "turn tabs into spaces", Usage: expandUsage, Run: flushed(expand, 1)},
		{Name: "unexpand", Short: "turn spaces into tabs", Usage: unexpandUsage, Run: flushed(unexpand, 1)},
		{Name: "fmt", Short: "fill paragraphs", Usage: fmtUsage, Run: flushed(fmtText, 1)},
	}
}

// overFiles calls f with each file opened, or standard input where there is
// none, and returns 1 if any could not be read.
func overFiles(p *kernel.Proc, names []string, f func(h *kernel.Handle) error) int {
	code := 0
	for _, name := range operandsOr(names) {
		h, err := open(p, name)
		if err == nil {
			err = f(h)
			closeInput(h)
		}
		if err != nil {
			p.Errorf("%s: %s", name, why(err))
			code = 1
		}
	}
	return code
}

// overLines calls f with each line of the files, without its newline.
func overLines(p *kernel.Proc, names []string, f func(line []byte, ended bool)) int {
	return overFiles(p, names, func(h *kernel.Handle) error {
		l := newLines(p, h, '\n')
		defer l.close()
		for line := l.next(); line != nil; line = l.next() {
			text := trimDelim(line, '\n')
			f(text, len(text) < len(line))
		}
		return l.failed()
	})
}
