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

// Limits on the memory of a watch on the host.
const (
	maxFileStates   = 1 << 18  // names; a watch with more ends with its connection
	maxWatchedBytes = 64 << 20 // bytes of these names, with fileStateCost for each
	maxResumes      = 100      // reconnections
)

// Watch reports changes below a directory; see atoll.Watcher. It outlives its connection: if that
// ends because the driver has replaced the files or restarted the guest, it reconnects and reports
// the differences.
func (l *Link) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	r, err := newFileRequest(dir)
	if err != nil {
		return l.wrapError("watch", err)
	}
	w := &fileWatch{dir: string(r.Path), f: f, files: make(map[string]fileState)}
	for range maxResumes {
		c, err := l.beginOp(ctx, "watch")
		if err != nil {
			return err
		}
		err = w.readConnection(ctx, c, r)
		var own *callerError
		if errors.As(err, &own) {
			return own.error // unwrapped
		}
		select {
		case <-c.Done():
		default:
			return l.wrapError("watch", preferCause(ctx, err))
		}
		if cerr := context.Cause(ctx); cerr != nil || w.overflow || !w.ready && !errors.Is(err, errUnsent) {
			return l.wrapError("watch", preferCause(ctx, err))
		}
	}
	return l.wrapError("watch", fmt.Errorf("%w: the connection was lost too often", atoll.ErrUnavailable))
}

// callerError is an error of the caller's function for events.
type callerError struct{ error }

// fileWatch is the state of a watch over all its connections.
type fileWatch struct {
	dir      string
	f        func(atoll.FileEvent) error
	ready    bool                 // FileReady was reported
	files    map[string]fileState // files that the caller knows
	bytes    int                  // size of files, or of a connection's initial list before it is ready
	overflow bool                 // the limits were exceeded; files is not kept any more
}

// fileStateCost is the memory of a file's entry besides its name, in bytes.
const fileStateCost = 96

// fileState is the last reported state of a file.
type fileState struct {
	stamp uint64
	dir   bool
}

// readConnection reports the events of one connection.
func (w *fileWatch) readConnection(ctx context.Context, c *Client, r fileRequest) error {
	d, err := c.startDownload(ctx, func() {}, OpWatch, r)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // read errors are returned
	sights := watchEventReader{r: bufio.NewReader(d)}
	now := make(map[string]fileState)
	w.bytes = measureNames(w.files) // without the partial list of an earlier connection
	for begun := false; ; {
		e, err := sights.read()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = wrapBroken(err)
			}
			return err
		}
		switch {
		case e.kind == watchReady && !begun:
			begun = true
			if err := w.reportStart(now); err != nil {
				return err
			}
		case e.kind == watchExisting && !begun:
			w.rememberFile(now, &e)
		case begun && e.kind != watchReady && e.kind != watchExisting:
			w.rememberFile(w.files, &e)
			if err := w.reportEvent(watchEventOps[e.kind], e.path, e.dir); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: unexpected watch event %q", errWire, e.kind)
		}
	}
}

// rememberFile updates the state of a file. Past the limits it drops all states.
func (w *fileWatch) rememberFile(known map[string]fileState, e *watchEvent) {
	_, have := known[e.path]
	cost := len(e.path) + fileStateCost
	switch {
	case w.overflow:
	case e.kind == watchRemoved:
		if have {
			delete(known, e.path)
			w.bytes -= cost
		}
	case have:
		known[e.path] = fileState{e.stamp, e.dir}
	case len(known) >= maxFileStates || w.bytes+cost > maxWatchedBytes:
		w.overflow, w.bytes = true, 0
		clear(known)
		w.files = nil // there is nothing to compare with any more
	default:
		known[e.path] = fileState{e.stamp, e.dir}
		w.bytes += cost
	}
}

// measureNames returns the memory that the entries take, in bytes.
func measureNames(known map[string]fileState) int {
	n := 0
	for name := range known {
		n += len(name) + fileStateCost
	}
	return n
}

// reportStart reports that the watch is ready, or the differences since it was interrupted.
func (w *fileWatch) reportStart(now map[string]fileState) error {
	before := w.files
	w.files = now
	w.bytes = measureNames(now)
	if !w.ready {
		w.ready = true
		return w.reportEvent(atoll.FileReady, "", true)
	}
	if w.overflow {
		return fmt.Errorf("%w: there are too many files to find the changes since the connection was lost", atoll.ErrUnavailable)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(before))) {
		if g, ok := now[name]; !ok || g.dir != before[name].dir {
			if err := w.reportEvent(atoll.FileRemoved, name, before[name].dir); err != nil {
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
		if err := w.reportEvent(op, name, g.dir); err != nil {
			return err
		}
	}
	return nil
}

func (w *fileWatch) reportEvent(op atoll.FileOp, name string, dir bool) error {
	full := w.dir
	if name != "" {
		full = strings.TrimSuffix(w.dir, "/") + "/" + name
	}
	if err := w.f(atoll.FileEvent{Op: op, Path: full, Dir: dir}); err != nil {
		return &callerError{err}
	}
	return nil
}
