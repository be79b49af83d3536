package objectstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// checkTimeout bounds how long Check waits for a storage, and once more for the removal of its object.
const checkTimeout = 15 * time.Second

// checkPrefix begins the keys of the objects that Check stores.
const checkPrefix = "check/"

// Check stores a small object, reads it, finds it in a listing and removes it. Its error names the step that failed.
func Check(ctx context.Context, s Store) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("%w: it has not answered for %v", atoll.ErrTimeout, checkTimeout))
	defer cancel()
	key, content := checkPrefix+rand.Text(), []byte("atoll checks whether it can store objects here")
	if _, err := s.Put(ctx, key, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("storing an object: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		if failed := s.Delete(ctx, key); failed != nil {
			err = errors.Join(err, fmt.Errorf("removing an object: %w", failed))
		}
	}()
	r, err := s.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading an object: %w", err)
	}
	got, err := io.ReadAll(io.LimitReader(r, int64(len(content))+1))
	err = errors.Join(err, r.Close())
	switch {
	case err != nil:
		return fmt.Errorf("reading an object: %w", err)
	case !bytes.Equal(got, content):
		return fmt.Errorf("%w: %s: reading an object: it has other content than was stored", atoll.ErrUnavailable, s)
	}
	for o, err := range s.List(ctx, checkPrefix) {
		switch {
		case err != nil:
			return fmt.Errorf("listing objects: %w", err)
		case o.Key == key:
			return nil
		}
	}
	return fmt.Errorf("%w: %s: listing objects: it does not name one that was just stored", atoll.ErrUnavailable, s)
}
