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

// pipePatience is how long a guest may take to listen that was started just now.
const pipePatience = 30 * time.Second

// pipeMain joins the standard streams to the guest's socket: `pipe [SOCKET]`,
// for engines that are not on this machine.
func pipeMain(args []string) int {
	path := defaultSocket
	if len(args) > 0 {
		path = args[0]
	}
	conn, err := dialListening(path)
	if err != nil {
		return fail("pipe", err)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin) // the guest sees the end of it
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	if _, err := io.Copy(os.Stdout, conn); err != nil {
		return fail("pipe", err)
	}
	return 0
}

// dialListening connects to a socket, which the guest may be about to make: it
// sets its mode once it listens.
func dialListening(path string) (net.Conn, error) {
	conn, err := net.Dial("unix", path) //nolint:noctx // it ends with the process
	if !early(err) {
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
		if !early(err) {
			return conn, err
		}
		if _, werr := changes.Read(make([]byte, 4096)); werr != nil {
			return nil, errors.Join(err, werr)
		}
	}
}

func early(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}
