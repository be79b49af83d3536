package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// Bounds of what a watch remembers.
const (
	maxKnown      = 1 << 18  // names; beyond, a watch ends with its connection
	maxKnownBytes = 64 << 20 // of them, with glimpseCost for each; likewise
	maxResumes    = 100      // connections after the first
)

// Watch tells of changes below a directory; see atoll.Watcher. It outlives its
// connection: when that breaks because the driver has put other files in place,
// or the guest anew, it connects again and tells what is different.
func (l *Link) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	r, err := named(dir)
	if err != nil {
		return l.fail("watch", err)
	}
	w := &watching{dir: string(r.Path), f: f, known: make(map[string]glimpse)}
	for range maxResumes {
		c, err := l.begin(ctx, "watch")
		if err != nil {
			return err
		}
		err = w.follow(ctx, c, r)
		var own *callerError
		if errors.As(err, &own) {
			return own.error // as it is
		}
		select {
		case <-c.Done():
		default:
			return l.fail("watch", ended(ctx, err))
		}
		if cerr := context.Cause(ctx); cerr != nil || w.blind || !w.ready && !errors.Is(err, errUnsent) {
			return l.fail("watch", ended(ctx, err))
		}
	}
	return l.fail("watch", fmt.Errorf("%w: the connection breaks again and again", atoll.ErrUnavailable))
}

// callerError is an error of a function that is called for each event.
type callerError struct{ error }

// watching is a watch under way, over all its connections.
type watching struct {
	dir   string
	f     func(atoll.FileEvent) error
	ready bool               // the listener was told
	known map[string]glimpse // what there is, as far as the listener knows
	bytes int                // that known takes, and what a connection tells before it is ready
	blind bool               // that would be too much
}

// glimpseCost is what a name takes besides its bytes.
const glimpseCost = 96

// glimpse is what is known of a file.
type glimpse struct {
	stamp uint64
	dir   bool
}

// follow tells what one connection has to say.
func (w *watching) follow(ctx context.Context, c *Client, r fileRequest) error {
	d, err := c.download(ctx, func() {}, OpWatch, r)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what counts is what was read
	sights := sightReader{r: bufio.NewReader(d)}
	now := make(map[string]glimpse)
	w.bytes = weight(w.known) // not what an earlier connection told in part
	for begun := false; ; {
		e, err := sights.read()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = broken(err)
			}
			return err
		}
		switch {
		case e.kind == sightReady && !begun:
			begun = true
			if err := w.begin(now); err != nil {
				return err
			}
		case e.kind == sightHave && !begun:
			w.note(now, &e)
		case begun && e.kind != sightReady && e.kind != sightHave:
			w.note(w.known, &e)
			if err := w.tell(sightOps[e.kind], e.path, e.dir); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: a sight %q now", errWire, e.kind)
		}
	}
}

// note remembers what was seen, and nothing any more once that is too much.
func (w *watching) note(known map[string]glimpse, e *sight) {
	_, have := known[e.path]
	cost := len(e.path) + glimpseCost
	switch {
	case w.blind:
	case e.kind == sightRemoved:
		if have {
			delete(known, e.path)
			w.bytes -= cost
		}
	case have:
		known[e.path] = glimpse{e.stamp, e.dir}
	case len(known) >= maxKnown || w.bytes+cost > maxKnownBytes:
		w.blind, w.bytes = true, 0
		clear(known)
		w.known = nil // nothing is compared with it
	default:
		known[e.path] = glimpse{e.stamp, e.dir}
		w.bytes += cost
	}
}

// weight is what names take.
func weight(known map[string]glimpse) int {
	n := 0
	for name := range known {
		n += len(name) + glimpseCost
	}
	return n
}

// begin tells that the watch has begun, or what has become different since it
// was interrupted.
func (w *watching) begin(now map[string]glimpse) error {
	before := w.known
	w.known = now
	w.bytes = weight(now)
	if !w.ready {
		w.ready = true
		return w.tell(atoll.FileReady, "", true)
	}
	if w.blind {
		return fmt.Errorf("%w: there are too many files to tell what has changed", atoll.ErrUnavailable)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(before))) {
		if g, ok := now[name]; !ok || g.dir != before[name].dir {
			if err := w.tell(atoll.FileRemoved, name, before[name].dir); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		g, op := now[name], atoll.FileCreated
		if old, ok := before[name]; ok && old.dir == g.dir {
			if op = atoll.FileWritten; old == g {
				continue
			}
		}
		if err := w.tell(op, name, g.dir); err != nil {
			return err
		}
	}
	return nil
}

func (w *watching) tell(op atoll.FileOp, name string, dir bool) error {
	full := w.dir
	if name != "" {
		full = strings.TrimSuffix(w.dir, "/") + "/" + name
	}
	if err := w.f(atoll.FileEvent{Op: op, Path: full, Dir: dir}); err != nil {
		return &callerError{err}
	}
	return nil
}
