package command

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// FuzzArguments gives commands arguments that nobody meant: whatever they
// say, they end soon, by themselves, and not with an internal error.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"sort\x00-k2.3bn,4.1r\x00-t:", "sort\x00-k\x0099999999999999999999.1,2", "cut\x00-f1,3-5,7-\x00-d:", "tr\x00a-z[:upper:]\x00[x*010][=y=]\\777", "find\x00.\x00(\x00-name\x00[[:alpha:]\x00-o\x00!\x00-size\x00+1k\x00)\x00-printf\x00%-10.3f%T@%Tc\\n",
		"find\x00-regextype\x00posix-extended\x00-regex\x00(a|b)*\x00-perm\x00/u+x,g=o", "find\x00-newermt\x00yesterday 10:00\x00-mtime\x00+1.5", "chmod\x00u=g+x,-t,o=u-w\x00f", "stat\x00-c\x00%010.3Y|%-20N|%Hd\x00f", "stat\x00--printf\x00\\x4\\07\\q%\x00f",
		"ls\x00-l\x00--time-style=+%-Y%_10d%:::z%9999N\x00--block-size=1kB", "head\x00-n\x00-18446744073709551616K", "tail\x00+5cf\x00f", "join\x00-o\x000,1.2 2.3\x00-t\\0\x00f\x00f", "paste\x00-d\\0\\n\\\x00f\x00f", "truncate\x00-s\x00%9223372036854775807\x00f",
		"du\x00-t\x00-9E\x00--exclude=[a-\x00.", "touch\x00-t\x00999912312359.60\x00f", "touch\x00-d\x00TZ=\"X\" @-1.5 +1 month ago\x00f", "install\x00-Dm=u\x00f\x00a/b/c", "cp\x00--preserve=mode,links,x\x00f\x00g", "tree\x00-P\x00a|b*|[\x00--sort=x", "df\x00--output=size,source,x", "mktemp\x00--suffix=/\x00XXX", "realpath\x00--relative-to=\x00../..//x", "uniq\x00-w-1\x00-f1e9",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		if len(args) > 40 || len(line) > 2000 || args[0] == "curl" {
			t.Skip("too long to be of interest")
		}
		s := newSandbox(t, "/w")
		s.write("f", "a:b 10\nc\n")
		ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
		defer cancel()
		start := time.Now()
		o, err := s.run(ctx, strings.NewReader("x y\n"), io.Discard, args...)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%q: %v", args, err)
		}
		if took := time.Since(start); took > 10*time.Second || o.Code == 134 {
			t.Fatalf("%q: %v, status %d, %s", args, took, o.Code, o.Stderr)
		}
		if n := s.k.Memory(); n != 0 {
			t.Fatalf("%q: %d bytes stay charged", args, n)
		}
	})
}

// TestQuotedNamesReadBack lets a shell read what quote writes.
func TestQuotedNamesReadBack(t *testing.T) {
	requireTool(t, "bash")
	for _, name := range []string{"a", "", "a b", "a'b", `a"b`, "'", "''", "a\nb", "\n", "a\tb'c", "\x01x", "é", "\xff", "x\xffy\n", "$HOME", "`id`", "*", "a\\b", "#", "~", "a'\nb", `'"`, "\x7f", "日本", "a b'c d", "\u200b"} {
		for _, q := range []quoting{quoteShell, quoteShellAlways, quoteShellEscape, quoteShellEscapeAlways} {
			text := q.of(name, "")
			out, err := exec.Command("bash", "-c", "printf %s "+text).Output()
			if err != nil || string(out) != name {
				t.Errorf("style %d: %q was written %s and read as %q (%v)", q, name, text, out, err)
			}
		}
	}
}

// told is a stream that tells what was written.
type told chan string

func (c told) Write(b []byte) (int, error) {
	c <- string(b)
	return len(b), nil
}

func TestTailFollows(t *testing.T) {
	for _, c := range []struct{ run, change, want string }{
		{"tail -f f", "append", "more\n"},
		{"tail -F f", "replace", "fresh\n"},
		{"tail --follow=name --retry g", "appear", "there\n"},
	} {
		s := newSandbox(t, "/w")
		s.write("f", "first\n")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		out := make(told, 100)
		done := make(chan error, 1)
		go func() {
			_, err := s.run(ctx, strings.NewReader(""), out, words(c.run)...)
			done <- err
		}()
		if c.change != "appear" {
			if got := <-out; got != "first\n" {
				t.Errorf("%s: %q", c.run, got)
			}
		}
		s.change(c.change)
		if got := <-out; got != c.want {
			t.Errorf("%s: %q after %s, want %q", c.run, got, c.change, c.want)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.run, err)
		}
	}
}

// change does to the files of a sandbox what a test of tail -f needs.
func (s *sandbox) change(what string) {
	s.tb.Helper()
	switch what {
	case "append":
		s.exec("more\n", "to-file", "/w/f")
	case "replace":
		s.write("new", "fresh\n")
		s.must(s.fs.Rename("/w/new", "/w/f"))
	case "appear":
		s.write("new", "there\n")
		s.must(s.fs.Rename("/w/new", "/w/g"))
	}
}
