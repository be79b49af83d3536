package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

func (a commands) shellCommand() *cobra.Command {
	return &cobra.Command{
		Use: "shell [SANDBOX]",
		Example: `  atoll shell box
  atoll shell                         in a new sandbox, removed after it`,
		Short: "Open a shell in a sandbox",
		Long: `Open a shell in a sandbox: its persistent shell with the virtual driver, else
the user's shell, which ends with the session. Without a name, a new sandbox is
created and removed afterwards. Ctrl-C ends the running command, Ctrl-D or
'exit' the shell. Without a terminal, the lines of stdin are run one by one;
the exit status is that of the last.`,
		Args:              app.CheckArgCount(0, 1, "at most one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			if len(args) == 1 {
				sb, err := a.OpenSandbox(ctx, args[0])
				if err != nil {
					return err
				}
				info, err := sb.Info(ctx)
				if err != nil {
					return err
				}
				return a.shellIn(ctx, sb, args[0], info.Features)
			}
			sb, end, err := a.createUnregistered(ctx, atoll.Spec{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end(ctx)) }()
			d, err := a.Driver()
			if err != nil {
				return err
			}
			ft, err := d.Probe(ctx)
			if err != nil {
				return err
			}
			return a.shellIn(ctx, sb, "new", ft)
		},
	}
}

// shellIn opens a shell in a sandbox: its persistent shell, or where it has none, a shell
// program.
func (a commands) shellIn(ctx context.Context, sb atoll.Sandbox, name string, ft atoll.Features) error {
	if ft.Session {
		return a.runSession(ctx, sb, name)
	}
	in, ok := a.In.(*os.File)
	how := execHow{tty: ok && tty.IsTerminal(in) && tty.IsTerminal(a.Out), interactive: true}
	if !how.tty {
		return a.exec(ctx, sb, atoll.Cmd{Args: []string{"sh"}, Timeout: -1}, execHow{})
	}
	return a.exec(ctx, sb, atoll.Cmd{Shell: realShell, Timeout: -1}, how)
}

// realShell becomes the user's shell inside, or the best that there is: what only
// is the system's is none that anybody has chosen.
const realShell = `for s in "${SHELL#/bin/sh}" /bin/bash /usr/bin/bash; do [ -x "$s" ] && exec "$s"; done; exec sh`

// runSession reads commands and runs them until the input ends.
func (a commands) runSession(ctx context.Context, sb atoll.Sandbox, name string) error {
	s := &session{a: a, sb: sb, name: output.Clean(name)}
	if in, ok := a.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) && tty.IsTerminal(a.Out) {
		return s.runInteractive(ctx, in)
	}
	return s.runLines(ctx)
}

// session is a person's or a script's work in a sandbox.
type session struct {
	a    commands
	sb   atoll.Sandbox
	name string
	last int // exit status of the last command
}

// runLines runs the commands of a script on stdin, each once it is complete.
func (s *session) runLines(ctx context.Context) error {
	in := bufio.NewReader(s.a.In)
	text := ""
	for {
		line, err := in.ReadString('\n')
		text += line
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if text != "" && (end || isComplete(text)) {
			if done, err := s.runCommand(ctx, text, emptyReader{}); done || err != nil {
				return err
			}
			text = ""
		}
		if end {
			break
		}
	}
	if s.last != 0 {
		return exitcode.Silent(s.last)
	}
	return nil
}

