package data

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
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

var bcOptions = option.Parser{Options: []option.Option{
	{Short: 'h', Long: "help"},
	{Short: 'i', Long: "interactive"},
	{Short: 'l', Long: "mathlib"},
	{Short: 'q', Long: "quiet"},
	{Short: 's', Long: "standard"},
	{Short: 'w', Long: "warn"},
	{Short: 'v', Long: "version"},
	{Short: 'c', Long: "compile"},
}}

func runBc(p *kernel.Proc) int {
	opts, names, ok := bcOptions.Parse(p)
	if !ok {
		return 1
	}
	vm := newBC(p)
	for _, o := range opts {
		switch o.Key {
		case 'l':
			vm.math, vm.scale = true, 20
		case 'h':
			_, _ = p.Out().WriteString(bcUsage) // Flush reports the error
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
		in, err := stream.Open(p, n)
		if err != nil {
			_, _ = fmt.Fprintf(p.Stderr, "File %s is unavailable.\n", n) // best effort
			return 1
		}
		done := vm.runSource(n, in)
		stream.Close(in)
		if done {
			return 0
		}
	}
	vm.runSource("(standard_in)", p.Stdin)
	return 0
}

// runSource runs a file line by line. It reports whether the file ended the program.
func (vm *bcVM) runSource(name string, in *kernel.Handle) bool {
	l := stream.NewLineReader(vm.p, in, '\n')
	defer l.Close()
	more := func() (string, bool) {
		if l.Buffered() == 0 {
			_ = vm.p.Out().Flush() // the input may depend on it
		}
		line := l.Next()
		return string(line), line != nil
	}
	if name == "(standard_in)" {
		vm.read = more
	}
	ps := &bcParser{lex: &bcLexer{more: more}, tick: vm.p.Tick}
	for {
		unit, err := ps.parseUnit()
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
			vm.reportError(fmt.Sprintf("%s %d: %s", name, line, err))
			ps.skipLine()
			continue
		case unit.op == "define":
			vm.p.Alloc(4096)
			vm.funcs[unit.fn.name] = unit.fn
			continue
		}
		flow, err := vm.run(unit)
		vm.frames = nil
		if msg, ok := faultMessage(err); ok {
			vm.reportError("Runtime error (func=(main), adr=3): " + msg)
		}
		if flow == bcHalt {
			return true
		}
	}
}

func (vm *bcVM) reportError(msg string) {
	_ = vm.p.Out().Flush() // earlier output comes first
	_, _ = vm.p.Stderr.WriteString(strings.TrimSuffix(msg, "\n") + "\n")
}
