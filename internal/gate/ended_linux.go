package gate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ended waits until no gate is at work, which is soon after its guest ended:
// before that, Start would give the new guest to the old gate.
func (c *Control) Ended(ctx context.Context) error {
	f, err := os.OpenFile(filepath.Join(c.dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return errors.Join(err, f.Close())
	}
	free := make(chan error, 1)
	go func() { // it ends with the gate
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		free <- errors.Join(err, f.Close())
	}()
	select {
	case err := <-free:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
