//go:build unix

package objectstore

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// TestPipeAsObject: a pipe in the place of an object, by somebody who may write to the directory, holds no reader.
func TestPipeAsObject(t *testing.T) {
	d := &Directory{Path: t.TempDir()}
	if err := unix.Mkfifo(filepath.Join(d.Path, "object"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := d.Get(t.Context(), "object")
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, atoll.ErrUnavailable) {
			t.Errorf("read a pipe: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a writer of the pipe")
	}
}
