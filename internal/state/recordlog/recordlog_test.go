package recordlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func newLog(t *testing.T) *Log {
	t.Helper()
	l := New(filepath.Join(t.TempDir(), "log"))
	if err := l.Create(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// mustAppend appends a commit with two entries: n times the text, and the text.
func mustAppend(t *testing.T, l *Log, text string, n int) {
	t.Helper()
	big := make([]byte, 0, n)
	for range n {
		big = append(big, text...)
	}
	at, err := l.Append([]Entry{{'d', big}, {Commit, []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(big))
	if err := l.ReadAt(got, at[0]); err != nil || string(got) != string(big) {
		t.Fatalf("ReadAt: %q, %v", got, err)
	}
}

// readCommits returns the data of the commits of the log at a path, as a process that locks it sees them.
func readCommits(t *testing.T, path string) ([]string, error) {
	t.Helper()
	l := New(path)
	if _, err := l.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return commitsOf(l)
}

func commitsOf(l *Log) (list []string, err error) {
	err = l.Read(func(kind byte, data []byte, _ int64) error {
		if kind == Commit {
			list = append(list, string(data))
		}
		return nil
	})
	return list, err
}

// TestTornAtEveryByte cuts the last commit off at every byte, as a kill in the middle of its write does, with and
// without zeros in place of what is missing, as a crash of the host leaves them.
func TestTornAtEveryByte(t *testing.T) {
	l := newLog(t)
	mustAppend(t, l, "one", 3)
	before, _ := l.Sizes()
	mustAppend(t, l, "two", 7)
	whole, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for cut := int(before); cut < len(whole); cut++ {
		for _, zeros := range []int{0, 5, len(whole) - cut} {
			text := append(slices.Clone(whole[:cut]), make([]byte, zeros)...)
			want := []string{"one"}
			if string(text) == string(whole) {
				want = []string{"one", "two"}
			}
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			last, err := ReadLast(path)
			if err != nil || string(last) != want[len(want)-1] {
				t.Fatalf("cut at %d, %d zeros: ReadLast: %q, %v", cut, zeros, last, err)
			}
			got, err := readCommits(t, path)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("cut at %d, %d zeros: %q, %v", cut, zeros, got, err)
			}
			again := New(path)
			if _, err := again.Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := commitsOf(again); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, again, "three", 1)
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := readCommits(t, path); err != nil || !slices.Equal(got, append(want, "three")) {
				t.Fatalf("cut at %d, %d zeros, and appended to: %q, %v", cut, zeros, got, err)
			}
		}
	}
}

// TestDamageIsNotDropped changes each byte before the last commit: what follows is not dropped silently.
func TestDamageIsNotDropped(t *testing.T) {
	l := newLog(t)
	mustAppend(t, l, "one", 3)
	before, _ := l.Sizes()
	mustAppend(t, l, "two", 700)
	whole, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int(before) {
		text := slices.Clone(whole)
		text[i] ^= 1
		n := 0
		err := scan(bytes.NewReader(text), int64(len(text)), func([]entryAt) error { n++; return nil })
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %d commits, %v", i, n, err)
		}
	}
}

func TestLockSeesOthers(t *testing.T) {
	l := newLog(t)
	mustAppend(t, l, "one", 1)
	other := New(l.path)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Lock(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("a locked log: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock := func(l *Log, want bool) {
		t.Helper()
		if changed, err := l.Lock(t.Context()); err != nil || changed != want {
			t.Fatalf("Lock: changed %v, %v, want %v", changed, err, want)
		}
	}
	lock(l, false)
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock(other, true)
	if _, err := commitsOf(other); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, other, "two", 1)
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock(l, true)
	if got, err := commitsOf(l); err != nil || len(got) != 2 {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := l.Replace([]Entry{{Commit, []byte("three")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("a log that was replaced and is still locked: %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	lock(other, true)
	if got, err := commitsOf(other); err != nil || fmt.Sprint(got) != "[three]" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(l.path); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*Log{l, other} {
		if _, err := one.Lock(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a log that was removed: %v", err)
		}
	}
}

func FuzzScan(f *testing.F) {
	text, _, err := encode(0, []Entry{{'d', []byte("data")}, {Commit, []byte("one")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-3])
	f.Fuzz(func(t *testing.T, text []byte) {
		n := 0
		err := scan(bytes.NewReader(text), int64(len(text)), func(commit []entryAt) error {
			if n++; commit[len(commit)-1].kind != Commit {
				t.Error("a commit without its end")
			}
			return nil
		})
		if err == nil && n == 0 {
			t.Error("a log without a commit")
		}
	})
}
