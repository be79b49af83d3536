package virtual

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// What a sandbox remembers of its commands: the newest, and of each the
// beginning of its output.
const (
	historyLength  = 100
	historyOutput  = 16 << 10
	historyCommand = 16 << 10
)

// history is a ring of results.
type history struct {
	list []atoll.Result
	next int // where the next one goes, once the ring is full
}

func (h *history) add(r atoll.Result) {
	if len(h.list) < historyLength {
		h.list = append(h.list, r)
		return
	}
	h.list[h.next] = r
	h.next = (h.next + 1) % historyLength
}

func (h *history) all() []atoll.Result {
	return slices.Concat(h.list[h.next:], h.list[:h.next])
}

// cut bounds a text of the history.
func cut(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	return strings.Clone(s[:most]), true
}

// remember notes a command in the history.
func (s *Sandbox) remember(start time.Time, cmd atoll.Cmd, exit atoll.Exit, err error, t *tap) {
	r := atoll.Result{
		Command: commandText(cmd), ExitCode: exit.Code, Success: err == nil && exit.Code == 0, Duration: exit.Duration,
		Truncated: exit.Truncated, Time: start,
	}
	var more [3]bool
	r.Command, more[0] = cut(r.Command, historyCommand)
	r.Stdout, more[1] = cut(t.out.text(exit.Stdout), historyOutput)
	r.Stderr, more[2] = cut(t.err.text(exit.Stderr), historyOutput)
	r.Truncated = r.Truncated || more[0] || more[1] || more[2]
	if err != nil {
		r.Error = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.past.add(r)
	s.commands++
	s.active = s.d.now()
}

// commandText is a command as a person would type it.
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

// needsQuotes reports whether a character means something to a shell.
func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
}

// History returns the newest commands, oldest first.
func (s *Sandbox) History(ctx context.Context) ([]atoll.Result, error) {
	_, op, err := s.begin(ctx, false)
	if err != nil {
		return nil, s.fail("history", err)
	}
	defer op.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past.all(), nil
}
