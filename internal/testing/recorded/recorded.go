// Package recorded lets tests compare with what real programs answered once.
//
// In the logic tier a test takes the recorded answer. In the real tier it asks the
// program, and the recorded answer must be the same. To record anew, remove the
// file and run the tests of the package with
//
//	ATOLL_TEST=all ATOLL_RECORD=1 go test ./PACKAGE
package recorded

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// Book is a file of answers, each with a key. The zero Book with a File is ready
// to use. Its methods may be called at once.
type Book[T any] struct {
	File string // a gzipped gob, relative to the test's directory

	mu      sync.Mutex
	answers map[string]T // guarded by mu; nil: not loaded
}

// entry is an answer in the file. The entries are sorted by key, so that the same
// answers give the same file.
type entry[T any] struct {
	Key    string
	Answer T
}

// Recording reports whether answers are recorded: $ATOLL_RECORD is set in the real
// tier.
func Recording() bool { return testenv.All() && os.Getenv("ATOLL_RECORD") != "" }

// Answer returns the answer to key: the recorded one in the logic tier, and what
// ask returns in the real tier. It ends the test in the logic tier if there is no
// answer, and fails it in the real tier if the recorded answer is another one.
func (b *Book[T]) Answer(t testing.TB, key string, ask func() T) T {
	t.Helper()
	if !testenv.All() {
		answer, ok := b.Lookup(t, key)
		if !ok {
			t.Fatalf("%s has no answer for %q: record it with ATOLL_TEST=all ATOLL_RECORD=1 go test", b.File, key)
		}
		return answer
	}
	answer := ask()
	if Recording() {
		b.Record(t, key, answer)
		return answer
	}
	if old, ok := b.Lookup(t, key); !ok {
		t.Errorf("%s has no answer for %q: record it with ATOLL_TEST=all ATOLL_RECORD=1 go test", b.File, key)
	} else if !reflect.DeepEqual(old, answer) {
		t.Errorf("%s: the recorded answer for %q is not the program's\nrecorded %.600v\nprogram  %.600v", b.File, key, old, answer)
	}
	return answer
}

// Lookup returns the recorded answer to key, and reports whether there is one.
func (b *Book[T]) Lookup(t testing.TB, key string) (T, bool) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.load(t)
	answer, ok := b.answers[key]
	return answer, ok
}

// Save writes the file when the test ends, if answers are recorded. A test whose
// subtests call Answer or Record calls it first.
func (b *Book[T]) Save(t testing.TB) {
	if Recording() {
		t.Cleanup(func() { b.write(t) })
	}
}

// Record keeps an answer for Save.
func (b *Book[T]) Record(t testing.TB, key string, answer T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.load(t)
	b.answers[key] = answer
}

// load reads the file, once. b.mu is held.
func (b *Book[T]) load(t testing.TB) {
	t.Helper()
	if b.answers != nil {
		return
	}
	b.answers = make(map[string]T)
	data, err := os.ReadFile(b.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var entries []entry[T]
	if err == nil {
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			err = gob.NewDecoder(r).Decode(&entries)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", b.File, err)
	}
	for _, e := range entries {
		b.answers[e.Key] = e.Answer
	}
}

// write writes the file.
func (b *Book[T]) write(t testing.TB) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var entries []entry[T]
	for _, key := range slices.Sorted(maps.Keys(b.answers)) {
		entries = append(entries, entry[T]{key, b.answers[key]})
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		err = errors.Join(gob.NewEncoder(w).Encode(entries), w.Close(), os.MkdirAll(filepath.Dir(b.File), 0o755), os.WriteFile(b.File, out.Bytes(), 0o644))
	}
	if err != nil {
		t.Error(err)
	}
}
