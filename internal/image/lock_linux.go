package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// lock takes a file's lock, unix.LOCK_SH or unix.LOCK_EX, that all processes
// which use the store know of. The caller calls unlock.
func lock(ctx context.Context, path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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
		return nil, fmt.Errorf("%w: waiting for another process at the images: %w", atoll.ErrTimeout, context.Cause(ctx))
	}
}
