package egress

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// WaitForExit waits until no proxy runs, which is soon after the end of its guest. Before that, Start would
// find the old proxy.
func (c *Control) WaitForExit(ctx context.Context) error {
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
	go func() { // ends with the proxy
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
