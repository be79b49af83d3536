//go:build unix

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
	"golang.org/x/sys/unix"
)

// startConn starts a program and returns a connection to its standard streams. Closing the
// connection ends the program.
func startConn(ctx context.Context, name string, args []string) (net.Conn, error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), name)
	defer theirs.Close()
	ours := os.NewFile(uintptr(fds[0]), name)
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...) // it lasts as long as the connection
	cmd.Stdin, cmd.Stdout = theirs, theirs
	if err = fdpass.SealInherited(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", atoll.ErrUnavailable, name, err), conn.Close())
	}
	return &programConn{Conn: conn, cmd: cmd}, nil
}

type programConn struct {
	net.Conn
	cmd  *exec.Cmd
	once sync.Once
}

// Close ends the program.
func (c *programConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		_ = c.cmd.Process.Kill() // it may have ended by itself
		_ = c.cmd.Wait()         // its exit status does not matter
	})
	return err
}
