package archive_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestZgrep compares the commands that read compressed files with the real ones.
func TestZgrep(t *testing.T) {
	tree := []string{"a=one\ntwo\nthree\n", "b=two\nfour\n", "c=one\ntwo\nthree\n"}
	var cases []commandtest.Case
	for _, run := range []string{
		"gzip a\nzgrep two a.gz\nzgrep -n t a.gz b\nzgrep -c t a.gz b\nzgrep -h two a.gz b\nzgrep -H two a.gz\nzgrep nope a.gz\nzgrep -e one -e three a.gz\nzgrep -i TWO a.gz",
		"gzip a\nzgrep two nope.gz", "gzip -k a\ngzip c\nzdiff a.gz c.gz\nzdiff a b\nzdiff a.gz b\nzcmp a.gz c.gz\nzcmp a.gz b", "gzip a\nzegrep (one|two) a.gz\nzfgrep t.o a.gz\nzgrep -A 1 one a.gz\nzgrep -A1 one a.gz",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true, NoFiles: true})
	}
	commandtest.Compare(t, cases)
}

// TestZlessPrints checks what zless and its relatives print without a terminal, and the formats that zgrep knows.
func TestZlessPrints(t *testing.T) {
	s := commandtest.New(t, "/w")
	for _, line := range [][2]string{{"gzip", "gz"}, {"xz", "xz"}, {"zstd -q --rm", "zst"}} {
		s.WriteFile("f", "one\ntwo\n")
		s.Exec("", commandtest.SplitWords(line[0]+" f")...)
		for _, run := range []string{"zless", "zmore", "xzless"} {
			if o := s.Exec("", run, "f."+line[1]); o.Stdout != "one\ntwo\n" || o.Code != 0 {
				t.Errorf("%s of %s: %+v", run, line[0], o)
			}
		}
		if o := s.Exec("", "zgrep", "two", "f."+line[1]); o.Stdout != "two\n" {
			t.Errorf("zgrep of %s: %+v", line[0], o)
		}
	}
}

// TestZgrepEndsInTime checks a compressed file without end.
func TestZgrepEndsInTime(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("f", strings.Repeat("x", 8<<20))
	s.Exec("", "gzip", "-1", "f")
	commandtest.RunHostile(t, s, "", "zgrep", strings.Repeat("x*", 200)+"y", "f.gz")
	commandtest.RunHostile(t, s, "", "zless", "/dev/zero")
}
