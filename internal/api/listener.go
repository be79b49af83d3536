package api

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

// ListenTCP listens on HOST:PORT. Dead peers are detected within half a minute. With files, which
// may be nil, the listener uses TLS.
func ListenTCP(ctx context.Context, address string, files *TLSFiles) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("%w: listen on %q: must be HOST:PORT, as in 127.0.0.1:7070 or [::]:7070", atoll.ErrInvalid, address)
	}
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError(address, err)
	}
	return secureListener(l, files)
}

// secureListener adds TLS to a listener; without files it stays as it is. After an error it is closed.
func secureListener(l net.Listener, files *TLSFiles) (net.Listener, error) {
	if files == nil {
		return l, nil
	}
	secure, err := files.wrapListener(l)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return secure, nil
}

// listenError explains why an address can't be listened on.
func listenError(address string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: listen on %s: another program listens there; choose another port", atoll.ErrExists, address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: listen on %s: this host has no such address", atoll.ErrInvalid, address)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: listen on %s: permission denied; all users may use ports from 1024 on", atoll.ErrDenied, address)
	case errors.As(err, &dns):
		return fmt.Errorf("%w: listen on %s: %w", atoll.ErrInvalid, address, dns)
	}
	return fmt.Errorf("%w: listen on %s: %w", atoll.ErrUnavailable, address, err)
}

// maxSocket is the longest path of a Unix socket on all systems.
const maxSocket = 103

// ListenUnix listens on a socket that only this user can access. It replaces the socket of a dead
// server; a socket with a running server is ErrExists. Closing the listener removes the socket.
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
		return nil, fmt.Errorf("%w: listen on %s: the path has %d bytes, and the limit is %d: choose a shorter one", atoll.ErrInvalid, path, len(path), most)
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

// replaceSocket creates a socket in a private directory and moves it to its path in one step:
// other users can't connect before its mode is set, and the path always has a socket.
func replaceSocket(path, private string) (*unixListener, error) {
	if err := checkSocketFree(path); err != nil {
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
	return &unixListener{UnixListener: l, path: path, info: info}, nil
}

// checkSocketFree reports why a path can't be used for a socket; nil if it can.
func checkSocketFree(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: the path is a file and no socket; remove it or choose another path", atoll.ErrExists)
	}
	c, err := net.DialTimeout("unix", path, time.Second) //nolint:noctx // it has its own timeout
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err == nil {
		_ = c.Close() // it was opened for the test only
	}
	return fmt.Errorf("%w: a server uses the path; stop it or choose another path", atoll.ErrExists)
}

// unixListener is a Unix listener that removes its own socket only, not that of a successor.
type unixListener struct {
	*net.UnixListener

	path   string
	info   fs.FileInfo
	unlock func() error
	once   sync.Once
	err    error
}

// Addr returns the path of the socket.
func (s *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close closes the listener and removes the socket.
func (s *unixListener) Close() error {
	s.once.Do(func() {
		var errs []error
		if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.info) {
			errs = append(errs, os.Remove(s.path))
		}
		s.err = errors.Join(append(errs, s.UnixListener.Close(), s.unlock())...)
	})
	return s.err
}
