package command

import "testing"

// TestGzipAgreesWithGNU compares all but the compressed bytes.
func TestGzipAgreesWithGNU(t *testing.T) {
	tree := []string{"a=hello\n", "b=hello\n", "d/x=deep\n", "empty=", "junk.gz=not packed\n", "other=x\n"}
	var cases []deed
	for _, run := range []string{
		"gzip a\ngunzip a.gz", "gzip -k a\ngzip -dc a.gz\nrm a.gz", "gzip nofile", "gzip d", "gzip -r d\ngunzip -r d", "gzip a\ngzip a.gz\ngunzip a",
		"gunzip nofile", "gunzip a", "gzip -t junk.gz", "gzip -d junk.gz", "zcat junk.gz a", "gzip -dc a", "gzip -dcf a", "gzip -v a\ngzip -dv a.gz",
		"gzip -S .zz a\ngzip -d a.zz\ngzip -d -S .zz a.zz", "gzip a\ngzip -tv a.gz\ngunzip a.gz", "gzip --zz", "gzip empty\ngunzip empty.gz",
		"gzip a b\nzcat a.gz b.gz\ngunzip a.gz b.gz", "gzip -q d", "gzip -k a\ngzip a\nrm a.gz", "gzip -f a\ngunzip -f a.gz",
		"gzip -9k a\ngzip -1kf a\nzcat a.gz\nrm a.gz",
	} {
		cases = append(cases, deed{run: run, tree: tree, loose: true, stdin: "text\n"})
	}
	compare(t, cases)
}

// packed is "hello\n" as bzip2 -9 writes it.
const packed = "BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01A\x00\x00\x10\x02D\xa0\x000\xcd\x00\xc3F)\x97\x17rE8P\x90\xc1\xc0\x80\xe2"

func TestBzip2AgreesWithTheRealOne(t *testing.T) {
	tree := []string{"a.bz2=" + packed, "b=plain\n", "bad.bz2=" + packed[:20], "d/", "a=there\n", "t.tbz=" + packed}
	var cases []deed
	for _, run := range []string{
		"bunzip2 a.bz2", "bunzip2 -f a.bz2", "bunzip2 -kf a.bz2", "bzcat a.bz2", "bzip2 -dc a.bz2 a.bz2", "bzip2 -t a.bz2", "bzip2 -t b", "bunzip2 nofile.bz2",
		"bunzip2 d", "bzcat b", "bunzip2 t.tbz", "bzip2 -d bad.bz2",
	} {
		cases = append(cases, deed{run: run, tree: tree, loose: true})
	}
	compare(t, cases)
}
