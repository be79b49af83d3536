package atoll

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Cmd is a command to run in a sandbox. It is used like exec.Cmd.
// Exactly one of Args and Shell is set.
type Cmd struct {
	// ID names the command for a CommandResumer. Empty: only this call can have it. Other sandboxes
	// ignore it.
	ID string

	Args  []string // the program and its arguments, executed as given
	Shell string   // text for sh -c

	// Session runs Shell in the sandbox's persistent shell: the directory, variables,
	// functions and options that it sets stay for the next such command. Drivers without
	// Features.Session refuse it.
	Session bool

	// Internal marks a command of atoll itself, such as git of a sync. Lists of commands leave it out unless they are
	// asked for it.
	Internal bool

	Dir  string   // working directory; empty: the sandbox's
	Env  []string // "K=V", added to the sandbox's environment; the last value of a name wins
	User string   // empty: the sandbox's

	Stdin  io.Reader // nil: empty
	Stdout io.Writer // nil: kept in Exit.Stdout, up to MaxOutput
	Stderr io.Writer // nil: kept in Exit.Stderr, up to MaxOutput

	// TTY, when not nil, runs the command on a terminal: its output and its errors go to
	// Stdout. Drivers without Features.TTY refuse it.
	TTY *TTY

	// Signals are sent to the command as they arrive: "INT", "TERM", "KILL"… With a TTY they
	// go to the foreground process group. Nil: none. Drivers without Features.Signals refuse it.
	Signals <-chan string

	Timeout   time.Duration // 0: the sandbox's default; negative: only the context's deadline counts
	MaxOutput int64         // bytes kept of each stream; 0: DefaultMaxOutput
}

// TTY is the terminal of a command.
type TTY struct {
	Size
	Resize <-chan Size // later window sizes; nil: none
}

// Size is the size of a terminal in characters. 0 means 24 rows and 80 columns.
type Size struct {
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
}

// DefaultMaxOutput is the number of bytes of each output stream that an Exit keeps.
const DefaultMaxOutput = 10 << 20

// Exit is the result of a command.
type Exit struct {
	Code      int           // 0-255; 126 not executable, 127 not found, 128+n killed by signal n
	Signal    string        // "KILL", "PIPE"… if a signal killed it
	Stdout    []byte        // if Cmd.Stdout was nil
	Stderr    []byte        // if Cmd.Stderr was nil
	Truncated bool          // output past MaxOutput was dropped
	Duration  time.Duration // from start to end
}

// Success reports whether the exit status is 0.
func (e Exit) Success() bool { return e.Code == 0 }

// Check reports every mistake in the command at once, as an error that
// matches ErrInvalid. Drivers call it first.
func (c *Cmd) Check() error {
	var errs []error
	bad := func(field, format string, a ...any) { errs = append(errs, newFieldError(field, format, a...)) }
	switch {
	case len(c.Args) == 0 && c.Shell == "":
		bad("args", "one of Args and Shell must be set")
	case len(c.Args) > 0 && c.Shell != "":
		bad("args", "only one of Args and Shell may be set")
	case c.Shell == "" && c.Args[0] == "":
		bad("args[0]", "Args[0] is empty: it names the program")
	}
	if c.Session && c.Shell == "" {
		bad("session", "Session takes Shell, not Args")
	}
	if c.Session && c.TTY != nil {
		bad("session", "Session has no TTY: run a shell on one instead")
	}
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			bad(fmt.Sprintf("args[%d]", i), "Args[%d] holds a NUL byte, which no program can be given", i)
		}
	}
	if strings.IndexByte(c.Shell, 0) >= 0 {
		bad("shell", "Shell holds a NUL byte, which no shell can be given")
	}
	if err := checkEnvSize("env", c.Env, nil); err != nil {
		return joinInvalid(append(errs, err))
	}
	for i, e := range c.Env {
		if k, _, ok := strings.Cut(e, "="); !ok || k == "" || strings.IndexByte(e, 0) >= 0 {
			bad(fmt.Sprintf("env[%d]", i), "Env[%d] is %q: it must be NAME=VALUE without NUL bytes", i, e)
		}
	}
	if c.Dir != "" && !strings.HasPrefix(c.Dir, "/") {
		bad("dir", "Dir is %q: it must be absolute", c.Dir)
	}
	if c.MaxOutput < 0 {
		bad("max_output", "MaxOutput is %d: it must not be negative", c.MaxOutput)
	}
	return joinInvalid(errs)
}

// joinInvalid joins problems to one error that matches ErrInvalid. It returns nil for none.
func joinInvalid(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
}
