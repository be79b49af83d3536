package turn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// log is the event log of one turn: a file of JSON lines that grows at its end. Followers read the file, so
// that a slow one delays nothing.
//
// Above maxBytes only some events are stored, such as requests for permission. Those who follow the turn get the
// others from a window in memory, for which the turn waits: see window.
type log struct {
	file     *os.File
	maxBytes int64

	mu       sync.Mutex
	size     int64         // bytes written; guarded by mu, as all below
	seq      int64         // of the last event
	full     bool          // most events are not stored any more
	window   window        // the last events of a full log
	dropped  int64         // events that are not stored
	finished bool          // the last event is written
	err      error         // of writing
	changed  chan struct{} // closed after a write
}

// maxEvent limits one event in the log, and in API responses.
const maxEvent = 4 << 20

func newLog(f *os.File, most int64) *log {
	return &log{file: f, maxBytes: most, changed: make(chan struct{}), window: newWindow()}
}

// lastSeq returns the number of the last event.
func (l *log) lastSeq() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// isKept reports whether an event is stored in a full log, too: what waits for an answer, and what a turn
// began and ended with.
func isKept(t agent.Type) bool {
	switch t {
	case agent.Started, agent.PermissionRequested, agent.PermissionResolved, agent.PermissionDenied, agent.ClientToolCalled, agent.Dropped, agent.Finished:
		return true
	}
	return false
}

// append writes an event with the next number, and returns that; if it is not written, the number of the last one.
func (l *log) append(e agent.Event) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished || l.err != nil && e.Type != agent.Finished {
		return l.seq
	}
	if l.size > l.maxBytes && !l.full && e.Type != agent.Finished {
		l.full = true
		l.write(agent.Event{Time: e.Time, Turn: e.Turn, Type: agent.Dropped, Text: fmt.Sprintf("the log has reached its limit of %d bytes: it has only requests and the end from here on", l.maxBytes)})
	}
	if l.full {
		l.window.waitForRoom(&l.mu)
	}
	if e.Type == agent.Finished && l.dropped > 0 {
		l.write(agent.Event{Time: e.Time, Turn: e.Turn, Type: agent.Dropped, Text: fmt.Sprintf("%d events are not in the log", l.dropped)})
	}
	l.write(e)
	return l.seq
}

// write writes an event to the file, and in a full log to the window. The caller holds mu.
func (l *log) write(e agent.Event) {
	e.Seq = l.seq + 1
	line := encodeEvent(&e)
	if l.full {
		l.window.add(e.Seq, line)
	}
	stored := !l.full || isKept(e.Type)
	if stored {
		if _, err := l.file.WriteAt(line, l.size); err != nil {
			l.err = err
			l.finished = e.Type == agent.Finished
			l.notifyReaders()
			return
		}
		l.size += int64(len(line))
	} else {
		l.dropped++
	}
	l.seq = e.Seq
	l.finished = e.Type == agent.Finished
	l.notifyReaders()
}

// notifyReaders wakes the followers. The caller holds mu.
func (l *log) notifyReaders() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// readState returns the readable size, whether the log is complete, a channel that
// is closed when that changes, and the error of writing.
func (l *log) readState() (size int64, over bool, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.finished, l.changed, l.err
}

