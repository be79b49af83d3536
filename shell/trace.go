package shell

import (
	"io"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// printTrace prints a line of set -x.
func (in *interp) printTrace(text string) {
	ps4, set := in.get("PS4")
	if !set {
		ps4 = ""
	}
	in.opts &^= optXtrace // expanding PS4 is not traced
	status := in.status
	prompt := in.expandText(ps4)
	in.status = status
	in.opts |= optXtrace
	if prompt != "" {
		first := prompt[:1]
		for i := range prompt {
			if i > 0 {
				first = prompt[:i]
				break
			}
		}
		prompt = strings.Repeat(first, in.indent) + prompt
	}
	in.chargeScratch(len(prompt) + len(text) + 1)
	line := prompt + text + "\n"
	if fd, ok := in.get("BASH_XTRACEFD"); ok {
		if n, valid := parseNumber(fd); valid && in.p.FD(n) != nil {
			_, _ = io.WriteString(in.p.Handle(n), line) // a lost trace line is no error
			return
		}
	}
	in.writeStderr(line)
}

// traceArgs prints the words of a simple command for set -x.
func (in *interp) traceArgs(args []string) {
	s := in.beginScratch()
	defer in.endScratch(s)
	in.chargeScratch(16 * len(args))
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = in.quoteLong(quoteWord, a)
	}
	in.printTrace(in.joinScratch(words, " "))
}
