package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/vt"
)

func (a *app) terminalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "terminal", Aliases: []string{"term"},
		Short: "Terminals that stay when nobody looks at them",
		Long: `Terminals that stay when nobody looks at them. 'atoll attach' is to be before one:
any number of people, each sees the screen as it is at once. Programs read the screen
as text, and type.`,
		Example: `  atoll terminal new --name build box -- make
  atoll attach box build
  atoll terminal send box build 'echo hi' Enter
  atoll terminal read box build`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.terminalLs(), a.terminalNew(), a.terminalRead(), a.terminalSend(), a.terminalClose(), a.terminalRecord())
	return cmd
}

func (a *app) terminalLs() *cobra.Command {
	return &cobra.Command{
		Use:               "ls SANDBOX",
		Short:             "List the terminals of a sandbox",
		Args:              needArgs(1, 1, "one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := sb.ListTerminals(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(some(list))
			}
			rows := [][]string{{"NAME", "STATE", "SIZE", "CLIENTS", "ACTIVE", "COMMAND", "TITLE"}}
			for _, t := range list {
				state := "running"
				if !t.Running {
					state = "status " + strconv.Itoa(t.Code)
				}
				rows = append(rows, []string{
					t.Name, state, fmt.Sprintf("%dx%d", t.Cols, t.Rows), strconv.Itoa(t.Clients), ago(t.Active), oneLine(t.Command), oneLine(t.Title),
				})
			}
			return a.table(rows)
		},
	}
}

