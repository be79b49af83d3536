//go:build unix

package server

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

// lockSocket lets one server at a time have a socket. The file stays: one who
// waits for it may have it open.
func lockSocket(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another server has it; end it or choose another path", atoll.ErrExists)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
