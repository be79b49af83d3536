package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// tapeRest is how long the rest of a recording may take when its terminal has
// ended.
const tapeRest = 10 * time.Second

// tape is a recording that runs beside an attached terminal, with a client of its own, so that
// it has the size of the terminal and its exact output.
type tape struct {
	file string
	stop context.CancelFunc
	done chan error // how it ended, once
}

// startTape begins to record a terminal into a new file, and waits until its
// screen is in it.
func startTape(ctx context.Context, sb *client.Sandbox, terminal, file string) (*tape, error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it has what was shown, secrets too
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	t := &tape{file: file, stop: stop, done: make(chan error, 1)}
	r := &Recorder{W: f}
	begun := &firstWrite{w: r, done: make(chan struct{})}
	go func() {
		_, err := sb.AttachTerminal(ctx, terminal, atoll.Attachment{Stdout: begun, OnResize: r.RecordSize, ReadOnly: true})
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil
		}
		t.done <- output.CloseAfter(err, f)
	}()
	select {
	case <-begun.done:
		return t, nil
	case err := <-t.done: // nothing was shown, or could be written
		stop()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--record %s: %w", file, err), os.Remove(file))
		}
		t.done <- nil
		return t, nil
	}
}

// finish closes the recording. One whose terminal has ended gets what is still on
// the way.
func (t *tape) finish(ended bool) error {
	defer t.stop()
	wait := time.Duration(0)
	if ended {
		wait = tapeRest
	}
	timer := time.AfterFunc(wait, t.stop)
	err := <-t.done
	if !timer.Stop() && ended && err == nil {
		err = fmt.Errorf("%w: its end has not come for %v", atoll.ErrTimeout, tapeRest)
	}
	if err != nil {
		return fmt.Errorf("the recording %s is not whole: %w", t.file, err)
	}
	return nil
}

// endTape ends a recording when who was before its terminal no longer is: err is
// how that ended.
func endTape(a *app.App, t *tape, ended bool, err error) error {
	terr := t.finish(ended)
	switch {
	case terr == nil:
		a.Progress("atoll: recorded in %s; 'asciinema play' shows it", t.file)
	case err == nil:
		return terr
	default: // the exit status is the program's
		a.Progress("atoll: %v", terr)
	}
	return err
}

// firstWrite is a writer that signals its first Write.
type firstWrite struct {
	w    io.Writer
	once sync.Once
	done chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.once.Do(func() { close(f.done) })
	return n, err
}

// Recorder writes what a terminal shows as asciicast v2: a header, then a line
// for each piece with its time.
type Recorder struct {
	W     io.Writer
	begun time.Time
	size  atoll.Size
	rest  []byte // the beginning of a character whose end is yet to come
}

// RecordSize notes the size; the first one begins the recording.
func (r *Recorder) RecordSize(size atoll.Size) {
	if r.size = size; !r.begun.IsZero() {
		_ = r.writeEvent("r", fmt.Sprintf("%dx%d", size.Cols, size.Rows)) // the next Write fails too
	}
}

// Write notes output. What comes in pieces is noted in whole characters: a piece
// of one is no text, and would be lost.
func (r *Recorder) Write(p []byte) (int, error) {
	if r.begun.IsZero() {
		r.begun = time.Now()
		header := map[string]any{"version": 2, "width": r.size.Cols, "height": r.size.Rows, "timestamp": r.begun.Unix()}
		if err := json.NewEncoder(r.W).Encode(header); err != nil {
			return 0, err
		}
	}
	text := append(r.rest, p...)
	whole := len(text) - incompleteSuffix(text)
	r.rest = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(p), nil
	}
	return len(p), r.writeEvent("o", string(text[:whole]))
}

// incompleteSuffix returns how many bytes at the end of a text begin a character that
// may go on.
func incompleteSuffix(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

func (r *Recorder) writeEvent(kind, data string) error {
	return json.NewEncoder(r.W).Encode([]any{time.Since(r.begun).Seconds(), kind, data})
}
