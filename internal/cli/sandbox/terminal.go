package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/attach"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
)

func (a commands) terminalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "terminal", Aliases: []string{"term"},
		Short: "Manage persistent terminals",
		Long: `Manage persistent terminals. Any number of users can share one with 'atoll
attach'. Programs can read its screen as text and send keys.`,
		Example: `  atoll terminal new --name build box -- make
  atoll attach box build
  atoll terminal send box build 'echo hi' Enter
  atoll terminal read box build`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.terminalLs(), a.terminalNew(), a.terminalRead(), a.terminalSend(), a.terminalClose(), a.terminalRecord())
	return cmd
}

func (a commands) terminalLs() *cobra.Command {
	return &cobra.Command{
		Use:               "ls SANDBOX",
		Example:           "  atoll terminal ls box",
		Short:             "List the terminals of a sandbox",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := sb.ListTerminals(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"NAME", "STATE", "SIZE", "CLIENTS", "ACTIVE", "COMMAND", "TITLE"}}
			for _, t := range list {
				state := "running"
				if !t.Running {
					state = "status " + strconv.Itoa(t.Code)
				}
				rows = append(rows, []string{
					t.Name, state, fmt.Sprintf("%dx%d", t.Cols, t.Rows), formatClients(t), output.FormatAgo(t.Active), output.OneLine(t.Command), output.OneLine(t.Title),
				})
			}
			return a.PrintTable(rows)
		},
	}
}

// formatClients returns the names of a terminal's clients, or their number if the guest does not report names.
func formatClients(t atoll.Terminal) string {
	names := make([]string, 0, len(t.Viewers))
	for _, v := range t.Viewers {
		name := cmp.Or(output.OneLine(v.Name), "unknown")
		if v.ReadOnly {
			name += " (watching)"
		}
		names = append(names, name)
	}
	if len(names) != t.Clients || len(names) == 0 {
		return strconv.Itoa(t.Clients)
	}
	return strings.Join(names, ", ")
}

