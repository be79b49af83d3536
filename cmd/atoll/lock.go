package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// lockNames keeps other atoll processes from giving out names until unlock
// is called.
func (a *app) lockNames(ctx context.Context) (unlock func() error, err error) {
	if err := os.MkdirAll(a.home, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w (set ATOLL_HOME or --home to one that can be written)", err)
	}
	type result struct {
		unlock func()
		err    error
	}
	done := make(chan result, 1)
	go func() {
		u, err := lockedfile.MutexAt(filepath.Join(a.home, "names.lock")).Lock()
		done <- result{u, err}
	}()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	select {
	case r := <-done:
		return func() error { r.unlock(); return nil }, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, errors.New("another atoll has been giving out names in " + a.home + " for 30 s")
	}
}
