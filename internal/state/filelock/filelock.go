// Package filelock locks files. A lock ends with its process, so it distinguishes the files of running
// processes from those that dead ones have left.
package filelock

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Try acquires the exclusive lock of an open file, which is held until the file is closed. It returns
// false if another process holds it. On systems without file locks it returns ErrUnsupported.
func Try(f *os.File) (bool, error) { return tryLock(f) }

// TryPath acquires the exclusive lock of the file with a name, which is created if it is missing; its directory must exist. It
// returns false if another holder has it, of this process or another. The holder may remove the file before it calls unlock. On
// systems without file locks it always succeeds.
func TryPath(path string) (unlock func(), ok bool, err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, false, err
		}
		ok, err := Try(f)
		if errors.Is(err, atoll.ErrUnsupported) {
			return func() {}, true, f.Close()
		}
		if err != nil || !ok {
			return nil, false, errors.Join(err, f.Close())
		}
		if HasName(f, path) {
			return func() { _ = f.Close() }, true, nil // closing releases the lock
		}
		if err := f.Close(); err != nil { // its former holder removed it in the meantime
			return nil, false, err
		}
	}
}

// HasName reports whether an open file still has the name: after a lock was acquired, its former holder may have removed or replaced
// the file.
func HasName(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, now)
}

// Release releases the lock of a file that stays open.
func Release(f *os.File) error { return unlock(f) }

// Poll calls Try until it succeeds, or until ctx is done; then it returns the cause of ctx. It works
// on every system and blocks no thread, unlike Wait.
func Poll(ctx context.Context, f *os.File) error { return poll(ctx, f, Try) }

// PollShared waits like Poll for a lock that several processes may hold, and others exclusively. A
// process that has the exclusive lock of the file exchanges it.
func PollShared(ctx context.Context, f *os.File) error { return poll(ctx, f, tryShared) }

func poll(ctx context.Context, f *os.File, try func(*os.File) (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := try(f); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C: // there is no notification of a free lock without blocking a thread
		}
	}
}
