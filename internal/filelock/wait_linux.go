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

// How a lock is taken.
const (
	Shared    = unix.LOCK_SH
	Exclusive = unix.LOCK_EX
)

// Wait takes the lock of a file, which is made if it is not there, Shared or
// Exclusive, and waits for who has it until ctx ends: that is ErrTimeout. The
// caller calls unlock.
func Wait(ctx context.Context, path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err == nil {
		return func() { _ = f.Close() }, nil // closing gives it back
	}
	taken := make(chan error, 1)
	go func() { // ends when who has it gives it back
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