func (a *app) terminalNew() *cobra.Command {
	var spec atoll.TerminalSpec
	var env, envFiles []string
	var attach bool
	var b before
	cmd := &cobra.Command{
		Use:   "new [flags] SANDBOX [-- PROGRAM [ARG...]]",
		Short: "Start a program, or a shell, on a terminal that stays",
		Long: `Start a program, or a shell, on a terminal that stays, and print its name. It ends
with the program, with 'atoll terminal close', or with the sandbox.`,
		Example:           "  atoll terminal new box\n  atoll terminal new --attach --name edit box -- vi notes.txt\n  atoll terminal new --attach --record build.cast box -- make",
		Args:              needArgs(1, -1, "a sandbox, and a program if it is not to be a shell"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			if len(args) > 1 && strings.HasPrefix(args[1], "-") && args[1] != "--" {
				return fmt.Errorf("%w: %s: flags come before SANDBOX, and a program after --", atoll.ErrInvalid, args[1])
			}
			if b.record != "" && !attach {
				return fmt.Errorf("%w: --record writes what is shown to who is before the terminal: it goes with --attach; 'atoll terminal record' needs nobody there", atoll.ErrInvalid)
			}
			if err := b.check(); err != nil {
				return err
			}
			if spec.Env, err = environment(env, envFiles, "--env"); err != nil {
				return err
			}
			sb, err := a.open(ctx, args[0])
			if err != nil {
				return err
			}
			if spec.Args = args[1:]; len(spec.Args) > 0 && spec.Args[0] == "--" {
				spec.Args = spec.Args[1:]
			}
			t, err := a.openTerminal(ctx, sb, spec)
			if err != nil {
				return err
			}
			switch {
			case attach:
				return a.attachTerminal(ctx, sb, args[0], t.Name, b)
			case a.json:
				return a.print(t)
			}
			_, err = fmt.Fprintln(a.out, t.Name)
			return err
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVarP(&spec.Name, "name", "n", "", "what it is called (default: a number)")
	cmd.Flags().BoolVarP(&attach, "attach", "a", false, "be before it at once; Ctrl-P Ctrl-Q leaves it running")
	b.recordFlag(cmd)
	cmd.Flags().StringVar(&spec.Dir, "dir", "", "working directory")
	cmd.Flags().StringVar(&spec.User, "user", "", "user that it runs as")
	cmd.Flags().Uint16Var(&spec.Rows, "rows", 0, "its height until somebody is before it (default 24)")
	cmd.Flags().Uint16Var(&spec.Cols, "cols", 0, "its width until then (default 80)")
	cmd.Flags().IntVar(&spec.Scrollback, "scrollback", 0, "lines kept above the screen (default 2000; negative: none)")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "environment variable NAME=VALUE, or NAME to take it from here (repeatable)")
	cmd.Flags().StringArrayVar(&envFiles, "env-file", nil, "file of NAME=VALUE lines (repeatable)")
	return cmd
}

// openTerminal opens a terminal where somebody is there to keep it.
func (a *app) openTerminal(ctx context.Context, sb *client.Sandbox, spec atoll.TerminalSpec) (atoll.Terminal, error) {
	if a.link.host == "" && sb.Has((*atoll.Terminals)(nil)) && !sb.Has((*atoll.Detacher)(nil)) {
		return atoll.Terminal{}, fmt.Errorf("%w: nobody is there to keep the terminal when this atoll has ended: start a server ('atoll serve') and say it again", atoll.ErrUnsupported)
	}
	return sb.OpenTerminal(ctx, spec)
}

func (a *app) terminalRead() *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:               "read SANDBOX TERMINAL",
		Short:             "Print what a terminal shows, as text",
		Example:           "  atoll terminal read box build\n  atoll terminal read --history box build | grep error",
		Args:              needArgs(2, 2, "a sandbox and a terminal"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
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
			if a.json {
				return a.print(s)
			}
			lines := append(s.Scrollback, s.Lines...)
			for len(lines) > 0 && lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			for _, l := range lines {
				if _, err := fmt.Fprintln(a.out, plain(l)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "the lines above the screen, too")
	return cmd
}

func (a *app) terminalSend() *cobra.Command {
	var literal bool
	cmd := &cobra.Command{
		Use:   "send [flags] SANDBOX TERMINAL [KEY...]",
		Short: "Type on a terminal",
		Long: `Type on a terminal. A KEY is text, or the name of a key: Enter, Tab, Space, Escape,
Backspace, Up, Down, Left, Right, Home, End, PageUp, PageDown, Insert, Delete, F1 to
F12, C-a to C-z, M-x for Alt. Without keys, standard input is typed.`,
		Example:           "  atoll terminal send box build 'make test' Enter\n  atoll terminal send box build C-c\n  atoll terminal send box build <keys",
		Args:              needArgs(2, -1, "a sandbox, a terminal and keys"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var text []byte
			for _, k := range args[2:] {
				if !literal {
					k = keystroke(k)
				}
				text = append(text, k...)
			}
			if len(args) == 2 {
				if text, err = io.ReadAll(io.LimitReader(a.in, maxTyped)); err != nil {
					return err
				}
			}
			return sb.SendTerminal(cmd.Context(), args[1], text)
		},
	}
	cmd.Flags().BoolVarP(&literal, "literal", "l", false, "names of keys are text, too")
	return cmd
}

// maxTyped is how much of standard input is typed at once.
const maxTyped = 256 << 10

// keyNames are what keys send.
var keyNames = map[string]string{
	"Enter": "\r", "Tab": "\t", "Space": " ", "Escape": "\x1b", "Backspace": "\x7f", "Delete": "\x1b[3~", "Insert": "\x1b[2~",
	"Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D", "Home": "\x1b[H", "End": "\x1b[F", "PageUp": "\x1b[5~", "PageDown": "\x1b[6~",
	"F1": "\x1bOP", "F2": "\x1bOQ", "F3": "\x1bOR", "F4": "\x1bOS", "F5": "\x1b[15~", "F6": "\x1b[17~", "F7": "\x1b[18~", "F8": "\x1b[19~",
	"F9": "\x1b[20~", "F10": "\x1b[21~", "F11": "\x1b[23~", "F12": "\x1b[24~",
}

// keystroke returns what the key of a name sends, or the name.
func keystroke(name string) string {
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

func (a *app) terminalClose() *cobra.Command {
	return &cobra.Command{
		Use: "close SANDBOX TERMINAL...", Aliases: []string{"rm"},
		Short:             "End what runs on terminals, and forget them",
		Args:              needArgs(2, -1, "a sandbox and terminals"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args[1:] {
				errs = append(errs, sb.CloseTerminal(cmd.Context(), name))
			}
			return errors.Join(errs...)
		},
	}
}

func (a *app) terminalRecord() *cobra.Command {
	return &cobra.Command{
		Use:   "record SANDBOX TERMINAL",
		Short: "Write what a terminal shows to standard output, as asciicast",
		Long: `Write what a terminal shows to standard output, as asciicast (version 2), which
'asciinema play' shows again, until its program ends or Ctrl-C.`,
		Example:           "  atoll terminal record box build >build.cast",
		Args:              needArgs(2, 2, "a sandbox and a terminal"),
		ValidArgsFunction: a.completeTerminals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			r := &recorder{w: a.out}
			_, err = sb.AttachTerminal(cmd.Context(), args[1], atoll.Attachment{Stdout: r, Sized: r.resized, ReadOnly: true})
			if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
}

// completeTerminals offers sandboxes, then the terminals of the one that is
// named.
func (a *app) completeTerminals() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return a.complete(0)(cmd, args, word)
		}
		return a.offer(-1, func(ctx context.Context) ([]string, error) {
			sb, err := a.open(ctx, args[0])
			if err != nil {
				return nil, err
			}
			return a.terminalNames(ctx, sb)
		})(cmd, args, word)
	}
}

func (a *app) terminalNames(ctx context.Context, sb *client.Sandbox) ([]string, error) {
	list, err := sb.ListTerminals(ctx)
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names, err
}

// before says how somebody is before a terminal.
type before struct {
	readOnly bool
	record   string // the file that what is shown is written to; empty: none
}

func (b *before) recordFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.record, "record", "", "write what the terminal shows to this new `FILE`, as asciicast, while you are before it")
}

