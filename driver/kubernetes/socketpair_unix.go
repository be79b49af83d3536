//go:build unix

package kubernetes

import (
	"errors"
	"net"
	"os"
	"syscall"

	"github.com/atoll-sandbox/atoll/internal/wire"
)

// socketPair returns both ends of a connection, one as a file for another process.
func socketPair() (theirs *os.File, ours wire.HalfCloser, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	theirs = os.NewFile(uintptr(fds[0]), "guest")
	f := os.NewFile(uintptr(fds[1]), "gate")
	conn, err := net.FileConn(f)
	_ = f.Close() // conn has a duplicate
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return theirs, conn.(*net.UnixConn), nil //nolint:forcetypeassert // it is
}
