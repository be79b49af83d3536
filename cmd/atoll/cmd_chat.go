package main

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
	"github.com/atoll-sandbox/atoll/internal/spell"
)

func (a *app) chatCommand() *cobra.Command {
	var f turnFlags
	cmd := &cobra.Command{
		Use:   "chat ASSISTANT [flags] [MESSAGE...]",
		Short: "Talk to an assistant",
		Long: `Talk to an assistant: with a MESSAGE once, else line by line until Ctrl-D. The files
it works on and what was said stay in the chat.`,
		Example: `  atoll chat coder
  atoll chat qa -c deepseek/r1 "what is an atoll?"
  atoll chat coder --chat fizz --attach notes.md "do what these notes say"`,
		Args:              needArgs(1, -1, "an assistant"),
		ValidArgsFunction: a.offer(0, a.assistantNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, ok := a.in.(*os.File)
			if len(args) == 1 && ok && isTerminal(in) && !a.json {
				return a.talk(cmd.Context(), in, args[0], &f)
			}
			text, err := a.promptText(args[1:])
			if err != nil {
				return err
			}
			r, err := f.request(text)
			if err != nil {
				return err
			}
			r.Assistant = args[0]
			return a.turn(cmd.Context(), r, &f)
		},
	}
	f.addTalk(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.connector, "connector", "c", "", "`CONNECTOR` to the model (default: the assistant's)")
	fl.StringVarP(&f.turn.Model, "model", "m", "", "`MODEL` to ask (default: the assistant's, else the connector's)")
	return cmd
}

// talk is a conversation on a terminal.
func (a *app) talk(ctx context.Context, in *os.File, assistant string, f *turnFlags) error {
	l, err := a.client(ctx)
	if err != nil {
		return err
	}
	if err := a.knows(ctx, assistant); err != nil {
		return err
	}
	// Ctrl-C is for the turn that is under way; only a request to end is for us.
	ctx, end := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	keys := &keyboard{r: in}
	t := term.NewTerminal(terminal{keys, a.err}, "")
	if w, h, err := term.GetSize(int(in.Fd())); err == nil {
		_ = t.SetSize(w, h) // only where lines break
	}
	a.progress("Talking to %s; Ctrl-D leaves, Ctrl-C interrupts.", assistant)
	for {
		line, err := readRaw(t, int(in.Fd()), "you> ")
		if keys.interrupted() {
			continue
		}
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(a.err)
			if f.chat != "" {
				a.progress("go on with: atoll chat %s --chat %s", assistant, f.chat)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := a.message(ctx, l, assistant, line, f); err != nil {
			return err
		}
	}
}

// message says one thing to an assistant. What goes wrong with it is told, and
// ends the conversation only if the server is gone.
func (a *app) message(ctx context.Context, l *link, assistant, line string, f *turnFlags) error {
	r, err := f.request(line)
	if err != nil {
		return err
	}
	f.attach = nil // they went along with the first
	r.Assistant = assistant
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	made, err := l.StartTurn(ctx, r)
	if err == nil {
		f.chat = made.Chat
		_, err = a.follow(ctx, l.Client, made.ID, 0, a.newTurnView(f.verbose))
	}
	if err != nil && !errors.Is(err, atoll.ErrUnavailable) {
		a.complain(err)
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

// knows reports an assistant that is not there before anything is typed.
func (a *app) knows(ctx context.Context, assistant string) error {
	names, err := a.assistantNames(ctx)
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == assistant {
			return nil
		}
	}
	return fmt.Errorf("assistant %q: %w%s; 'atoll assistant ls' shows what there is", assistant, atoll.ErrNotFound, spell.Hint(assistant, names))
}

func (a *app) assistantNames(ctx context.Context) ([]string, error) {
	c, err := a.client(ctx)
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
