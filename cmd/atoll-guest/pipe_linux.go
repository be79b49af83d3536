package main

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// pipePatience bounds how long a guest that was just started may take to listen.
const pipePatience = 30 * time.Second

// pipeMain connects the standard streams to the guest's socket: `pipe [SOCKET]`, for engines
// on other machines.
func pipeMain(args []string) int {
	path := defaultSocket
	if len(args) > 0 {
		path = args[0]
	}
	conn, err := dialListening(path)
	if err != nil {
		return printFailure("pipe", err)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin) // the guest sees the end of it
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil && !errors.Is(err, unix.EPIPE) { // the host has hung up
		return printFailure("pipe", err)
	}
	return 0
}

// dialListening connects to a socket that the guest may be about to create: the guest sets its
// mode when it listens.
func dialListening(path string) (net.Conn, error) {
	conn, err := net.Dial("unix", path) //nolint:noctx // it ends with the process
	if !isTooEarly(err) {
		return conn, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	changes := os.NewFile(uintptr(fd), "inotify")
	defer changes.Close()
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), unix.IN_CREATE|unix.IN_ATTRIB|unix.IN_MOVED_TO); err != nil {
		return nil, err
	}
	if err := changes.SetReadDeadline(time.Now().Add(pipePatience)); err != nil {
		return nil, err
	}
	for {
		conn, err := net.Dial("unix", path) //nolint:noctx // likewise
		if !isTooEarly(err) {
			return conn, err
		}
		if _, werr := changes.Read(make([]byte, 4096)); werr != nil {
			return nil, errors.Join(err, werr)
		}
	}
}

func isTooEarly(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}
