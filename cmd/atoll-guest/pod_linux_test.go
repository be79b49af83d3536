package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestBusyPortIsRetried listens on a port that another socket has for 15 seconds, which is how long a
// host waits for a tunnel.
func TestBusyPortIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.Listen("tcp", busy.Addr().String()); !errors.Is(err, unix.EADDRINUSE) {
			t.Fatalf("the port is not taken: %v", err)
		}
		time.AfterFunc(15*time.Second, func() { _ = busy.Close() })
		l, err := listenPort(busy.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	})
}

func TestEnvironmentOfPod(t *testing.T) {
	ofImage, ofSandbox := splitEnvironment([]string{
		"PATH=/bin", "LANG=C", "HOME=/root", "HOSTNAME=h", "KUBERNETES_SERVICE_HOST=10.0.0.1", "ATOLL_KEY=k", "OWN=1", "KUBERNETES_MINE=2", "EMPTY=",
	}, []string{"OWN", "KUBERNETES_MINE"})
	if !slices.Equal(ofImage, []string{"PATH=/bin", "LANG=C", "EMPTY="}) || !slices.Equal(ofSandbox, []string{"OWN=1", "KUBERNETES_MINE=2"}) {
		t.Errorf("%q, %q", ofImage, ofSandbox)
	}
}

func TestCopyOfSelf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "atoll-guest")
	for range 2 { // what is there makes way
		if err := copySelf(path); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(b, self) {
		t.Errorf("%d of %d bytes, %v", len(b), len(self), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if err := copySelf(filepath.Join(path, "x")); err == nil {
		t.Error("a file is a directory")
	}
}
