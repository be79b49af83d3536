package main

import (
	"bufio"
	"bytes"
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
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

func (a *app) shellCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "shell [SANDBOX]",
		Short: "Work in a sandbox, line by line",
		Long: `Work in a sandbox's lasting shell, line by line: what you set is there the next
time. Without a name it is a new sandbox that is gone afterwards. Where the driver
runs real programs it is the user's shell inside, which ends with you. Ctrl-C ends the
command that runs, Ctrl-D or 'exit' the shell. Without a terminal, the lines of
stdin are run one after another; the exit status is that of the last.`,
		Args:              needArgs(0, 1, "at most one sandbox"),
		ValidArgsFunction: a.complete(0),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			if len(args) == 1 {
				sb, err := a.open(ctx, args[0])
				if err != nil {
					return err
				}
				info, err := sb.Info(ctx)
				if err != nil {
					return err
				}
				return a.shellIn(ctx, sb, args[0], info.Features)
			}
			sb, end, err := a.lone(ctx, atoll.Spec{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end(ctx)) }()
			d, err := a.driver()
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

// shellIn is somebody's work in a sandbox: in its own lasting shell, or where it
// has none, in a shell that is a program inside.
func (a *app) shellIn(ctx context.Context, sb atoll.Sandbox, name string, ft atoll.Features) error {
	if ft.Session {
		return a.session(ctx, sb, name)
	}
	in, ok := a.in.(*os.File)
	how := execHow{tty: ok && isTerminal(in) && isTerminal(a.out), interactive: true}
	if !how.tty {
		return a.exec(ctx, sb, atoll.Cmd{Args: []string{"sh"}, Timeout: -1}, execHow{})
	}
	return a.exec(ctx, sb, atoll.Cmd{Shell: realShell, Timeout: -1}, how)
}

// realShell becomes the user's shell inside, or the best that there is: what only
// is the system's is none that anybody has chosen.
const realShell = `for s in "${SHELL#/bin/sh}" /bin/bash /usr/bin/bash; do [ -x "$s" ] && exec "$s"; done; exec sh`

// session reads commands and runs them until the input ends.
func (a *app) session(ctx context.Context, sb atoll.Sandbox, name string) error {
	s := &session{a: a, sb: sb, name: plain(name)}
	if in, ok := a.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) && isTerminal(a.out) {
		return s.interactive(ctx, in)
	}
	return s.lines(ctx)
}

// session is a person's or a script's work in a sandbox.
type session struct {
	a    *app
	sb   atoll.Sandbox
	name string
	last int // exit status of the last command
}

// lines runs the commands of a script on stdin, each once it is complete.
func (s *session) lines(ctx context.Context) error {
	in := bufio.NewReader(s.a.in)
	text := ""
	for {
		line, err := in.ReadString('\n')
		text += line
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if text != "" && (end || complete(text)) {
			if done, err := s.command(ctx, text, nothing{}); done || err != nil {
				return err
			}
			text = ""
		}
		if end {
			break
		}
	}
	if s.last != 0 {
		return status(s.last)
	}
	return nil
}

// complete reports whether a text holds whole commands: no quote, construct
// or here-document is open, and no backslash joins the next line.
func complete(text string) bool {
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

// leaves reports whether a command is `exit` itself, and its status.
func (s *session) leaves(text string) (int, bool) {
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

// command runs one command. It reports whether the session is over.
func (s *session) command(ctx context.Context, text string, in io.Reader) (done bool, err error) {
	if code, ok := s.leaves(text); ok {
		if code != 0 {
			return true, status(code)
		}
		return true, nil
	}
	exit, err := s.sb.Exec(ctx, atoll.Cmd{Shell: text, Session: true, Stdin: in, Stdout: s.a.out, Stderr: s.a.err})
	s.last = exit.Code
	if errors.Is(err, atoll.ErrTimeout) && ctx.Err() == nil {
		fmt.Fprintf(s.a.err, "atoll: %v\n", err)
		s.last = exitTimeout
		return false, nil
	}
	return false, err
}

// terminal is stdin and stdout as one.
type terminal struct {
	io.Reader
	io.Writer
}

// interactive reads lines with editing and history. While a command runs the
// terminal is the command's.
func (s *session) interactive(ctx context.Context, in *os.File) error {
	fd := int(in.Fd())
	// Ctrl-C is for the command that runs; only a request to end is for us.
	ctx, end := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	keys := &keyboard{r: in}
	t := term.NewTerminal(terminal{keys, s.a.out}, "")
	t.AutoCompleteCallback = s.completion(ctx)
	if w, h, err := term.GetSize(fd); err == nil {
		_ = t.SetSize(w, h) // only where lines break
	}
	fmt.Fprintf(s.a.err, "A virtual computer: nothing of this machine is in it. 'help' lists the commands, Ctrl-D leaves.\n")
	text := ""
	for {
		line, err := s.readLine(ctx, t, fd, text != "")
		if keys.interrupted() {
			text = ""
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				fmt.Fprintln(s.a.err)
				return nil
			}
			return err
		}
		text += line + "\n"
		if !complete(text) {
			continue
		}
		cctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		done, err := s.command(cctx, text, nothing{})
		interrupted := cctx.Err() != nil && ctx.Err() == nil
		stop()
		text = ""
		if interrupted {
			fmt.Fprintln(s.a.err)
			s.last = exitInterrupted
			continue
		}
		if done || err != nil {
			return err
		}
	}
}

// keyboard is a terminal in raw mode on which Ctrl-C, which the line editor
// takes for the end of the input, drops the line instead.
type keyboard struct {
	r   io.Reader
	hit bool
}

const ctrlC, ctrlU = 3, 21

func (k *keyboard) Read(b []byte) (int, error) {
	n, err := k.r.Read(b[:max(1, len(b)/2)])
	i := bytes.IndexByte(b[:n], ctrlC)
	if i < 0 || i+2 > len(b) {
		return n, err
	}
	k.hit = true
	b[i], b[i+1] = ctrlU, '\r'
	return i + 2, err
}

// interrupted reports, once, that Ctrl-C was pressed.
func (k *keyboard) interrupted() bool {
	hit := k.hit
	k.hit = false
	return hit
}

// readLine reads one line with the terminal in raw mode.
func (s *session) readLine(ctx context.Context, t *term.Terminal, fd int, more bool) (string, error) {
	t.SetPrompt(s.prompt(ctx, more))
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

// completion returns what the Tab key does: it fills in as far as all
// candidates agree, and lists them when it is pressed again.
func (s *session) completion(ctx context.Context) func(string, int, rune) (string, int, bool) {
	c, ok := atoll.As[completer](s.sb)
	if !ok {
		c, ok = names{s.sb}, true
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
				fmt.Fprintf(s.a.err, "\r\n%s\r\n", plain(strings.Join(list, "  ")))
			}
			tabbed = line
		}
		return line[:start] + fill + line[pos:], start + len(fill), true
	}
}

func (s *session) prompt(ctx context.Context, more bool) string {
	if more {
		return "> "
	}
	dir := ""
	if st, err := atoll.StatsOf(ctx, s.sb); err == nil {
		dir = ":" + plain(st.Dir)
	}
	return s.name + dir + "$ "
}
