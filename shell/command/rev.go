package command

import (
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const revUsage = `Usage: rev [OPTION]... [FILE]...
Reverse the characters of each line.

      --help   display this help and exit
`

func rev(p *kernel.Proc) int {
	_, names, ok := parsing{}.parse(p)
	if !ok {
		return 1
	}
	out := p.Out()
	return overLines(p, names, func(line []byte, ended bool) {
		for len(line) > 0 {
			_, n := utf8.DecodeLastRune(line)
			_, _ = out.Write(line[len(line)-n:]) // shows at the flush
			line = line[:len(line)-n]
		}
		if ended {
			_ = out.WriteByte('\n') // likewise
		}
	})
}
