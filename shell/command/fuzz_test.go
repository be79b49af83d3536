package command_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// FuzzArguments runs commands with random arguments: they must end soon, by
// themselves, and without an internal error.
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
		s := commandtest.New(t, "/w")
		s.WriteFile("f", "a:b 10\nc\n")
		o, err := s.RunBounded(400*time.Millisecond, strings.NewReader("x y\n"), io.Discard, args...)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%q: %v", args, err)
		}
		if o.Code == 134 {
			t.Fatalf("%q: status %d, %s", args, o.Code, o.Stderr)
		}
		if n := s.Kernel.Memory(); n != 0 {
			t.Fatalf("%q: %d bytes stay charged", args, n)
		}
	})
}
