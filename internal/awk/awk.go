// Package awk runs programs of the AWK language, as GNU awk does, within
// budgets. It touches the outside only through the functions of a [Config].
package awk

import (
	"fmt"
	"io"
	"time"
)

// Budget is what a program may spend. Its methods may panic to end it.
type Budget interface {
	Tick(n int)
	Alloc(n int64)
	Free(n int64)
}

// Mode says what a command's streams are connected to.
type Mode int

// The modes of [Config.Command].
const (
	ReadFrom Mode = iota // its output is read
	WriteTo              // its input is written
	Both                 // both
)

// Stream is a file or a command that a program has open.
type Stream struct {
	R io.Reader // nil unless it is read
	W io.Writer // nil unless it is written
	// CloseWrite ends a command's input and leaves its output open.
	CloseWrite func() error
	// Close closes it; for a command, it waits and returns what [Config.System] does.
	Close func() (int, error)
}

// Config is the world that a program sees. The functions may be nil: what
// they would do then fails.
type Config struct {
	Name    string   // of the interpreter, in messages
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
	Command   func(line string, mode Mode) (*Stream, error)
	// System runs a command and returns its exit status, or 256 plus the
	// signal that ended it.
	System func(line string) int
	Now    func() time.Time
	Zone   *time.Location
	PID    int
	PPID   int
	Budget Budget // nil: unlimited
}

// exitStatus is how Run ends a program from wherever it is.
type unwindKind uint8

const (
	running unwindKind = iota
	exiting            // by exit, or by a fatal error
	leaving            // by next or nextfile in a function
)

// Run runs the program and returns its exit status. A program may be run once.
func (p *Program) Run(c *Config) (status int) {
	in := newInterp(p, c)
	if !in.guard(func() { in.start() }) {
		return in.finish()
	}
	if in.guard(in.begin) && in.hasInput {
		in.guard(in.mainLoop)
	}
	if !in.fataled {
		in.exitNow = false
		in.guard(in.end)
	}
	return in.finish()
}

// guard runs f until it returns or the program exits. It reports whether f
// returned. Only the panics of this package are recovered.
func (in *interp) guard(f func()) (returned bool) {
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

func (in *interp) exit() {
	in.unwinding = exiting
	panic(exiting)
}

// fatal ends the program with a message.
func (in *interp) fatal(line int, format string, a ...any) {
	in.fataled = true
	in.status = 2
	in.message(line, "fatal: "+format, a...)
	in.exit()
}

func (in *interp) warning(line int, format string, a ...any) {
	in.message(line, "warning: "+format, a...)
}

// message writes a message with its place in the program and in the input.
func (in *interp) message(line int, format string, a ...any) {
	in.flushAll()
	msg := in.cfg.Name + ": "
	if line > 0 {
		msg += fmt.Sprintf("%s:%d: ", in.where, line)
		if in.fnr > 0 {
			msg += fmt.Sprintf("(FILENAME=%s FNR=%s) ", in.filename(), formatInt(in.fnr))
		}
	}
	in.writeErr(msg + fmt.Sprintf(format, a...) + "\n")
}

func (in *interp) writeErr(s string) {
	if in.cfg.Stderr != nil {
		_, _ = io.WriteString(in.cfg.Stderr, s) // nobody to tell
	}
}

func tick(b Budget, n int) {
	if b != nil {
		b.Tick(n)
	}
}
