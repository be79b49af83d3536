package atoll

import (
	"context"
	"io"
	"time"
)

// Terminals is a sandbox with terminals that stay when nobody looks at them.
type Terminals interface {
	// OpenTerminal starts a command, or a shell, on a terminal of its own.
	// A name that is taken is ErrExists.
	OpenTerminal(ctx context.Context, t TerminalSpec) (Terminal, error)
	// ListTerminals returns the terminals, oldest first; those whose command
	// has ended stay for a while.
	ListTerminals(ctx context.Context) ([]Terminal, error)
	// CloseTerminal ends what runs on a terminal and forgets it.
	CloseTerminal(ctx context.Context, name string) error
}

// TerminalUser is a sandbox whose terminals can be used.
type TerminalUser interface {
	// AttachTerminal shows the terminal's screen as it is, then what comes,
	// until its command ends (its Exit; the error is nil) or ctx is done,
	// which leaves it running. One that reads slowly gets the newest screen,
	// and never slows the command or others down.
	AttachTerminal(ctx context.Context, name string, a Attachment) (Exit, error)
	// ReadTerminal returns the screen as text.
	ReadTerminal(ctx context.Context, name string) (Screen, error)
	// SendTerminal types.
	SendTerminal(ctx context.Context, name string, input []byte) error
}

// TerminalSpec says what terminal is asked for. The zero one is a shell.
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
			errs = append(errs, mistake("name", "Name: %w", err))
		}
	}
	if t.Rows > MaxTerminalRows || t.Cols > MaxTerminalCols {
		errs = append(errs, mistake("size", "the size is %dx%d: at most %d rows of %d columns", t.Rows, t.Cols, MaxTerminalRows, MaxTerminalCols))
	}
	if t.Scrollback > MaxScrollback {
		errs = append(errs, mistake("scrollback", "Scrollback is %d: at most %d lines are kept", t.Scrollback, MaxScrollback))
	}
	args := t.Args
	if len(args) == 0 {
		args = []string{"sh"}
	}
	cmd := Cmd{Args: args, Dir: t.Dir, Env: t.Env, User: t.User}
	if err := cmd.Check(); err != nil {
		errs = append(errs, err)
	}
	return invalid(errs)
}

// The largest terminal, and the most lines above its screen.
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
	Size              // of the smallest that is attached and may type
	Clients int       `json:"clients"` // attached
	Running bool      `json:"running"`
	Code    int       `json:"code"` // once it has ended
	Created time.Time `json:"created"`
	Active  time.Time `json:"active"` // last output or input
}

// Attachment is one client of a terminal.
type Attachment struct {
	Stdin  io.Reader   // what is typed; nil: nothing
	Stdout io.Writer   // what the terminal shows; must not be nil
	Size               // of this client's window; 0: it takes the terminal's
	Resize <-chan Size // sizes that it takes on later; nil: none

	ReadOnly bool // Stdin is not read, and the size does not count
	History  bool // the lines above the screen are shown too, in place of those that the window has

	// Sized, when not nil, is told the terminal's size before anything is shown,
	// and when it changes: the window then takes it on. Without it, a window of
	// another size gets as much of the screen as fits.
	Sized func(Size)
}

// Screen is what a terminal shows.
type Screen struct {
	Lines      []string `json:"lines"` // without the blanks at their ends
	Scrollback []string `json:"scrollback,omitempty"`
	Row        int      `json:"row"` // of the cursor, from 0
	Col        int      `json:"col"`
	Title      string   `json:"title,omitempty"`
	Alternate  bool     `json:"alternate,omitempty"` // a full-screen program's screen
	Size
}