// check says early what would be too late to say when a terminal is open.
func (b before) check() error {
	if b.record == "" {
		return nil
	}
	switch _, err := os.Lstat(b.record); {
	case err == nil:
		return fmt.Errorf("--record %s: %w: a recording is a new file", b.record, atoll.ErrExists)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}

// attachTerminal puts a person before a terminal.
func (a *app) attachTerminal(ctx context.Context, sb *client.Sandbox, sandbox, name string, b before) (err error) {
	gone := true // nobody is before it any more; else its program has ended
	if b.record != "" {
		t, terr := startTape(ctx, sb, name, b.record)
		if terr != nil {
			return terr
		}
		defer func() { err = a.endTape(t, !gone, err) }()
	}
	at := atoll.Attachment{Stdout: a.out, ReadOnly: b.readOnly}
	if in, ok := a.in.(*os.File); ok && isTerminal(in) && !b.readOnly {
		at.Stdin = in
	}
	out, onScreen := a.out.(*os.File)
	if onScreen = onScreen && isTerminal(out); onScreen {
		at.Size, at.Stdout = screenSize(out), vt.Filter(out) // the guest has left out the same, if it is still ours
	}
	left, leave, err := a.stand(ctx, &at.Stdin, &at.Resize)
	if err != nil {
		return err
	}
	exit, err := sb.AttachTerminal(left, name, at)
	gone = left.Err() != nil
	leave()
	if onScreen {
		_, _ = io.WriteString(a.out, vt.Leave+"\n") // nobody to tell
	}
	if errors.Is(err, context.Canceled) && gone {
		a.progress("atoll: terminal %[2]s goes on; 'atoll attach %[1]s %[2]s' comes back, 'atoll terminal close %[1]s %[2]s' ends it", sandbox, name)
		if ctx.Err() == nil {
			return nil // it was left by its keys
		}
	}
	return outcome(exit, err)
}

// terminalOf finds the terminal that attach means: the one that is named, the
// only one, or if there is none a new one. Without ok, there is none of the name.
func (a *app) terminalOf(ctx context.Context, sb *client.Sandbox, args []string) (name string, ok bool, err error) {
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
		t, err := a.openTerminal(ctx, sb, atoll.TerminalSpec{})
		return t.Name, true, err
	case 1:
		return running[0], true, nil
	}
	return "", false, fmt.Errorf("%w: which terminal? there are %s", atoll.ErrInvalid, strings.Join(running, ", "))
}
