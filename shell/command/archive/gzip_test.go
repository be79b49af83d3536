package archive_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestGzipAgreesWithGNU compares everything except the compressed bytes.
func TestGzipAgreesWithGNU(t *testing.T) {
	tree := []string{"a=hello\n", "b=hello\n", "d/x=deep\n", "empty=", "junk.gz=not packed\n", "other=x\n"}
	var cases []commandtest.Case
	for _, run := range []string{
		"gzip a\ngunzip a.gz", "gzip -k a\ngzip -dc a.gz\nrm a.gz", "gzip nofile", "gzip d", "gzip -r d\ngunzip -r d", "gzip a\ngzip a.gz\ngunzip a",
		"gunzip nofile", "gunzip a", "gzip -t junk.gz", "gzip -d junk.gz", "zcat junk.gz a", "gzip -dc a", "gzip -dcf a", "gzip -v a\ngzip -dv a.gz",
		"gzip -S .zz a\ngzip -d a.zz\ngzip -d -S .zz a.zz", "gzip a\ngzip -tv a.gz\ngunzip a.gz", "gzip --zz", "gzip empty\ngunzip empty.gz",
		"gzip a b\nzcat a.gz b.gz\ngunzip a.gz b.gz", "gzip -q d", "gzip -k a\ngzip a\nrm a.gz", "gzip -f a\ngunzip -f a.gz",
		"gzip -9k a\ngzip -1kf a\nzcat a.gz\nrm a.gz",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true, Stdin: "text\n"})
	}
	commandtest.Compare(t, cases)
}

func TestBzip2AgreesWithTheRealOne(t *testing.T) {
	tree := []string{"a.bz2=" + commandtest.HelloBzip2, "b=plain\n", "bad.bz2=" + commandtest.HelloBzip2[:20], "d/", "a=there\n", "t.tbz=" + commandtest.HelloBzip2}
	var cases []commandtest.Case
	for _, run := range []string{
		"bunzip2 a.bz2", "bunzip2 -f a.bz2", "bunzip2 -kf a.bz2", "bzcat a.bz2", "bzip2 -dc a.bz2 a.bz2", "bzip2 -t a.bz2", "bzip2 -t b", "bunzip2 nofile.bz2",
		"bunzip2 d", "bzcat b", "bunzip2 t.tbz", "bzip2 -d bad.bz2",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true})
	}
	commandtest.Compare(t, cases)
}
