package text_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// writeNotifier sends each written text on a channel.
type writeNotifier chan string

func (c writeNotifier) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

func TestTailFollows(t *testing.T) {
	for _, c := range []struct{ run, change, want string }{
		{"tail -f f", "append", "more\n"},
		{"tail -F f", "replace", "fresh\n"},
		{"tail --follow=name --retry g", "appear", "there\n"},
	} {
		s := commandtest.New(t, "/w")
		s.WriteFile("f", "first\n")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		out := make(writeNotifier, 100)
		done := make(chan error, 1)
		go func() {
			_, err := s.Run(ctx, strings.NewReader(""), out, commandtest.SplitWords(c.run)...)
			done <- err
		}()
		if c.change != "appear" {
			if got := <-out; got != "first\n" {
				t.Errorf("%s: %q", c.run, got)
			}
		}
		changeFiles(s, c.change)
		if got := <-out; got != c.want {
			t.Errorf("%s: %q after %s, want %q", c.run, got, c.change, c.want)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.run, err)
		}
	}
}

// changeFiles changes the files that tail follows: "append" writes to f,
// "replace" replaces f by another file, "appear" creates g.
func changeFiles(s *commandtest.Sandbox, what string) {
	s.TB.Helper()
	switch what {
	case "append":
		s.Exec("more\n", "to-file", "/w/f")
	case "replace":
		s.WriteFile("new", "fresh\n")
		s.Must(s.FS.Rename("/w/new", "/w/f"))
	case "appear":
		s.WriteFile("new", "there\n")
		s.Must(s.FS.Rename("/w/new", "/w/g"))
	}
}
