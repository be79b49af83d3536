package filelock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

func TestOneHasIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	if ok, err := filelock.Try(first); !ok || err != nil {
		t.Fatalf("the first: %v, %v", ok, err)
	}
	if ok, err := filelock.Try(second); ok || err != nil {
		t.Fatalf("the second: %v, %v", ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := filelock.Poll(ctx, second); !errors.Is(err, context.Canceled) {
		t.Fatalf("the second, which need not wait any longer: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := filelock.Poll(t.Context(), second); err != nil {
		t.Fatalf("the second, when the first is closed: %v", err)
	}
}

// TestHolderRemovesFile removes a locked file: the next holder has the lock of a new one.
func TestHolderRemovesFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	unlock, ok, err := filelock.TryPath(name)
	if !ok || err != nil {
		t.Fatalf("the first: %v, %v", ok, err)
	}
	if _, ok, err := filelock.TryPath(name); ok || err != nil {
		t.Fatalf("the second: %v, %v", ok, err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	unlock()
	unlock, ok, err = filelock.TryPath(name)
	if !ok || err != nil {
		t.Fatalf("the third: %v, %v", ok, err)
	}
	defer unlock()
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}
