package statedir

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Lock acquires the exclusive lock of a sandbox, which is needed to change it. It waits until
// the lock is free or ctx is done. The lock is held until the returned file
// is closed. A missing sandbox is atoll.ErrNotFound.
func (h *Home[T]) Lock(ctx context.Context, id string) (*os.File, error) {
	return h.acquireLock(ctx, id, unix.LOCK_EX)
}

// LockShared acquires a shared lock of a sandbox: it waits until no process changes the sandbox
// and keeps others from changing it. See Lock.
func (h *Home[T]) LockShared(ctx context.Context, id string) (*os.File, error) {
	return h.acquireLock(ctx, id, unix.LOCK_SH)
}

// IsChanging reports whether a process holds the exclusive lock of a sandbox.
func (h *Home[T]) IsChanging(id string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	held, err := h.LockShared(ctx, id)
	if err == nil {
		_ = held.Close()
	}
	return errors.Is(err, context.Canceled)
}

func (h *Home[T]) acquireLock(ctx context.Context, id string, kind int) (*os.File, error) {
	if atoll.CheckID(id) != nil {
		return nil, atoll.ErrNotFound
	}
	f, err := os.OpenFile(filepath.Join(h.Path(id), LockFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, atoll.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	if err := lockFile(f, kind|unix.LOCK_NB); err == nil {
		return f, nil
	}
	done := make(chan error, 1)
	go func() { done <- lockFile(f, kind) }()
	select {
	case err := <-done:
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	case <-ctx.Done():
		go func() { // flock can't be interrupted
			<-done
			_ = f.Close() // the caller has given up
		}()
		return nil, context.Cause(ctx)
	}
}

// lockDir locks a directory and creates its lock file if it is missing.
func lockDir(dir string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f, unix.LOCK_EX|flag); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func lockFile(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}
