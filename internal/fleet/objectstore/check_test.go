package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// faultyStore is a directory that fails at one step.
type faultyStore struct {
	*Directory
	fails string
}

func (f *faultyStore) fault(step string) error {
	if f.fails == step {
		return atoll.ErrUnavailable
	}
	return nil
}

func (f *faultyStore) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if err := f.fault("storing"); err != nil {
		return 0, err
	}
	return f.Directory.Put(ctx, key, r)
}

func (f *faultyStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if f.fails == "content" {
		return io.NopCloser(bytes.NewReader([]byte("something else"))), nil
	}
	if err := f.fault("reading"); err != nil {
		return nil, err
	}
	return f.Directory.Get(ctx, key)
}

func (f *faultyStore) Delete(ctx context.Context, key string) error {
	return errors.Join(f.fault("removing"), f.Directory.Delete(ctx, key))
}

func (f *faultyStore) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	if f.fails == "missing" {
		return func(func(Object, error) bool) {}
	}
	if err := f.fault("listing"); err != nil {
		return func(yield func(Object, error) bool) { yield(Object{}, err) }
	}
	return f.Directory.List(ctx, prefix)
}

func TestCheck(t *testing.T) {
	for fails, want := range map[string]string{
		"": "", "storing": "storing an object", "reading": "reading an object", "content": "other content", "listing": "listing objects", "missing": "does not name", "removing": "removing an object",
	} {
		s := &faultyStore{Directory: &Directory{Path: t.TempDir()}, fails: fails}
		err := Check(t.Context(), s)
		if want == "" && err != nil {
			t.Errorf("a storage that works: %v", err)
		}
		if want != "" && (!errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), want)) {
			t.Errorf("a storage that fails at %q: %v; want %q", fails, err, want)
		}
		for o, err := range s.Directory.List(t.Context(), "") {
			t.Errorf("a storage that fails at %q: left is %s, %v", fails, o.Key, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), &Directory{Path: file}); err == nil {
		t.Error("a file in the place of the directory works")
	}
}
