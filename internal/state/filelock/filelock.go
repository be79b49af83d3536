// Package filelock locks files. A lock ends with its process, so it distinguishes the files of running
// processes from those that dead ones have left.
package filelock

import (
	"context"
	"os"
	"time"
)

// Try acquires the exclusive lock of an open file, which is held until the file is closed. It returns
// false if another process holds it. On systems without file locks it returns ErrUnsupported.
func Try(f *os.File) (bool, error) { return tryLock(f) }

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