func (a commands) terminalNew() *cobra.Command {
	var spec atoll.TerminalSpec
	var env, envFiles []string
	var attachNow bool
	var b attach.Options
	cmd := &cobra.Command{
		Use:   "new [flags] SANDBOX [-- PROGRAM [ARG...]]",
		Short: "Open a terminal with a program or a shell",
		Long: `Open a persistent terminal with a program, or a shell, and print its name. It
is closed by 'atoll terminal close', or when the program or the sandbox ends.`,
		Example:           "  atoll terminal new box\n  atoll terminal new --attach --name edit box -- vi notes.txt\n  atoll terminal new --attach --record build.cast box -- make",
		Args:              app.CheckArgCount(1, -1, "a sandbox, and a program if it is not to be a shell"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			if len(args) > 1 && strings.HasPrefix(args[1], "-") && args[1] != "--" {
				return fmt.Errorf("%w: %s: flags come before SANDBOX, and a program after --", atoll.ErrInvalid, args[1])
			}
			if b.Record != "" && !attachNow {
				return fmt.Errorf("%w: --record needs --attach; 'atoll terminal record' records without attaching", atoll.ErrInvalid)
			}
			if err := b.Check(); err != nil {
				return err
			}
			if spec.Env, err = sandboxflag.ParseEnv(env, envFiles, "--env"); err != nil {
				return err
			}
			sb, err := a.OpenSandbox(ctx, args[0])
			if err != nil {
				return err
			}
			if spec.Args = args[1:]; len(spec.Args) > 0 && spec.Args[0] == "--" {
				spec.Args = spec.Args[1:]
			}
			t, err := attach.OpenTerminal(ctx, a.App, sb, spec)
			if err != nil {
				return err
			}
			switch {
			case attachNow:
				return attach.Terminal(ctx, a.App, sb, args[0], t.Name, b)
			case a.JSON:
				return a.PrintJSON(t)
			}
			_, err = fmt.Fprintln(a.Out, t.Name)
			return err
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVarP(&spec.Name, "name", "n", "", "what it is called (default: a number)")
	cmd.Flags().BoolVarP(&attachNow, "attach", "a", false, "attach to it at once; Ctrl-P Ctrl-Q detaches")
	b.AddRecordFlag(cmd)
	cmd.Flags().StringVar(&spec.Dir, "dir", "", "working directory")
	cmd.Flags().StringVar(&spec.User, "user", "", "user that it runs as")
	cmd.Flags().Uint16Var(&spec.Rows, "rows", 0, "height until a client attaches (default 24)")
	cmd.Flags().Uint16Var(&spec.Cols, "cols", 0, "width until then (default 80)")
	cmd.Flags().IntVar(&spec.Scrollback, "scrollback", 0, "lines kept above the screen (default 2000; negative: none)")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "environment variable NAME=VALUE, or NAME to take it from here (repeatable)")
	cmd.Flags().StringArrayVar(&envFiles, "env-file", nil, "file of NAME=VALUE lines (repeatable)")
	return cmd
}

func (a commands) terminalRead() *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:               "read SANDBOX TERMINAL",
		Short:             "Print the screen of a terminal as text",
		Example:           "  atoll terminal read box build\n  atoll terminal read --history box build | grep error",
		Args:              app.CheckArgCount(2, 2, "a sandbox and a terminal"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			s, err := sb.ReadTerminal(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			if !history {
				s.Scrollback = nil
			}
			if a.JSON {
				return a.PrintJSON(s)
			}
			lines := append(s.Scrollback, s.Lines...)
			for len(lines) > 0 && lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			for _, l := range lines {
				if _, err := fmt.Fprintln(a.Out, output.Clean(l)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "the lines above the screen, too")
	return cmd
}

func (a commands) terminalSend() *cobra.Command {
	var literal bool
	cmd := &cobra.Command{
		Use:   "send [flags] SANDBOX TERMINAL [KEY...]",
		Short: "Send keys to a terminal",
		Long: `Send keys to a terminal. A KEY is text or the name of a key: Enter, Tab, Space,
Escape, Backspace, Up, Down, Left, Right, Home, End, PageUp, PageDown, Insert,
Delete, F1 to F12, C-a to C-z, M-x for Alt. Without keys, standard input is
sent.`,
		Example:           "  atoll terminal send box build 'make test' Enter\n  atoll terminal send box build C-c\n  atoll terminal send box build <keys",
		Args:              app.CheckArgCount(2, -1, "a sandbox, a terminal and keys"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var text []byte
			for _, k := range args[2:] {
				if !literal {
					k = keySequence(k)
				}
				text = append(text, k...)
			}
			if len(args) == 2 {
				if text, err = io.ReadAll(io.LimitReader(a.In, maxTyped)); err != nil {
					return err
				}
			}
			if err := sb.SendTerminal(cmd.Context(), args[1], text); err != nil {
				return err
			}
			return a.PrintChange(app.Change{Action: "sent", Kind: "terminal", ID: sb.ID(), Name: args[1]})
		},
	}
	cmd.Flags().BoolVarP(&literal, "literal", "l", false, "names of keys are text, too")
	return cmd
}

// maxTyped is how much of standard input is typed at once.
const maxTyped = 256 << 10

// keyNames maps the names of keys to the bytes that they send.
var keyNames = map[string]string{
	"Enter": "\r", "Tab": "\t", "Space": " ", "Escape": "\x1b", "Backspace": "\x7f", "Delete": "\x1b[3~", "Insert": "\x1b[2~",
	"Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D", "Home": "\x1b[H", "End": "\x1b[F", "PageUp": "\x1b[5~", "PageDown": "\x1b[6~",
	"F1": "\x1bOP", "F2": "\x1bOQ", "F3": "\x1bOR", "F4": "\x1bOS", "F5": "\x1b[15~", "F6": "\x1b[17~", "F7": "\x1b[18~", "F8": "\x1b[19~",
	"F9": "\x1b[20~", "F10": "\x1b[21~", "F11": "\x1b[23~", "F12": "\x1b[24~",
}

// keySequence returns what the key of a name sends, or the name.
func keySequence(name string) string {
	if s, ok := keyNames[name]; ok {
		return s
	}
	if len(name) == 3 && name[1] == '-' {
		switch c := name[2]; {
		case name[0] == 'C' && (c >= '@' && c <= '_' || c >= 'a' && c <= 'z'):
			return string(rune(c & 0x1f))
		case name[0] == 'M':
			return "\x1b" + name[2:]
		}
	}
	return name
}

func (a commands) terminalClose() *cobra.Command {
	return &cobra.Command{
		Use: "close SANDBOX TERMINAL...", Aliases: []string{"rm"},
		Example:           "  atoll terminal close box build",
		Short:             "Close terminals and end their programs",
		Args:              app.CheckArgCount(2, -1, "a sandbox and terminals"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args[1:] {
				err := sb.CloseTerminal(cmd.Context(), name)
				if err == nil {
					err = a.PrintChange(app.Change{Action: "closed", Kind: "terminal", Name: name})
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

func (a commands) terminalRecord() *cobra.Command {
	return &cobra.Command{
		Use:   "record SANDBOX TERMINAL",
		Short: "Record a terminal to standard output as asciicast",
		Long: `Record a terminal to standard output as asciicast (version 2), which 'asciinema
play' plays, until its program ends or Ctrl-C.`,
		Example:           "  atoll terminal record box build >build.cast",
		Args:              app.CheckArgCount(2, 2, "a sandbox and a terminal"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r := &attach.Recorder{W: a.Out}
			_, err = sb.AttachTerminal(cmd.Context(), args[1], atoll.Attachment{Stdout: r, OnResize: r.RecordSize, ReadOnly: true})
			if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
}

// completeTerminals completes sandboxes, then the terminals of the sandbox.
func (a commands) completeTerminals() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.CompleteSandboxes(0)(cmd, args, word)
		}
		return a.CompleteFrom(-1, func(ctx context.Context) ([]string, error) {
			sb, err := a.OpenSandbox(ctx, args[0])
			if err != nil {
				return nil, err
			}
			return a.terminalNames(ctx, sb)
		})(cmd, args, word)
	}
}

func (a commands) terminalNames(ctx context.Context, sb *client.Sandbox) ([]string, error) {
	list, err := sb.ListTerminals(ctx)
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names, err
}

// terminalOf returns the name of the terminal to attach to: the one in args, else the only
// one, else a new one. ok is false if there is no terminal of that name.
func (a commands) terminalOf(ctx context.Context, sb *client.Sandbox, args []string) (name string, ok bool, err error) {
	list, err := sb.ListTerminals(ctx)
	if len(args) > 0 {
		for _, t := range list {
			if t.Name == args[0] {
				return t.Name, true, nil
			}
		}
		return "", false, nil // why they can't be listed is no matter: it may be a process
	}
	if err != nil {
		return "", false, err
	}
	var running []string
	for _, t := range list {
		if t.Running {
			running = append(running, t.Name)
		}
	}
	switch len(running) {
	case 0:
		t, err := attach.OpenTerminal(ctx, a.App, sb, atoll.TerminalSpec{})
		return t.Name, true, err
	case 1:
		return running[0], true, nil
	}
	return "", false, fmt.Errorf("%w: which terminal? there are %s", atoll.ErrInvalid, strings.Join(running, ", "))
}
