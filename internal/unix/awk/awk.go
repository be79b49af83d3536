// Package awk runs programs of the AWK language, as GNU awk does, within budgets. Programs reach
// their environment only through the functions of a [Config].
package awk

import (
	"fmt"
	"io"
	"time"
)

// Budget limits the work and memory of a program. Its methods may panic to end the program.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

// Mode is the direction of a command's streams.
type Mode int

// The modes of [Config.Command].
const (
	ReadFrom Mode = iota // the program reads the command's output
	WriteTo              // the program writes the command's input
	Both                 // both
)

// Stream is a file or a command that a program has open.
type Stream struct {
	R io.Reader // nil if it isn't read
	W io.Writer // nil if it isn't written
	// CloseWrite closes a command's input and leaves its output open.
	CloseWrite func() error
	// Close closes the stream. For a command, it waits and returns the same status as
	// [Config.System].
	Close func() (int, error)
}

// Config is the environment of a program. If a function is nil, its operation fails.
type Config struct {
	Name    string   // of the interpreter, for messages
	Args    []string // operands: files and assignments
	Vars    []string // "name=value", set before BEGIN
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string
	Bytes   bool // a byte is a character; otherwise text is UTF-8

	OpenRead  func(path string) (io.ReadCloser, error)
	OpenWrite func(path string, append bool) (io.WriteCloser, error)
	IsDir     func(path string) bool
	BeginFile func(path string) // called before the first record of an input file; nil: nothing
	EndFile   func(keep bool)   // called after its last one, and at the end; keep is false after a fatal error
	Command   func(line string, mode Mode) (*Stream, error)
	// System runs a command and returns its exit status, or 256 plus the signal that killed it.
	System func(line string) int
	Now    func() time.Time
	Zone   *time.Location
	PID    int
	PPID   int
	Budget Budget // nil: unlimited
}

// unwindKind is the reason why the interpreter unwinds Go's stack by a panic.
type unwindKind uint8

const (
	running unwindKind = iota
	exiting            // by exit, or by a fatal error
	leaving            // by next or nextfile in a function
)

// Run runs the program and returns its exit status. A program can be run once.
func (p *Program) Run(c *Config) (status int) {
	in := newInterp(p, c)
	if !in.runGuarded(func() { in.start() }) {
		return in.finishRun()
	}
	if in.runGuarded(in.runBegin) && in.hasInput {
		in.runGuarded(in.runMainLoop)
	}
	in.runGuarded(in.endFile)
	if !in.hasFailed {
		in.exitNow = false
		in.runGuarded(in.runEnd)
	}
	return in.finishRun()
}

// runGuarded runs f until it returns or the program exits, and reports whether f returned. It
// recovers only panics of this package.
func (in *interp) runGuarded(f func()) (returned bool) {
	defer func() {
		if in.unwinding == exiting {
			_ = recover() // it is ours
			in.unwinding = running
			in.resetStack()
			returned = false
		}
	}()
	f()
	return true
}

// exitProgram unwinds to runGuarded.
func (in *interp) exitProgram() {
	in.unwinding = exiting
	panic(exiting)
}

// fatal prints a message and ends the program with status 2.
func (in *interp) fatal(line int, format string, a ...any) {
	in.hasFailed = true
	in.status = 2
	in.printMessage(line, "fatal: "+format, a...)
	in.exitProgram()
}

// printWarning prints a warning.
func (in *interp) printWarning(line int, format string, a ...any) {
	in.printMessage(line, "warning: "+format, a...)
}

// printMessage prints a message with its position in the program and in the input.
func (in *interp) printMessage(line int, format string, a ...any) {
	in.flushAll()
	msg := in.cfg.Name + ": "
	if line > 0 {
		msg += fmt.Sprintf("%s:%d: ", in.sourceName, line)
		if in.fnr > 0 {
			msg += fmt.Sprintf("(FILENAME=%s FNR=%s) ", in.currentFile(), formatInt(in.fnr))
		}
	}
	in.writeErr(msg + fmt.Sprintf(format, a...) + "\n")
}

// writeErr writes to standard error.
func (in *interp) writeErr(s string) {
	if in.cfg.Stderr != nil {
		_, _ = io.WriteString(in.cfg.Stderr, s) // there is no place left to report an error
	}
}

// tickBudget counts work if there is a budget.
func tickBudget(b Budget, n int) {
	if b != nil {
		b.Tick(n)
	}
}
