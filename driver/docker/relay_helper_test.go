package docker_test

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// startRelay returns a tcp:// address on loopback that forwards to an engine's socket.
func startRelay(t *testing.T, host string) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go forwardTo(conn.(*net.TCPConn), strings.TrimPrefix(host, "unix://"))
		}
	})
	return "tcp://" + l.Addr().String()
}

func forwardTo(conn *net.TCPConn, path string) {
	defer conn.Close()
	there, err := net.Dial("unix", path)
	if err != nil {
		return
	}
	defer there.Close()
	go func() {
		_, _ = io.Copy(there, conn)
		_ = there.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, there)
}

// staleSocket returns the path of a socket without a listener.
func staleSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
