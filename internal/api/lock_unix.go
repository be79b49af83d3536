//go:build unix

package api

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

// lockSocket locks a socket for one server at a time. The lock file stays, since a waiting process
// may have it open.
func lockSocket(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: another server uses the path; stop it or choose another path", atoll.ErrExists)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
