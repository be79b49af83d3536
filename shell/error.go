package shell

import (
	"fmt"
	"io"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// where returns what begins a message: the file or $0, and the line.
func (in *interp) where() string {
	name := in.name0
	if n := len(in.frames); n > 0 {
		name = in.frames[n-1].source
	}
	switch {
	case in.program:
		return ""
	case in.person != nil && len(in.frames) == 0:
		return name + ": "
	}
	return name + ": line " + strconv.Itoa(int(in.line)) + ": "
}

// errorf writes a message to standard error, prefixed as bash does.
func (in *interp) errorf(format string, a ...any) {
	in.complain(in.where() + fmt.Sprintf(format, a...) + "\n")
}

// complain writes text to standard error, after what is waiting for standard
// output; when that can't be written there is nobody left to tell.
func (in *interp) complain(text string) {
	in.flushOut()
	_, _ = io.WriteString(in.p.Stderr, text)
}

// print writes a builtin's output and returns its status: 1, with a
// message, where standard output does not take it.
func (in *interp) print(name, text string) int {
	if text == "" {
		return 0
	}
	if _, err := io.WriteString(in.p.Stdout, text); err != nil {
		in.errorf("%s: write error: %v", name, kernel.Reason(err))
		return 1
	}
	return 0
}

// failed is called after a command whose status is not zero: it runs the
// ERR trap and obeys set -e.
func (in *interp) failed() flow {
	if in.quiet > 0 {
		return flowNext
	}
	if in.traps.err != "" {
		if f := in.runTrap(trapErr, in.traps.err); f != flowNext {
			return f
		}
	}
	if in.opt(optErrexit) {
		return flowExit
	}
	return flowNext
}

// usage complains about wrong arguments of a builtin.
func (in *interp) usage(name, problem string) int {
	if problem != "" {
		in.errorf("%s: %s", name, problem)
	}
	in.misused = true
	if b := describe(name); b != nil {
		in.complain(name + ": usage: " + b.usage + "\n")
	}
	return 2
}
