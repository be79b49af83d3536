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

// log is the events of one turn: a file of JSON lines that grows at its end.
// Who listens reads the file, so that nobody waits for anybody.
type log struct {
	file *os.File
	most int64 // bytes; what comes then is left out, but for what ends the turn

	mu      sync.Mutex
	size    int64         // that is written; guarded by mu, as all below
	seq     int64         // of the last event
	full    bool          // events are left out
	over    bool          // the last event is there
	err     error         // of writing
	changed chan struct{} // closed when something is written
}

// maxEvent bounds one event in the log, and so on the wire.
const maxEvent = 4 << 20

func newLog(f *os.File, most int64) *log {
	return &log{file: f, most: most, changed: make(chan struct{})}
}

// last returns the number of the last event.
func (l *log) last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// append writes an event, with the next number.
func (l *log) append(e agent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.err != nil && e.Type != agent.Finished {
		return
	}
	if l.size > l.most && e.Type != agent.Finished {
		if l.full {
			return
		}
		l.full = true
		e = agent.Event{Time: e.Time, Turn: e.Turn, Type: agent.Warning, Text: fmt.Sprintf("the log has its %d bytes: events from here to the last are not kept", l.most)}
	}
	e.Seq = l.seq + 1
	line := line(&e)
	if _, err := l.file.WriteAt(line, l.size); err != nil {
		l.err = err
		l.over = e.Type == agent.Finished
		l.wake()
		return
	}
	l.size += int64(len(line))
	l.seq = e.Seq
	l.over = e.Type == agent.Finished
	l.wake()
}

// wake tells those who listen. It is called with mu held.
func (l *log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// state returns how much can be read, whether that is all there will be, and
// what is closed when that changes.
func (l *log) state() (size int64, over bool, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.over, l.changed, l.err
}

// follow calls f for each event after a number, until the last or until ctx is
// done. It has a descriptor of its own.
func (l *log) follow(ctx context.Context, file *os.File, after int64, f func(agent.Event) error) error {
	at := int64(0)
	for {
		size, over, changed, werr := l.state()
		n, err := replay(file, at, size, after, f)
		at += n
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

// errBroken is the error of a log with a line that is none.
var errBroken = fmt.Errorf("%w: the log of the turn is broken", atoll.ErrUnavailable)

// replay calls f for each event of a part of a log, and returns how much of it
// was whole lines.
func replay(file io.ReaderAt, from, to, after int64, f func(agent.Event) error) (int64, error) {
	if from >= to {
		return 0, nil
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, from, to-from), int(min(to-from, 64<<10))+1)
	read := int64(0)
	for {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return read, nil // a line that was not written to its end is none
		}
		if err != nil {
			return read, err
		}
		if seq, ok := number(text); ok && seq <= after {
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

// number reads the number that a line of a log begins with.
func number(text []byte) (int64, bool) {
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

const tooLarge = "the result is too large to be kept"

// line is an event as it is written, within bounds.
func line(e *agent.Event) []byte {
	b, err := json.Marshal(e)
	if err == nil && len(b) <= maxEvent {
		return append(b, '\n')
	}
	small := *e
	shorten(&small)
	if b, err = json.Marshal(&small); err != nil || len(b) > maxEvent {
		small = agent.Event{Seq: e.Seq, Time: e.Time, Turn: e.Turn, Session: cut(e.Session, 1000), Type: e.Type, Text: "an event that is too large to be kept"}
		if e.Result != nil {
			small.Result = &agent.Result{Outcome: e.Result.Outcome, Code: e.Result.Code, Session: cut(e.Result.Session, 1000), Usage: e.Result.Usage, Message: tooLarge}
		}
		b, _ = json.Marshal(&small) // plain values
	}
	return append(b, '\n')
}

// shorten cuts the long texts of an event.
func shorten(e *agent.Event) {
	const most = 256 << 10
	e.Text = cut(e.Text, most)
	if len(e.Raw) > most {
		e.Raw, _ = json.Marshal(cut(string(e.Raw), most)) // a string
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

// shortenResult cuts the long texts of a result, and says so in its message
// where what is left would not show it.
func shortenResult(r *agent.Result, most int) {
	r.Text, r.Stderr, r.Message = cut(r.Text, most), cut(r.Stderr, most/4), cut(r.Message, most/4)
	if len(r.Structured) > most {
		r.Structured = nil
		r.Message = strings.TrimSpace(r.Message + " (what was structured is too large to be kept)")
	}
	r.Denials = slices.Clone(r.Denials[:min(len(r.Denials), 8)])
	for i := range r.Denials {
		shortenCall(&r.Denials[i], most/32)
	}
}

func shortenCall(c *agent.ToolCall, most int) {
	c.Output, c.Title = cut(c.Output, most), cut(c.Title, most/16)
	if len(c.Input) > most {
		c.Input, _ = json.Marshal(map[string]string{"shortened": cut(string(c.Input), most)}) // strings
	}
	if len(c.Diffs) > 0 {
		c.Diffs = append([]agent.Diff(nil), c.Diffs[:min(len(c.Diffs), 4)]...)
		for i := range c.Diffs {
			d := &c.Diffs[i]
			d.New = cut(d.New, most/4)
			if d.Old != nil {
				old := cut(*d.Old, most/4)
				d.Old = &old
			}
		}
	}
}

// cut shortens a text and says so.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "… (shortened)"
}

// tail reads what a log that nobody writes any more ends with: the number of
// its last whole event, whether that ends the turn, and where the next would be.
func tail(file *os.File) (seq int64, over bool, size int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, false, 0, err
	}
	size, err = replay(file, 0, info.Size(), -1, func(e agent.Event) error {
		seq, over = e.Seq, e.Type == agent.Finished
		return nil
	})
	if errors.Is(err, errBroken) {
		err = nil // what comes from there is written over
	}
	return seq, over, size, err
}
