package shell

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// messagePrefix returns the prefix of error messages: the file or $0, and the
// line.
func (in *interp) messagePrefix() string {
	name := in.name0
	if n := len(in.frames); n > 0 {
		name = in.frames[n-1].source
	}
	switch {
	case in.program:
		return ""
	case in.interactive != nil && len(in.frames) == 0:
		return name + ": "
	}
	return name + ": line " + strconv.Itoa(int(in.line)) + ": "
}

// maxQuoted limits the words in messages, in bytes. It is above the longest argument that Linux passes to
// a program, 128 KiB.
const maxQuoted = 256 << 10

// shorten returns the beginning of a word that is too long for a message.
func shorten(word string) string {
	if len(word) <= maxQuoted {
		return word
	}
	return word[:maxQuoted] + "..."
}

// errorf prints an error message with the prefix that bash prints.
func (in *interp) errorf(format string, a ...any) {
	for i, x := range a {
		if word, ok := x.(string); ok && len(word) > maxQuoted {
			a = slices.Clone(a)
			a[i] = shorten(word)
		}
	}
	in.writeStderr(in.messagePrefix() + fmt.Sprintf(format, a...) + "\n")
}

// writeStderr writes text to standard error, after flushing standard output.
// It ignores errors: there is no other place to report them.
func (in *interp) writeStderr(text string) {
	in.flushOut()
	_, _ = io.WriteString(in.p.Stderr, text)
}

// print writes a builtin's output and returns its status: 1, with an error
// message, if standard output can't be written.
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

// handleFailure runs the ERR trap and applies set -e after a command with a
// non-zero status.
func (in *interp) handleFailure() flow {
	if in.ignoreFailure > 0 {
		return flowNext
	}
	if in.traps.err != "" {
		if f := in.runTrap(trapErr, in.traps.err); f != flowNext {
			return f
		}
	}
	if in.optOn(optErrexit) {
		return flowExit
	}
	return flowNext
}

// reportUsage prints a problem with the arguments of a builtin and its usage,
// and returns status 2.
func (in *interp) reportUsage(name, problem string) int {
	if problem != "" {
		in.errorf("%s: %s", name, problem)
	}
	in.usageError = true
	if b := findDoc(name); b != nil {
		in.writeStderr(name + ": usage: " + b.usage + "\n")
	}
	return 2
}
