//go:build unix

package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// firstInherited is the descriptor of the first socket that a service manager passes.
const firstInherited = 3

// Inherited holds the sockets that a service manager has opened for this process.
type Inherited struct {
	Listeners []net.Listener

	files []*os.File
}

// Inherit returns the sockets of systemd's protocol of socket activation (sd_listen_fds): $LISTEN_FDS of
// them, if $LISTEN_PID is this process. It removes the variables, so that no child takes them for its
// own. TCP sockets use TLS with files, which may be nil. A Unix socket that all users of the machine may
// connect to is refused, since its clients need no token.
func Inherit(files *TLSFiles) (in *Inherited, err error) {
	in = &Inherited{}
	count, pid := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_PID")
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return in, nil
	}
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 64 {
		return nil, fmt.Errorf("%w: LISTEN_FDS is %q; want a number from 0 to 64", atoll.ErrInvalid, count)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	for fd := firstInherited; fd < firstInherited+n; fd++ {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "LISTEN_FD_"+strconv.Itoa(fd))
		in.files = append(in.files, f)
		l, err := inheritListener(f, files)
		if err != nil {
			return in, fmt.Errorf("socket %d of LISTEN_FDS: %w", fd, err)
		}
		in.Listeners = append(in.Listeners, l)
	}
	return in, nil
}

// inheritListener makes a listener of a socket.
func inheritListener(f *os.File, files *TLSFiles) (net.Listener, error) {
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not a socket that listens: %w", atoll.ErrInvalid, err)
	}
	switch l := l.(type) {
	case *net.UnixListener:
		l.SetUnlinkOnClose(false) // the service manager made it
		if err := checkPrivateSocket(l.Addr().String()); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	case *net.TCPListener:
		return secureListener(l, files)
	}
	return nil, errors.Join(fmt.Errorf("%w: it is of the network %s; want tcp or unix", atoll.ErrInvalid, l.Addr().Network()), l.Close())
}

// checkPrivateSocket reports an error if every user of the machine can connect to a Unix socket.
func checkPrivateSocket(path string) error {
	if path == "" || strings.HasPrefix(path, "@") {
		return fmt.Errorf("%w: the Unix socket %q has no file, so every user could connect", atoll.ErrDenied, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket || info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%w: %s has the mode %v, with which every user could connect: set SocketMode=0600, or 0660 with a SocketGroup", atoll.ErrDenied, path, info.Mode())
	}
	return nil
}

// Environment returns the variables with which a program that replaces this process inherits the
// sockets again, and makes the sockets stay open then. It returns nil if there are none.
func (in *Inherited) Environment() ([]string, error) {
	if len(in.files) == 0 {
		return nil, nil
	}
	for i := range in.files {
		if _, err := unix.FcntlInt(uintptr(firstInherited+i), unix.F_SETFD, 0); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return []string{"LISTEN_FDS=" + strconv.Itoa(len(in.files)), "LISTEN_PID=" + strconv.Itoa(os.Getpid())}, nil
}

// Close closes the listeners and this process's copies of the sockets, on which the service manager
// still listens.
func (in *Inherited) Close() error {
	var errs []error
	for _, l := range in.Listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	for _, f := range in.files {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
