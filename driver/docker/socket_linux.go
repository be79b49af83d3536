package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

const onLinux = true

// errNoSocket reports that the guest does not listen (yet).
var errNoSocket = errors.New("the guest does not listen: the container is starting, or was stopped, as by a restart of its engine")

// dialSocket connects to a socket in a directory that the sandbox can write: it follows no link, and
// connects to nothing but a socket.
func dialSocket(ctx context.Context, dir, sub, name string) (net.Conn, error) {
	fd, err := unix.Open(filepath.Join(dir, sub), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, noSocket(err)
	}
	defer unix.Close(fd)
	socket, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, noSocket(err)
	}
	f := os.NewFile(uintptr(socket), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%w: instead of the guest's socket there is %v", atoll.ErrUnavailable, info.Mode())
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", socket))
	return conn, noSocket(err)
}

func noSocket(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: %w: %w", atoll.ErrUnavailable, errNoSocket, err)
	}
	return err
}

// watch waits for changes in a directory.
type watch struct{ f *os.File }

// watchSocket starts to watch a directory for a socket that is created, or whose mode is set, as its
// owner does when it listens.
func watchSocket(dir, sub string) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("%w: inotify: %w", atoll.ErrUnavailable, err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(dir, sub), unix.IN_CREATE|unix.IN_ATTRIB|unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW); err != nil {
		_ = f.Close() // it was not used
		return nil, fmt.Errorf("%w: inotify: %w", atoll.ErrUnavailable, err)
	}
	return &watch{f}, nil
}

// next waits for a change.
func (w *watch) next(ctx context.Context) error {
	stop := context.AfterFunc(ctx, w.close)
	defer stop()
	_, err := w.f.Read(make([]byte, 4096))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (w *watch) close() { _ = w.f.Close() } // nothing is written to it
