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

// settleTime is how long changes are collected before they are reported together.
const settleTime = 5 * time.Millisecond

// Watch calls f for each change below dir until ctx is done or the sandbox is destroyed. It reports
// every change in a mount; in the sandbox's own files it reports what happens through this process,
// and changes that another process made to a stored sandbox when it is next used here.
func (s *Sandbox) Watch(ctx context.Context, dir string, f func(atoll.FileEvent) error) error {
	s.countWatch(1)
	defer s.countWatch(-1)
	w := &watch{s: s, f: f}
	err := w.open(ctx, dir)
	if err == nil {
		err = w.run(ctx)
	}
	w.close()
	var own *callerError
	if errors.As(err, &own) {
		return own.error // as it is
	}
	return s.wrapError("watch", err)
}

// countWatch counts a watch: while there is one, the files stay in memory.
func (s *Sandbox) countWatch(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers += n
}

// callerError is an error of the caller's function.
type callerError struct{ error }

// watch is one watch in progress.
type watch struct {
	s      *Sandbox
	f      func(atoll.FileEvent) error
	dir    string        // as the caller named it
	full   string        // with links resolved
	native bool          // part of it is in the sandbox's own files
	seen   *vfs.Snapshot // state that was reported
	files  *vfs.FS

	changed  <-chan struct{} // closed when files have changed
	replaced <-chan struct{} // closed when they are other files

	mounts      []*vfs.MountWatch
	wg          sync.WaitGroup
	done        chan struct{} // closed when the watch ends
	mountEvents chan batch    // from the mounts
}

// batch is what a mount reports at once.
type batch struct {
	list []vfs.HostChange
	err  error
}

// open finds the directory and notes its content. Its operation ends before it returns: a watch
// does not keep other processes from a stored sandbox.
func (w *watch) open(ctx context.Context, dir string) error {
	_, op, files, err := w.s.beginFile(ctx, dir)
	if err != nil {
		return err
	}
	defer op.close()
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
	w.done, w.mountEvents = make(chan struct{}), make(chan batch)
	if w.mounts, err = files.WatchMounts(w.dir); err != nil {
		return err
	}
	for _, m := range w.mounts {
		w.wg.Go(func() { w.forwardMount(m) })
	}
	w.observeFiles()
	info, err = w.seen.Lstat(w.full)
	w.native = err == nil && info.IsDir() && !w.inMount()
	return nil
}

// inMount reports whether the directory is in a mount.
func (w *watch) inMount() bool {
	for _, m := range w.files.Mounts() {
		if w.full == m.Target || strings.HasPrefix(w.full, m.Target+"/") {
			return true
		}
	}
	return false
}

// forwardMount forwards the changes of a mount.
func (w *watch) forwardMount(m *vfs.MountWatch) {
	for {
		list, err := m.Next()
		select {
		case w.mountEvents <- batch{list, err}:
		case <-w.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// close releases everything and waits for the goroutines of the watch.
func (w *watch) close() {
	if w.done != nil {
		close(w.done)
	}
	for _, m := range w.mounts {
		_ = m.Close() // it was only read
	}
	w.wg.Wait()
}

// observeFiles notes the current state of the files.
func (w *watch) observeFiles() {
	w.files, w.replaced = w.s.currentFiles()
	w.seen, w.changed = w.files.Observe()
}

// run reports changes until the watch ends.
func (w *watch) run(ctx context.Context) error {
	if err := w.emitEvent(atoll.FileReady, w.dir, true); err != nil {
		return err
	}
	if !w.native {
		w.changed = nil
	}
	for {
		select {
		case <-ctx.Done():
			return wrapTimeout(context.Cause(ctx))
		case <-w.s.closed:
			return fmt.Errorf("%w: the sandbox was destroyed", atoll.ErrNotFound)
		case b := <-w.mountEvents:
			if err := w.emitMountChanges(b); err != nil {
				return err
			}
			continue
		case <-w.changed:
		case <-w.replaced:
		}
		timer := time.NewTimer(settleTime)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-w.s.closed:
		}
		timer.Stop()
		if err := w.emitChanges(); err != nil {
			return err
		}
	}
}

// emitMountChanges reports the changes of a mount. The watch goes on when a mount below its
// directory disappears.
func (w *watch) emitMountChanges(b batch) error {
	for _, c := range b.list {
		if err := w.emitEvent(ops[c.Kind], c.Path, c.Dir); err != nil {
			return err
		}
	}
	if errors.Is(b.err, fs.ErrNotExist) && w.native {
		return nil
	}
	return b.err
}

var ops = map[vfs.ChangeKind]atoll.FileOp{vfs.Added: atoll.FileCreated, vfs.Modified: atoll.FileWritten, vfs.Deleted: atoll.FileRemoved}

// emitChanges reports what changed in the sandbox's own files.
func (w *watch) emitChanges() error {
	before := w.seen
	w.observeFiles()
	if !w.native {
		w.changed = nil
		return nil
	}
	for _, c := range vfs.Diff(before, w.seen) {
		if err := w.emitChange(before, c); err != nil {
			return err
		}
	}
	if info, err := w.seen.Lstat(w.full); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s was removed", atoll.ErrNotFound, w.dir)
	}
	return nil
}

// emitChange reports one difference, if it is below the directory.
func (w *watch) emitChange(before *vfs.Snapshot, c vfs.Change) error {
	rel, ok := strings.CutPrefix(c.Path, strings.TrimSuffix(w.full, "/")+"/")
	if !ok || rel == "" {
		return nil
	}
	name := strings.TrimSuffix(w.dir, "/") + "/" + rel
	old, oldErr := before.Lstat(c.Path)
	now, nowErr := w.seen.Lstat(c.Path)
	if oldErr == nil && nowErr == nil && old.Mode().Type() == now.Mode().Type() {
		return w.emitEvent(atoll.FileWritten, name, now.IsDir())
	}
	if oldErr == nil {
		if err := w.emitEvent(atoll.FileRemoved, name, old.IsDir()); err != nil {
			return err
		}
	}
	if nowErr == nil {
		return w.emitEvent(atoll.FileCreated, name, now.IsDir())
	}
	return nil
}

func (w *watch) emitEvent(op atoll.FileOp, name string, dir bool) error {
	if err := w.f(atoll.FileEvent{Op: op, Path: name, Dir: dir}); err != nil {
		return &callerError{err}
	}
	return nil
}

// currentFiles returns the files, and a channel that is closed when they are replaced.
func (s *Sandbox) currentFiles() (*vfs.FS, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced == nil {
		s.replaced = make(chan struct{})
	}
	return s.fs, s.replaced
}
