package agent

import (
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
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) chatCommand() *cobra.Command {
	var f turnFlags
	cmd := &cobra.Command{
		Use:   "chat ASSISTANT [flags] [MESSAGE...]",
		Short: "Chat with an assistant",
		Long: `Chat with an assistant: one MESSAGE, or line by line until Ctrl-D. The files
and the messages are kept with the chat. A line that is typed while the
assistant works is sent to it, or is the next message. The lines /model, /ask,
/alone and /help are commands.`,
		Example: `  atoll chat coder
  atoll chat qa -c deepseek/r1 "what is an atoll?"
  atoll chat coder --chat fizz --attach notes.md "do what these notes say"`,
		Args:              app.CheckArgCount(1, -1, "an assistant"),
		ValidArgsFunction: a.CompleteFrom(0, a.assistantNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, ok := a.In.(*os.File)
			if len(args) == 1 && ok && tty.IsTerminal(in) && !a.JSON {
				return a.runChat(cmd.Context(), in, args[0], &f)
			}
			text, err := a.promptText(args[1:])
			if err != nil {
				return err
			}
			r, err := f.buildRequest(text)
			if err != nil {
				return err
			}
			r.Assistant = args[0]
			return a.runTurn(cmd.Context(), r, &f)
		},
	}
	f.addTalk(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.connector, "connector", "c", "", "`CONNECTOR` to the model (default: the assistant's)")
	fl.StringVarP(&f.turn.Model, "model", "m", "", "`MODEL` to ask (default: the assistant's, else the connector's)")
	return cmd
}

// runChat is a conversation on a terminal.
func (a commands) runChat(ctx context.Context, in *os.File, assistant string, f *turnFlags) error {
	l, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if err := a.checkAssistant(ctx, assistant); err != nil {
		return err
	}
	// Ctrl-C is for the turn that is under way; only a request to end is for us.
	ctx, end := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	typed := tty.NewInput(in)
	keys := &tty.Keyboard{Reader: typed}
	t := term.NewTerminal(tty.ReadWriter{Reader: keys, Writer: a.Err}, "")
	if w, h, err := term.GetSize(int(in.Fd())); err == nil {
		_ = t.SetSize(w, h) // only where lines break
	}
	a.Progress("Talking to %s; Ctrl-D leaves, Ctrl-C interrupts, /help lists commands.", assistant)
	typist := &typist{a: a, c: l.Client, input: typed}
	for {
		line, err := readRaw(t, int(in.Fd()), "you> ")
		if keys.Interrupted() {
			continue
		}
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(a.Err)
			if f.chat != "" {
				a.Progress("go on with: atoll chat %s --chat %s", assistant, f.chat)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if a.runCommand(line, f) {
			continue
		}
		if err := a.sendMessages(ctx, l, assistant, line, f, typist); err != nil {
			return err
		}
	}
}

// sendMessages sends a message to an assistant, and follows the turns of the lines that are typed while it works.
func (a commands) sendMessages(ctx context.Context, l *app.Connection, assistant, line string, f *turnFlags, t *typist) error {
	t.next = append(t.next, line)
	for len(t.next) > 0 || len(t.queued) > 0 {
		var err error
		if len(t.queued) > 0 { // they were sent before the next lines
			line := t.queued[0]
			t.queued = t.queued[1:]
			if line.text != "" {
				a.Progress("you> %s", cleanText(line.text))
			}
			err = a.followTyping(ctx, line.turn, f, t)
		} else {
			line := t.next[0]
			t.next = t.next[1:]
			if a.runCommand(line, f) {
				continue
			}
			err = a.sendMessage(ctx, l, assistant, line, f, t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// followTyping follows a turn while lines can be typed. It prints errors of the turn and returns only those that end the chat.
func (a commands) followTyping(ctx context.Context, id string, f *turnFlags, t *typist) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	view := a.newTurnView(f.verbose)
	view.close() // its spinner would draw over what is typed
	view.spin = nil
	view.typist, t.view, t.turn = t, view, id
	t.start(context.WithoutCancel(ctx))
	_, err := a.followTurn(ctx, t.c, id, 0, view)
	t.pause()
	if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
		a.PrintError(err)
		return nil
	}
	return err
}

// sendMessage sends one message to an assistant. It prints errors of the turn and returns only
// those that end the chat.
func (a commands) sendMessage(ctx context.Context, l *app.Connection, assistant, line string, f *turnFlags, t *typist) error {
	r, err := f.buildRequest(line)
	if err != nil {
		return err
	}
	f.attach = nil // they went along with the first
	r.Assistant = assistant
	made, err := l.StartTurn(ctx, r)
	if err == nil {
		f.chat = made.Chat
		return a.followTyping(ctx, made.ID, f, t)
	}
	if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
		a.PrintError(err)
		return nil
	}
	return err
}

// readRaw reads one line with the terminal in raw mode.
func readRaw(t *term.Terminal, fd int, prompt string) (string, error) {
	t.SetPrompt(prompt)
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

// checkAssistant reports an assistant that is not there before anything is typed.
func (a commands) checkAssistant(ctx context.Context, assistant string) error {
	names, err := a.assistantNames(ctx)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == assistant {
			return nil
		}
	}
	return fmt.Errorf("assistant %q: %w%s; 'atoll assistant ls' shows what there is", assistant, atoll.ErrNotFound, suggest.Hint(assistant, names))
}

func (a commands) assistantNames(ctx context.Context) ([]string, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Assistants(ctx)
	var names []string
	for _, i := range all {
		names = append(names, i.ID)
	}
	return names, err
}
