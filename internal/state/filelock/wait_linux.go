package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// The kinds of locks.
const (
	Shared    = unix.LOCK_SH
	Exclusive = unix.LOCK_EX
)

// Acquire acquires the lock of a file, Shared or Exclusive, and waits for it until ctx is done, which is
// ErrTimeout. A missing file is created. The caller must call unlock.
func Acquire(ctx context.Context, path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err == nil {
		return func() { _ = f.Close() }, nil // closing releases the lock
	}
	taken := make(chan error, 1)
	go func() { // ends when the holder releases the lock
		err := unix.Flock(int(f.Fd()), how)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(int(f.Fd()), how)
		}
		taken <- err
	}()
	select {
	case err := <-taken:
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", filepath.Base(path), err), f.Close())
		}
		return func() { _ = f.Close() }, nil
	case <-ctx.Done():
		go func() {
			<-taken
			_ = f.Close()
		}()
		return nil, fmt.Errorf("%w: waiting for another process at %s: %w", atoll.ErrTimeout, path, context.Cause(ctx))
	}
}
