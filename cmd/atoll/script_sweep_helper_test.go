package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/cmd/internal/program"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// sweep destroys all sandboxes of a home when its input ends, and waits for who watches them. As a program of
// its own it does so also when the tests are killed.
func sweep() {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := config.Load(nil)
	errs := []error{err}
	home := os.Getenv("ATOLL_HOME")
	watched, lerr := unwatch(home)
	errs = append(errs, lerr)
	for _, d := range program.Drivers(c, home) {
		if d.Name() == os.Getenv("ATOLL_DRIVER") {
			errs = append(errs, destroyAll(ctx, d))
		}
		if c, ok := d.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	for _, f := range watched {
		errs = append(errs, filelock.Poll(ctx, f), f.Close())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// unwatch takes the locks of those who watch the sandboxes of a home, which they end
// for as soon as these are gone, and returns them: they are free when nobody watches.
func unwatch(home string) (locks []*os.File, err error) {
	names, err := filepath.Glob(filepath.Join(home, "sync", "*.lock"))
	errs := []error{err}
	for _, name := range names {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			locks = append(locks, f)
			err = os.Remove(name)
		}
		errs = append(errs, err)
	}
	return locks, errors.Join(errs...)
}

func destroyAll(ctx context.Context, d atoll.Driver) error {
	list, err := d.List(ctx)
	errs := []error{err}
	for _, st := range list {
		sb, err := d.Open(ctx, st.ID)
		if err == nil {
			err = sb.Destroy(ctx)
		}
		if !errors.Is(err, atoll.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
