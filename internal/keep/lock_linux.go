package keep

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// Lock takes the lock of a sandbox, when whoever has it gives it up or dies, or
// until ctx is done: who holds it changes its life. It is held until what is
// returned is closed. A sandbox that is not there is atoll.ErrNotFound.
func (h *Home[T]) Lock(ctx context.Context, id string) (*os.File, error) {
	return h.hold(ctx, id, unix.LOCK_EX)
}

// Share waits until nobody changes the life of a sandbox, and keeps that so as
// Lock does, with others.
func (h *Home[T]) Share(ctx context.Context, id string) (*os.File, error) {
	return h.hold(ctx, id, unix.LOCK_SH)
}

// Changing says whether somebody changes the life of a sandbox at this moment.
func (h *Home[T]) Changing(id string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	held, err := h.Share(ctx, id)
	if err == nil {
		_ = held.Close()
	}
	return errors.Is(err, context.Canceled)
}

func (h *Home[T]) hold(ctx context.Context, id string, kind int) (*os.File, error) {
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
	if err := flock(f, kind|unix.LOCK_NB); err == nil {
		return f, nil
	}
	done := make(chan error, 1)
	go func() { done <- flock(f, kind) }()
	select {
	case err := <-done:
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	case <-ctx.Done():
		go func() { // it can't be called back
			<-done
			_ = f.Close() // nobody waits for it
		}()
		return nil, context.Cause(ctx)
	}
}

// lock takes the lock of a directory, which is made if there is none.
func lock(dir string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX|flag); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}
