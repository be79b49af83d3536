package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/atoll-sandbox/atoll/internal/guest"
)

// defaultSocket is where a guest in a container listens.
const defaultSocket = "/run/atoll/guest.sock"

// serveMain is process 1 of a container: `serve [SOCKET]`, its configuration in
// $ATOLL_GUEST.
func serveMain(args []string) int {
	var cfg guest.Config
	if text := os.Getenv("ATOLL_GUEST"); text != "" {
		if err := json.Unmarshal([]byte(text), &cfg); err != nil {
			return fail("serve", fmt.Errorf("ATOLL_GUEST: %w", err))
		}
	}
	os.Clearenv() // what follows starts programs
	path := defaultSocket
	if len(args) > 0 {
		path = args[0]
	}
	l, err := listen(path)
	if err != nil {
		return fail("serve", err)
	}
	return fail("serve", guest.Run(l, cfg))
}

// listen listens at a path, which is there when connections are taken, and not
// before. What a container that was stopped has left there makes way.
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
