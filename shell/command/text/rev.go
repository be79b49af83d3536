package text

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const revUsage = `Usage:
 rev [options] [<file> ...]

Reverse lines characterwise.

Options:
 -0, --zero     use a NUL as the end of a line
 -h, --help     display this help
`

var revOptions = option.Parser{Options: []option.Option{{Short: '0', Long: "zero"}, {Short: 'h', Long: "help"}}}

func runRev(p *kernel.Proc) int {
	opts, names, ok := revOptions.Parse(p)
	if !ok {
		return 1
	}
	delim := byte('\n')
	for _, o := range opts {
		switch o.Key {
		case '0':
			delim = 0
		case 'h':
			_, _ = p.Out().WriteString(revUsage) // Flush reports the error
			return 0
		}
	}
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		in, err := stream.Open(p, name)
		if err != nil {
			p.Errorf("cannot open %s: %s", name, program.Reason(err))
			code = 1
			continue
		}
		list := stream.NewLineReader(p, in, delim)
		for line := list.Next(); line != nil; line = list.Next() {
			reverseLine(p, line, delim)
		}
		list.Close()
		stream.Close(in)
	}
	return code
}

// reverseLine prints a line backwards, with its delimiter at the end.
func reverseLine(p *kernel.Proc, line []byte, delim byte) {
	out := p.Out()
	text := stream.TrimDelimiter(line, delim)
	p.Tick(len(text))
	for end := len(text); end > 0; {
		begin := end - 1
		for begin > 0 && end-begin < 4 && text[begin]&0xc0 == 0x80 {
			begin--
		}
		_, _ = out.Write(text[begin:end]) // Flush reports the error
		end = begin
	}
	_, _ = out.Write(line[len(text):])
}
