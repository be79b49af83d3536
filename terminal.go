package atoll

import (
	"context"
	"io"
	"time"
)

// Terminals is a sandbox with persistent terminals, which stay without attached clients.
type Terminals interface {
	// OpenTerminal starts a command, or a shell, on a new terminal. A name that is in use is
	// ErrExists.
	OpenTerminal(ctx context.Context, t TerminalSpec) (Terminal, error)
	// ListTerminals returns the terminals, oldest first. A terminal whose command has ended
	// stays for a while.
	ListTerminals(ctx context.Context) ([]Terminal, error)
	// CloseTerminal kills the processes on a terminal and removes it.
	CloseTerminal(ctx context.Context, name string) error
}

// TerminalAttacher is a sandbox whose terminals can be attached, read and written.
type TerminalAttacher interface {
	// AttachTerminal writes the current screen of a terminal, then its output, until its
	// command ends (it returns the Exit and nil) or ctx is done, which leaves the command
	// running. A slow client gets the newest screen instead of all output. It never slows
	// down the command or other clients.
	AttachTerminal(ctx context.Context, name string, a Attachment) (Exit, error)
	// ReadTerminal returns the screen as text.
	ReadTerminal(ctx context.Context, name string) (Screen, error)
	// SendTerminal types input on the terminal.
	SendTerminal(ctx context.Context, name string, input []byte) error
}

// TerminalSpec describes a terminal to open. The zero TerminalSpec is a shell.
type TerminalSpec struct {
	Name string   `json:"name,omitempty"` // empty: a number
	Args []string `json:"args,omitempty"` // empty: the user's shell
	Dir  string   `json:"dir,omitempty"`  // empty: the sandbox's
	Env  []string `json:"env,omitempty"`
	User string   `json:"user,omitempty"` // empty: the sandbox's
	Size
	Scrollback int `json:"scrollback,omitempty"` // lines kept above the screen; 0: 2000, negative: none
}

// Check reports every mistake at once, as an error that matches ErrInvalid.
// Drivers call it first.
func (t *TerminalSpec) Check() error {
	var errs []error
	if t.Name != "" {
		if err := CheckName(t.Name); err != nil {
			errs = append(errs, newFieldError("name", "Name: %w", err))
		}
	}
	if t.Rows > MaxTerminalRows || t.Cols > MaxTerminalCols {
		errs = append(errs, newFieldError("size", "the size is %dx%d: at most %d rows of %d columns", t.Rows, t.Cols, MaxTerminalRows, MaxTerminalCols))
	}
	if t.Scrollback > MaxScrollback {
		errs = append(errs, newFieldError("scrollback", "Scrollback is %d: at most %d lines are kept", t.Scrollback, MaxScrollback))
	}
	args := t.Args
	if len(args) == 0 {
		args = []string{"sh"}
	}
	cmd := Cmd{Args: args, Dir: t.Dir, Env: t.Env, User: t.User}
	if err := cmd.Check(); err != nil {
		errs = append(errs, err)
	}
	return joinInvalid(errs)
}

// The largest size of a terminal, and the most lines of scrollback.
const (
	MaxTerminalRows = 300
	MaxTerminalCols = 500
	MaxScrollback   = 10_000
)

// Terminal is a persistent, shared terminal.
type Terminal struct {
	Name    string    `json:"name"`
	Command string    `json:"command"` // as shell text
	Title   string    `json:"title,omitempty"`
	Size              // smallest size of the attached clients that may type
	Clients int       `json:"clients"`           // number of attached clients
	Viewers []Viewer  `json:"viewers,omitempty"` // who they are, those that came first before the others; nil for guests that do not know it
	Running bool      `json:"running"`
	Code    int       `json:"code"` // exit status, after its end
	Created time.Time `json:"created"`
	Active  time.Time `json:"active"` // last output or input
}

// Viewer is a client that is attached to a terminal. Its guest reports the name: programs inside with the guest's rights can invent names.
type Viewer struct {
	Name     string `json:"name,omitempty"` // that the server has given: the owner, and the name of the token; empty: not known
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Attachment is one client of a terminal.
type Attachment struct {
	Stdin  io.Reader   // input; nil: none
	Stdout io.Writer   // gets the terminal's output; must not be nil
	Size               // of this client's window; 0: the terminal's size
	Resize <-chan Size // later window sizes; nil: none

	Viewer   string // name of the client, for Terminal.Viewers; a server sets it to the name of its caller
	ReadOnly bool   // ignore Stdin, and ignore the size of this window
	History  bool   // write the scrollback too, which replaces that of the window

	// OnResize, when not nil, is called with the terminal's size before the first output and
	// after each change; the window then takes that size. Without it, a window of another
	// size gets the part of the screen that fits.
	OnResize func(Size)
}

// Screen is the content of a terminal.
type Screen struct {
	Lines      []string `json:"lines"` // without trailing blanks
	Scrollback []string `json:"scrollback,omitempty"`
	Row        int      `json:"row"` // of the cursor, from 0
	Col        int      `json:"col"`
	Title      string   `json:"title,omitempty"`
	Alternate  bool     `json:"alternate,omitempty"` // a full-screen program's screen
	Size
}
