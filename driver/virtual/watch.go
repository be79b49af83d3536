package virtual

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// settle is how long changes that follow each other are told together.
const settle = 5 * time.Millisecond

// Watch calls f for each change below dir, until ctx is done or the sandbox
// is destroyed. In a mount it tells who ever makes a change, elsewhere what
// happens through this process; what another process has done to a kept
// sandbox shows when it is next used here.
func (s *Sandbox) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	w := &watch{s: s, f: f}
	err := w.begin(ctx, dir)
	if err == nil {
		err = w.run(ctx)
	}
	w.end()
	var own *callerError
	if errors.As(err, &own) {
		return own.error // as it is
	}
	return s.fail("watch", err)
}

// callerError is an error of the function that is called for each change.
type callerError struct{ error }

// watch is one watch under way.
type watch struct {
	s      *Sandbox
	f      func(atoll.FileEvent) error
	dir    string        // as it was asked for
	full   string        // without links
	native bool          // some of it is in the sandbox's own files
	seen   *vfs.Snapshot // what was told so far
	files  *vfs.FS

	changed <-chan struct{} // closed when files have changed
	other   <-chan struct{} // closed when they are other files

	mounts []*vfs.MountWatch
	wg     sync.WaitGroup
	done   chan struct{} // closed when the watch ends
	news   chan batch    // from the mounts
}

// batch is what a mount tells at once.
type batch struct {
	list []vfs.HostChange
	err  error
}

// begin finds the directory and notes what it holds. The sandbox is in use
// only for that long: a watch keeps nobody else out.
func (w *watch) begin(ctx context.Context, dir string) error {
	_, op, files, err := w.s.file(ctx, dir)
	if err != nil {
		return err
	}
	defer op.end()
	info, err := files.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w: it is not a directory", dir, atoll.ErrInvalid)
	}
	if err != nil {
		return err
	}
	w.dir = path.Clean(dir)
	if w.full, err = files.Resolve(dir); err != nil {
		return err
	}
	w.done, w.news = make(chan struct{}), make(chan batch)
	if w.mounts, err = files.WatchMounts(w.dir); err != nil {
		return err
	}
	for _, m := range w.mounts {
		w.wg.Go(func() { w.follow(m) })
	}
	w.look()
	info, err = w.seen.Lstat(w.full)
	w.native = err == nil && info.IsDir() && !w.inMount()
	return nil
}

// inMount reports whether the directory is a mount, or in one.
func (w *watch) inMount() bool {
	for _, m := range w.files.Mounts() {
		if w.full == m.Target || strings.HasPrefix(w.full, m.Target+"/") {
			return true
		}
	}
	return false
}

// follow passes on what a mount tells.
func (w *watch) follow(m *vfs.MountWatch) {
	for {
		list, err := m.Next()
		select {
		case w.news <- batch{list, err}:
		case <-w.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// end lets go of everything and waits for it.
func (w *watch) end() {
	if w.done != nil {
		close(w.done)
	}
	for _, m := range w.mounts {
		_ = m.Close() // it was only read
	}
	w.wg.Wait()
}

// look notes the present state of the files.
func (w *watch) look() {
	w.files, w.other = w.s.present()
	w.seen, w.changed = w.files.Observe()
}

// run tells of changes until there is a reason to end.
func (w *watch) run(ctx context.Context) error {
	if err := w.tell(atoll.FileReady, w.dir, true); err != nil {
		return err
	}
	if !w.native {
		w.changed = nil
	}
	for {
		select {
		case <-ctx.Done():
			return timedOut(context.Cause(ctx))
		case <-w.s.gone:
			return fmt.Errorf("%w: the sandbox was destroyed", atoll.ErrNotFound)
		case b := <-w.news:
			if err := w.mounted(b); err != nil {
				return err
			}
			continue
		case <-w.changed:
		case <-w.other:
		}
		timer := time.NewTimer(settle)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-w.s.gone:
		}
		timer.Stop()
		if err := w.compare(); err != nil {
			return err
		}
	}
}

// mounted tells what a mount has told. A mount beneath the directory that
// goes away is not its end.
func (w *watch) mounted(b batch) error {
	for _, c := range b.list {
		if err := w.tell(ops[c.Kind], c.Path, c.Dir); err != nil {
			return err
		}
	}
	if errors.Is(b.err, fs.ErrNotExist) && w.native {
		return nil
	}
	return b.err
}

var ops = map[vfs.ChangeKind]atoll.FileOp{vfs.Added: atoll.FileCreated, vfs.Modified: atoll.FileWritten, vfs.Deleted: atoll.FileRemoved}

// compare tells what has changed in the sandbox's own files.
func (w *watch) compare() error {
	before := w.seen
	w.look()
	if !w.native {
		w.changed = nil
		return nil
	}
	for _, c := range vfs.Diff(before, w.seen) {
		if err := w.change(before, c); err != nil {
			return err
		}
	}
	if info, err := w.seen.Lstat(w.full); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s was removed", atoll.ErrNotFound, w.dir)
	}
	return nil
}

// change tells one difference, if it is below the directory.
func (w *watch) change(before *vfs.Snapshot, c vfs.Change) error {
	rel, ok := strings.CutPrefix(c.Path, strings.TrimSuffix(w.full, "/")+"/")
	if !ok || rel == "" {
		return nil
	}
	name := strings.TrimSuffix(w.dir, "/") + "/" + rel
	old, oldErr := before.Lstat(c.Path)
	now, nowErr := w.seen.Lstat(c.Path)
	if oldErr == nil && nowErr == nil && old.Mode().Type() == now.Mode().Type() {
		return w.tell(atoll.FileWritten, name, now.IsDir())
	}
	if oldErr == nil {
		if err := w.tell(atoll.FileRemoved, name, old.IsDir()); err != nil {
			return err
		}
	}
	if nowErr == nil {
		return w.tell(atoll.FileCreated, name, now.IsDir())
	}
	return nil
}

func (w *watch) tell(op atoll.FileOp, name string, dir bool) error {
	if err := w.f(atoll.FileEvent{Op: op, Path: name, Dir: dir}); err != nil {
		return &callerError{err}
	}
	return nil
}

// present returns the files as they are now, and a channel that is closed
// when others take their place.
func (s *Sandbox) present() (*vfs.FS, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced == nil {
		s.replaced = make(chan struct{})
	}
	return s.fs, s.replaced
}
