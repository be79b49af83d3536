package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll/internal/guest"
)

// defaultSocket is the socket of a guest in a container.
const defaultSocket = "/run/atoll/guest.sock"

// serveMain is process 1 of a container: `serve [SOCKET]`, with its configuration in
// $ATOLL_GUEST.
func serveMain(args []string) int {
	var cfg guest.Config
	if text := os.Getenv("ATOLL_GUEST"); text != "" {
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			return printFailure("serve", fmt.Errorf("ATOLL_GUEST: %w", err))
		}
	}
	os.Clearenv() // what follows starts programs
	path := defaultSocket
	if len(args) > 0 {
		path = args[0]
	}
	if cfg.SocketOwner != 0 {
		// Commands have no capabilities. This process has, and so has the host's root.
		if err := errors.Join(os.Chmod(filepath.Dir(path), 0o700), os.Chown(filepath.Dir(path), cfg.SocketOwner, cfg.SocketOwner)); err != nil {
			return printFailure("serve", err)
		}
	}
	l, err := listen(path)
	if err != nil {
		return printFailure("serve", err)
	}
	return printFailure("serve", guest.Run(l, cfg))
}

// listen listens at a path, which exists only once connections are accepted. It replaces the
// socket of a stopped container.
func listen(path string) (net.Listener, error) {
	early := path + ".new"
	if err := os.Remove(early); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(early, 0o600); err != nil {
		return nil, err
	}
	return l, os.Rename(early, path)
}
