package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// sweep destroys all sandboxes of a home when its input ends. As a program of
// its own it does so also when the tests are killed.
func sweep() {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := load(nil)
	errs := []error{err}
	home := os.Getenv("ATOLL_HOME")
	for _, d := range drivers(home, os.Getenv("ATOLL_DOCKER_HOST"), c.machines(home), c.cluster(home)) {
		if d.Name() == os.Getenv("ATOLL_DRIVER") {
			errs = append(errs, destroyAll(ctx, d))
		}
		if c, ok := d.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
