package virtual

import (
	"context"
	"encoding/json"
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
	historyError   = 4 << 10
)

// history is a ring buffer of results.
type history struct {
	list []atoll.Result
	next int // index that the next result overwrites, once the ring is full

	unsaved         int // the newest results that are not stored yet
	unsavedCommands int // commands that are not stored yet; more than unsaved if the ring has overwritten some
}

func (h *history) add(r atoll.Result) {
	if len(h.list) < historyLength {
		h.list = append(h.list, r)
		return
	}
	h.list[h.next] = r
	h.next = (h.next + 1) % historyLength
}

func (h *history) addAll(list []atoll.Result) {
	for _, r := range list {
		h.add(r)
	}
}

// addUnsaved adds the result of a new command.
func (h *history) addUnsaved(r atoll.Result) {
	h.add(r)
	h.unsaved = min(h.unsaved+1, historyLength)
	h.unsavedCommands++
}

func (h *history) listResults() []atoll.Result {
	return slices.Concat(h.list[h.next:], h.list[:h.next])
}

// newestResults returns the newest of some results: as many as fit into a message between a worker
// and its parent. Binary output is longer there.
func newestResults(list []atoll.Result) []atoll.Result {
	const escaped = 6 // bytes of JSON for a control character
	size := 0
	for _, r := range list {
		size += 1<<10 + escaped*(len(r.Command)+len(r.Stdout)+len(r.Stderr)+len(r.Error))
	}
	if size <= maxHistoryMessage {
		return list
	}
	size = 0
	for i, r := range slices.Backward(list) {
		b, err := json.Marshal(r)
		if size += len(b) + 1; err != nil || size > maxHistoryMessage {
			return list[i+1:]
		}
	}
	return list
}

// limitResults returns the newest results of a worker's history, with texts as long as those of an honest
// one.
func limitResults(list []atoll.Result) []atoll.Result {
	list = slices.Clone(list[max(0, len(list)-historyLength):])
	for i := range list {
		r := &list[i]
		r.Command, _ = truncateText(r.Command, historyCommand)
		r.Stdout, _ = truncateText(r.Stdout, historyOutput)
		r.Stderr, _ = truncateText(r.Stderr, historyOutput)
		r.Error, _ = truncateText(r.Error, historyError)
	}
	return newestResults(list)
}

// maxHistoryMessage is the largest history in a message, in bytes of JSON.
const maxHistoryMessage = 8 << 20

// listUnsaved returns the results that are not stored yet, oldest first, and the number of such commands.
func (h *history) listUnsaved() ([]atoll.Result, int) {
	if h.unsaved == 0 {
		return nil, h.unsavedCommands
	}
	all := h.listResults()
	return all[len(all)-h.unsaved:], h.unsavedCommands
}

// listSaved returns the results that are stored, oldest first.
func (h *history) listSaved() []atoll.Result {
	all := h.listResults()
	return all[:len(all)-h.unsaved]
}

// noteSaved notes that what listUnsaved returned is stored.
func (h *history) noteSaved(results, commands int) {
	h.unsaved -= min(results, h.unsaved)
	h.unsavedCommands -= commands
}

// reload replaces the stored results. What is not stored yet stays.
func (h *history) reload(stored []atoll.Result) {
	unsaved, commands := h.listUnsaved()
	*h = history{unsaved: len(unsaved), unsavedCommands: commands}
	h.addAll(stored)
	h.addAll(unsaved)
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
		r.Error, _ = truncateText(err.Error(), historyError)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.addUnsaved(r)
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