// followEvents calls f for each event with a higher number than after, until the
// last event or until ctx is done. It reads from file, which is its own descriptor.
func (l *log) followEvents(ctx context.Context, file *os.File, after int64, f func(agent.Event) error) error {
	r := &follower{log: l, next: after + 1, f: f}
	l.mu.Lock()
	l.window.followers[r] = true
	l.mu.Unlock()
	defer r.leave()
	at := int64(0)
	for {
		size, over, changed, werr := l.readState()
		n, err := replayEvents(file, at, size, after, r.deliverStored)
		at += n
		if errors.Is(err, errInWindow) {
			err = nil
		}
		if err == nil {
			err = r.deliverWindow(at)
		}
		switch {
		case err != nil:
			return err
		case over && werr == nil:
			return nil
		case werr != nil:
			return fmt.Errorf("the log of the turn: %w", werr)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// errBroken is the error of a log with an invalid line.
var errBroken = fmt.Errorf("%w: the log of the turn is broken", atoll.ErrUnavailable)

// replayEvents calls f for each event in a part of a log, and returns the length
// of the whole lines in it.
func replayEvents(file io.ReaderAt, from, to, after int64, f func(agent.Event) error) (int64, error) {
	if from >= to {
		return 0, nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, from, to-from), int(min(to-from, 64<<10))+1)
	read := int64(0)
	for {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return read, nil // ignore a partial last line
		}
		if err != nil {
			return read, err
		}
		if seq, ok := parseSeq(text); ok && seq <= after {
			read += int64(len(text))
			continue
		}
		var e agent.Event
		if err := json.Unmarshal(text, &e); err != nil {
			return read, fmt.Errorf("%w: %w", errBroken, err)
		}
		read += int64(len(text))
		if e.Seq <= after {
			continue
		}
		if err := f(e); err != nil {
			return read, err
		}
	}
}

// parseSeq parses the event number at the beginning of a line.
func parseSeq(text []byte) (int64, bool) {
	rest, ok := bytes.CutPrefix(text, []byte(`{"seq":`))
	n := int64(0)
	for i, c := range rest {
		if c < '0' || c > '9' {
			return n, ok && i > 0 && i < 19
		}
		n = n*10 + int64(c-'0')
	}
	return 0, false
}

const tooLarge = "the result is too large to be stored"

// encodeEvent returns an event as a line of at most maxEvent bytes.
func encodeEvent(e *agent.Event) []byte {
	b, err := json.Marshal(e)
	if err == nil && len(b) <= maxEvent {
		return append(b, '\n')
	}
	small := *e
	shortenEvent(&small)
	if b, err = json.Marshal(&small); err != nil || len(b) > maxEvent {
		small = agent.Event{Seq: e.Seq, Time: e.Time, Turn: e.Turn, Session: truncateText(e.Session, 1000), Type: e.Type, Text: "an event that is too large to be stored"}
		if e.Result != nil {
			small.Result = &agent.Result{Outcome: e.Result.Outcome, Code: e.Result.Code, Session: truncateText(e.Result.Session, 1000), Usage: e.Result.Usage, Message: tooLarge}
		}
		b, _ = json.Marshal(&small) // can't fail for plain values
	}
	return append(b, '\n')
}

// shortenEvent truncates the long texts of an event.
func shortenEvent(e *agent.Event) {
	const most = 256 << 10
	e.Text = truncateText(e.Text, most)
	if len(e.Raw) > most {
		e.Raw, _ = json.Marshal(truncateText(string(e.Raw), most)) // can't fail for a string
	}
	if e.Tool != nil {
		c := *e.Tool
		shortenCall(&c, most)
		e.Tool = &c
	}
	if e.Permission != nil {
		p := *e.Permission
		shortenCall(&p.Tool, most)
		e.Permission = &p
	}
	if e.Result != nil {
		r := *e.Result
		shortenResult(&r, 4*most)
		e.Result = &r
	}
}

// shortenResult truncates the long texts of a result, and notes a dropped
// structured result in its message.
func shortenResult(r *agent.Result, most int) {
	r.Text, r.Stderr, r.Message = truncateText(r.Text, most), truncateText(r.Stderr, most/4), truncateText(r.Message, most/4)
	if len(r.Structured) > most {
		r.Structured = nil
		r.Message = strings.TrimSpace(r.Message + " (the structured result is too large to be stored)")
	}
	r.Denials = slices.Clone(r.Denials[:min(len(r.Denials), 8)])
	for i := range r.Denials {
		shortenCall(&r.Denials[i], most/32)
	}
}

func shortenCall(c *agent.ToolCall, most int) {
	c.Output, c.Title = truncateText(c.Output, most), truncateText(c.Title, most/16)
	if len(c.Input) > most {
		c.Input, _ = json.Marshal(map[string]string{"shortened": truncateText(string(c.Input), most)}) // strings
	}
	if len(c.Diffs) > 0 {
		c.Diffs = append([]agent.Diff(nil), c.Diffs[:min(len(c.Diffs), 4)]...)
		for i := range c.Diffs {
			d := &c.Diffs[i]
			d.New = truncateText(d.New, most/4)
			if d.Old != nil {
				old := truncateText(*d.Old, most/4)
				d.Old = &old
			}
		}
	}
}

// truncateText cuts a text to most bytes and marks the cut.
func truncateText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "… (shortened)"
}

// readTail reads the end of a log without a writer: the number of its last whole
// event, whether that is the last of the turn, and the offset for the next event.
func readTail(file *os.File) (seq int64, over bool, size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, false, 0, err
	}
	size, err = replayEvents(file, 0, info.Size(), -1, func(e agent.Event) error {
		seq, over = e.Seq, e.Type == agent.Finished
		return nil
	})
	if errors.Is(err, errBroken) {
		err = nil // the next write replaces the broken rest
	}
	return seq, over, size, err
}
