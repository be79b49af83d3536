package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// typist reads the lines that are typed while a turn of a chat is under way, and sends them: the agent reads them now, or as the prompt
// of the next turn.
type typist struct {
	a     commands
	c     *client.Client
	input *tty.Input
	view  *turnView
	turn  string // that is under way

	partial []byte            // of a line
	queued  []queuedLine      // lines that are prompts of queued turns
	next    []string          // lines that came too late for the turn
	known   map[string]bool   // ids of queued
	sent    map[string]string // lines that the agent was sent, by the ids of messages

	cancel context.CancelFunc // ends the loop; nil: it does not run
	done   chan struct{}      // closed when the loop has ended
}

// queuedLine is a line that is the prompt of a queued turn.
type queuedLine struct{ turn, text string }

// start begins to read lines.
func (t *typist) start(ctx context.Context) {
	ctx, t.cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	t.done = done
	go func() {
		defer close(done)
		t.readLines(ctx)
	}()
}

// pause ends reading, so that others can read. What was typed of a line stays.
func (t *typist) pause() {
	if t.cancel != nil {
		t.cancel()
		<-t.done
		t.cancel = nil
	}
}

// readLines reads lines and sends each, until ctx is done or the input ends.
func (t *typist) readLines(ctx context.Context) {
	b := make([]byte, 4096)
	for {
		n, err := t.input.ReadContext(ctx, b)
		if err != nil {
			return
		}
		t.partial = append(t.partial, b[:n]...)
		for {
			line, rest, ok := bytes.Cut(t.partial, []byte("\n"))
			if !ok {
				break
			}
			text := strings.TrimSpace(string(line))
			t.partial = slices.Clone(rest)
			if text != "" {
				t.sendLine(context.WithoutCancel(ctx), text)
			}
		}
	}
}

// sendLine sends a line to the agent, and shows what became of it.
func (t *typist) sendLine(ctx context.Context, text string) {
	d, err := t.c.SendMessage(ctx, t.turn, "", agent.Text(text))
	switch {
	case errors.Is(err, atoll.ErrState): // the turn has ended meanwhile
		t.next = append(t.next, text)
		t.print("queued: it is the next message")
	case err != nil:
		t.print("not sent: " + err.Error())
	case d.Turn != nil:
		t.addQueued(*d.Turn, text)
		t.print("queued: it is the next message, since the agent does not read it in this turn")
	default:
		if t.sent == nil {
			t.sent = make(map[string]string)
		}
		t.sent[d.ID] = text
		t.print("sent: the agent reads it after its current step")
	}
}

// print prints a line on its own.
func (t *typist) print(text string) {
	t.view.mu.Lock()
	defer t.view.mu.Unlock()
	t.view.printStyledLine(output.Dim, "  "+text)
}

// addQueued adds a turn that waits for the one under way.
func (t *typist) addQueued(r agent.Record, text string) {
	if t.known == nil {
		t.known = make(map[string]bool)
	}
	if !t.known[r.ID] {
		t.known[r.ID] = true
		t.queued = append(t.queued, queuedLine{r.ID, text})
	}
}

// runCommand handles a line that is a command of the chat; false: it is a message.
func (a commands) runCommand(line string, f *turnFlags) bool {
	name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
	value = strings.TrimSpace(value)
	switch name {
	case "/model":
		if value != "" {
			f.turn.Model = value
		}
		a.Progress("the model is %s", cmp.Or(f.turn.Model, "the assistant's own"))
	case "/ask":
		f.turn.Ask = true
		a.Progress("it asks before it uses tools")
	case "/alone":
		f.turn.Ask = false
		a.Progress("it uses tools as its assistant allows")
	case "/help":
		fmt.Fprint(a.Err, "/model [NAME]  show or change the model\n/ask, /alone   have it ask before it uses tools, or not\nCtrl-D leaves, Ctrl-C interrupts; a line that is typed while it works is sent, or queued\n")
	default:
		return false
	}
	return true
}