// isComplete reports whether a text holds whole commands: no quote, construct
// or here-document is open, and no backslash joins the next line.
func isComplete(text string) bool {
	f, err := syntax.Parse(text, syntax.Options{ExtGlob: func() bool { return true }})
	var se *syntax.Error
	if err != nil {
		return !errors.As(err, &se) || !se.Incomplete
	}
	line := strings.TrimSuffix(text, "\n")
	if (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1 {
		return false
	}
	open := false
	for _, st := range f.Stmts {
		syntax.Walk(st, func(n syntax.Node) bool {
			d, ok := n.(*syntax.Heredoc)
			open = open || ok && d.EOF
			return !open
		})
	}
	return !open
}

// parseExit reports whether a command is `exit` itself, and its status.
func (s *session) parseExit(text string) (int, bool) {
	f := strings.Fields(text)
	if len(f) == 0 || len(f) > 2 || f[0] != "exit" {
		return 0, false
	}
	code := s.last
	if len(f) == 2 {
		if _, err := fmt.Sscanf(f[1], "%d", &code); err != nil {
			return 0, false
		}
	}
	return code & 0xff, true
}

// runCommand runs one command. It reports whether the session is over.
func (s *session) runCommand(ctx context.Context, text string, in io.Reader) (done bool, err error) {
	if code, ok := s.parseExit(text); ok {
		if code != 0 {
			return true, exitcode.Silent(code)
		}
		return true, nil
	}
	exit, err := s.sb.Exec(ctx, atoll.Cmd{Shell: text, Session: true, Stdin: in, Stdout: s.a.Out, Stderr: s.a.Err})
	s.last = exit.Code
	if errors.Is(err, atoll.ErrTimeout) && ctx.Err() == nil {
		fmt.Fprintf(s.a.Err, "atoll: %v\n", err)
		s.last = exitcode.Timeout
		return false, nil
	}
	return false, err
}

// runInteractive reads lines with editing and history. While a command runs the
// terminal is the command's.
func (s *session) runInteractive(ctx context.Context, in *os.File) error {
	fd := int(in.Fd())
	// Ctrl-C is for the command that runs; only a request to end is for us.
	ctx, end := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	keys := &tty.Keyboard{Reader: in}
	t := term.NewTerminal(tty.ReadWriter{Reader: keys, Writer: s.a.Out}, "")
	t.AutoCompleteCallback = s.completeLine(ctx)
	if w, h, err := term.GetSize(fd); err == nil {
		_ = t.SetSize(w, h) // only where lines break
	}
	fmt.Fprintf(s.a.Err, "A virtual computer: nothing of this machine is in it. 'help' lists the commands, Ctrl-D leaves.\n")
	text := ""
	for {
		line, err := s.readLine(ctx, t, fd, text != "")
		if keys.Interrupted() {
			text = ""
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				fmt.Fprintln(s.a.Err)
				return nil
			}
			return err
		}
		text += line + "\n"
		if !isComplete(text) {
			continue
		}
		cctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		done, err := s.runCommand(cctx, text, emptyReader{})
		interrupted := cctx.Err() != nil && ctx.Err() == nil
		stop()
		text = ""
		if interrupted {
			fmt.Fprintln(s.a.Err)
			s.last = exitcode.Interrupted
			continue
		}
		if done || err != nil {
			return err
		}
	}
}

// readLine reads one line with the terminal in raw mode.
func (s *session) readLine(ctx context.Context, t *term.Terminal, fd int, more bool) (string, error) {
	t.SetPrompt(s.promptText(ctx, more))
	old, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	line, err := t.ReadLine()
	if rerr := term.Restore(fd, old); rerr != nil {
		return "", rerr
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}

// completer is a sandbox that knows what a word could become.
type completer interface {
	Complete(ctx context.Context, line string, pos int) (start int, list []string)
}

// completeLine returns what the Tab key does: it fills in as far as all
// candidates agree, and lists them when it is pressed again.
func (s *session) completeLine(ctx context.Context) func(string, int, rune) (string, int, bool) {
	c, ok := atoll.As[completer](s.sb)
	if !ok {
		c, ok = nameCompleter{s.sb}, true
	}
	tabbed := ""
	return func(line string, pos int, key rune) (string, int, bool) {
		if !ok || key != '\t' {
			return "", 0, false
		}
		start, list := c.Complete(ctx, line, pos)
		if len(list) == 0 {
			return line, pos, true
		}
		fill := list[0]
		for _, l := range list[1:] {
			for !strings.HasPrefix(l, fill) {
				fill = fill[:len(fill)-1]
			}
		}
		if len(list) == 1 && !strings.HasSuffix(fill, "/") {
			fill += " "
		}
		if len(list) > 1 && fill == line[start:pos] {
			if tabbed == line {
				fmt.Fprintf(s.a.Err, "\r\n%s\r\n", output.Clean(strings.Join(list, "  ")))
			}
			tabbed = line
		}
		return line[:start] + fill + line[pos:], start + len(fill), true
	}
}

func (s *session) promptText(ctx context.Context, more bool) string {
	if more {
		return "> "
	}
	dir := ""
	if st, err := atoll.StatsOf(ctx, s.sb); err == nil {
		dir = ":" + output.Clean(st.Dir)
	}
	return s.name + dir + "$ "
}
