package command

import "github.com/atoll-sandbox/atoll/internal/kernel"

const revUsage = `Usage:
 rev [options] [<file> ...]

Reverse lines characterwise.

Options:
 -0, --zero     use a NUL as the end of a line
 -h, --help     display this help
`

var revOptions = parsing{options: []option{{short: '0', long: "zero"}, {short: 'h', long: "help"}}}

func rev(p *kernel.Proc) int {
	opts, names, ok := revOptions.parse(p)
	if !ok {
		return 1
	}
	delim := byte('\n')
	for _, o := range opts {
		switch o.key {
		case '0':
			delim = 0
		case 'h':
			_, _ = p.Out().WriteString(revUsage) // errors of Out show at its flush
			return 0
		}
	}
	code := 0
	for _, name := range operandsOr(names) {
		in, err := open(p, name)
		if err != nil {
			p.Errorf("cannot open %s: %s", name, why(err))
			code = 1
			continue
		}
		list := newLines(p, in, delim)
		for line := list.next(); line != nil; line = list.next() {
			revLine(p, line, delim)
		}
		list.close()
		closeInput(in)
	}
	return code
}

// revLine prints a line backwards, with its delimiter at the end.
func revLine(p *kernel.Proc, line []byte, delim byte) {
	out := p.Out()
	text := trimDelim(line, delim)
	p.Tick(len(text))
	for end := len(text); end > 0; {
		begin := end - 1
		for begin > 0 && end-begin < 4 && text[begin]&0xc0 == 0x80 {
			begin--
		}
		_, _ = out.Write(text[begin:end]) // errors of out show at its flush
		end = begin
	}
	_, _ = out.Write(line[len(text):])
}
