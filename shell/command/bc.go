package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const bcUsage = `usage: bc [options] [file ...]
  -h  --help         print this usage and exit
  -i  --interactive  ignored: there is no terminal
  -l  --mathlib      use the predefined math routines
  -q  --quiet        don't print initial banner
  -s  --standard     ignored
  -w  --warn         ignored
  -v  --version      print version information and exit

The files are run one after another, then standard input. Numbers have at
most 100,000 digits.
`

var bcOptions = parsing{options: []option{
	{short: 'h', long: "help"},
	{short: 'i', long: "interactive"},
	{short: 'l', long: "mathlib"},
	{short: 'q', long: "quiet"},
	{short: 's', long: "standard"},
	{short: 'w', long: "warn"},
	{short: 'v', long: "version"},
	{short: 'c', long: "compile"},
}}

func bc(p *kernel.Proc) int {
	opts, names, ok := bcOptions.parse(p)
	if !ok {
		return 1
	}
	vm := newBC(p)
	for _, o := range opts {
		switch o.key {
		case 'l':
			vm.math, vm.scale = true, 20
		case 'h':
			_, _ = p.Out().WriteString(bcUsage) // shows at the flush
			return 0
		case 'v':
			_, _ = p.Out().WriteString("bc of atoll, for the language of GNU bc 1.07.1\n")
			return 0
		}
	}
	if n, err := strconv.Atoi(p.Getenv("BC_LINE_LENGTH")); err == nil && (n == 0 || n > 2) {
		vm.width = n
	}
	for _, n := range names {
		in, err := open(p, n)
		if err != nil {
			_, _ = fmt.Fprintf(p.Stderr, "File %s is unavailable.\n", n) // nobody to tell
			return 1
		}
		done := vm.source(n, in)
		closeInput(in)
		if done {
			return 0
		}
	}
	vm.source("(standard_in)", p.Stdin)
	return 0
}

// source runs a file line by line; true means that it ended the program.
func (vm *bcVM) source(name string, in *kernel.Handle) bool {
	l := newLines(vm.p, in, '\n')
	defer l.close()
	more := func() (string, bool) {
		if l.at == l.end {
			_ = vm.p.Out().Flush() // an answer may wait for a question
		}
		line := l.next()
		return string(line), line != nil
	}
	if name == "(standard_in)" {
		vm.read = more
	}
	ps := &bcParser{lex: &bcLexer{more: more}, tick: vm.p.Tick}
	for {
		unit, err := ps.unit()
		switch {
		case errors.Is(err, errBCEnd):
			return ps.quit
		case err != nil:
			line := ps.tok.line
			var m bcMessage
			if errors.As(err, &m) {
				line = ps.lex.line
			} else if ps.is("\n") {
				line++
			}
			vm.complain(fmt.Sprintf("%s %d: %s", name, line, err))
			ps.skipLine()
			continue
		case unit.op == "define":
			vm.p.Alloc(4096)
			vm.funcs[unit.fn.name] = unit.fn
			continue
		}
		flow, err := vm.run(unit)
		vm.frames = nil
		if msg, ok := bcFault(err); ok {
			vm.complain("Runtime error (func=(main), adr=3): " + msg)
		}
		if flow == bcHalt {
			return true
		}
	}
}

func (vm *bcVM) complain(msg string) {
	_ = vm.p.Out().Flush() // what was printed comes first
	_, _ = vm.p.Stderr.WriteString(strings.TrimSuffix(msg, "\n") + "\n")
}
