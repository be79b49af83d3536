package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// ListenTCP listens on HOST:PORT. A peer that vanishes is noticed within half a
// minute. With files, which may be nil, it speaks TLS.
func ListenTCP(ctx context.Context, address string, files *TLSFiles) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("%w: listen on %q: must be HOST:PORT, as in 127.0.0.1:7070 or [::]:7070", atoll.ErrInvalid, address)
	}
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, badAddress(address, err)
	}
	if files == nil {
		return l, nil
	}
	secure, err := files.listener(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return secure, nil
}

// badAddress says why an address can't be listened on.
func badAddress(address string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: listen on %s: another program listens there; choose another port", atoll.ErrExists, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: listen on %s: this machine has no such address", atoll.ErrInvalid, address)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: listen on %s: this user may not; ports from 1024 on are free to all", atoll.ErrDenied, address)
	case errors.As(err, &dns):
		return fmt.Errorf("%w: listen on %s: %w", atoll.ErrInvalid, address, dns)
	}
	return fmt.Errorf("%w: listen on %s: %w", atoll.ErrUnavailable, address, err)
}

// maxSocket is how long the path of a unix socket may be, on every system.
const maxSocket = 103

// ListenUnix listens on a socket that only this user reaches. One that a dead
// server left is replaced, one that a server answers on is ErrExists. Closing
// the listener removes it.
func ListenUnix(path string) (net.Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	dir, name := filepath.Split(path)
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	private := filepath.Join(dir, "."+hex.EncodeToString(b))
	if most := maxSocket - len(private) + len(dir) - len("/s"); len(path) > maxSocket || len(private)+2 > maxSocket {
		return nil, fmt.Errorf("%w: listen on %s: the path has %d bytes, and a socket's directory may have %d: choose a shorter one", atoll.ErrInvalid, path, len(path), most)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	unlock, err := lockSocket(filepath.Join(dir, name+".lock"))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := replaceSocket(path, private)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), unlock())
	}
	l.unlock = unlock
	return l, nil
}

// replaceSocket makes a socket in a directory that only this user enters, and
// moves it to its place in one step: nobody else can connect before its mode is
// right, and there is no moment without one.
func replaceSocket(path, private string) (*socket, error) {
	if err := free(path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(private)
	at := filepath.Join(private, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	var info fs.FileInfo
	for _, step := range []func() error{
		func() error { return os.Chmod(at, 0o600) },
		func() error { return os.Rename(at, path) },
		func() error { info, err = os.Lstat(path); return err },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return &socket{UnixListener: l, path: path, info: info}, nil
}

// free reports why no socket can be put at a path.
func free(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: there is a file that is no socket; remove it or choose another path", atoll.ErrExists)
	}
	c, err := net.DialTimeout("unix", path, time.Second) //nolint:noctx // it has its own end
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err == nil {
		_ = c.Close() // it was only to see
	}
	return fmt.Errorf("%w: a server answers there; end it or choose another path", atoll.ErrExists)
}

// socket is a unix listener that removes its socket, but not a successor's.
type socket struct {
	*net.UnixListener

	path   string
	info   fs.FileInfo
	unlock func() error
	once   sync.Once
	err    error
}

// Addr returns the socket's place, not the one where it was made.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close ends the listener and removes the socket.
func (s *socket) Close() error {
	s.once.Do(func() {
		var errs []error
		if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
			errs = append(errs, os.Remove(s.path))
		}
		s.err = errors.Join(append(errs, s.UnixListener.Close(), s.unlock())...)
	})
	return s.err
}
