package virtual

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Bounds of the command history: the newest commands, and the beginning of their output.
const (
	historyLength  = 100
	historyOutput  = 16 << 10
	historyCommand = 16 << 10
)

// history is a ring buffer of results.
type history struct {
	list []atoll.Result
	next int // index that the next result overwrites, once the ring is full
}

func (h *history) add(r atoll.Result) {
	if len(h.list) < historyLength {
		h.list = append(h.list, r)
		return
	}
	h.list[h.next] = r
	h.next = (h.next + 1) % historyLength
}

func (h *history) listResults() []atoll.Result {
	return slices.Concat(h.list[h.next:], h.list[:h.next])
}

// truncateText shortens a text of the history to a length in bytes.
func truncateText(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	return strings.Clone(s[:most]), true
}

// recordCommand adds a command to the history.
func (s *Sandbox) recordCommand(start time.Time, cmd atoll.Cmd, exit atoll.Exit, err error, t *outputTap) {
	r := atoll.Result{
		Command: commandText(cmd), ExitCode: exit.Code, Success: err == nil && exit.Code == 0, Duration: exit.Duration,
		Truncated: exit.Truncated, Time: start,
	}
	var more [3]bool
	r.Command, more[0] = truncateText(r.Command, historyCommand)
	r.Stdout, more[1] = truncateText(t.out.capturedText(exit.Stdout), historyOutput)
	r.Stderr, more[2] = truncateText(t.err.capturedText(exit.Stderr), historyOutput)
	r.Truncated = r.Truncated || more[0] || more[1] || more[2]
	if err != nil {
		r.Error = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.add(r)
	s.commands++
	s.active = s.d.currentTime()
}

// commandText returns a command as it would be typed into a shell.
func commandText(cmd atoll.Cmd) string {
	if cmd.Shell != "" {
		return cmd.Shell
	}
	var b strings.Builder
	for i, a := range cmd.Args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if a != "" && strings.IndexFunc(a, needsQuotes) < 0 {
			b.WriteString(a)
			continue
		}
		b.WriteString("'" + strings.ReplaceAll(a, "'", `'\''`) + "'")
	}
	return b.String()
}

// needsQuotes reports whether a character has a meaning in a shell.
func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
}

// History returns the newest commands, oldest first.
func (s *Sandbox) History(ctx context.Context) ([]atoll.Result, error) {
	_, op, err := s.beginOperation(ctx, false)
	if err != nil {
		return nil, s.wrapError("history", err)
	}
	defer op.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.history.listResults(), nil
}
