package git_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestArchive compares archives with those of git, as tar and unzip list them.
func TestArchive(t *testing.T) {
	tree := []string{"0755 a=1\n", "d/e/b=2\n", "d/k.y=3\n", "d/t.log=4\n", "ig/x=5\n", "dir/y=6\n", "l->a", "crlf.txt=one\ntwo\n", ".gitattributes=*.log export-ignore\n/ig export-ignore\ndir/ export-ignore\ncrlf.txt text eol=crlf\n", "d/.gitattributes=*.y export-ignore\n"}
	prepare := "git init -q -b main\ngit add .\ngit commit -q -m one\n"
	var cases []commandtest.Case
	for _, run := range []string{
		"git archive -o x.tar HEAD\ntar -tvf x.tar\ntar -xOf x.tar a crlf.txt", "git archive --prefix=p-1/ -o x.tgz HEAD\ntar -tzf x.tgz\nrm x.tgz", "git archive --format=zip -o y HEAD\nunzip -l y\nunzip -p y d/e/b\nrm y", "git archive --format zip --prefix p/ HEAD d -o x.zip\nunzip -l x.zip\nrm x.zip",
		"git archive HEAD d/e a -o x.tar\ntar -tf x.tar", "git archive -o x.tar HEAD:d\ntar -tf x.tar", "git -C d archive -o ../x.tar HEAD\ntar -tf x.tar", "git archive -l", "git archive -v -o x.tar HEAD", "git tag -a v1 -m v1\ngit archive --format=tar --prefix=v1/ v1 -o x\ntar -tf x", "cp a ig/new\ngit archive -o x.tar HEAD\ntar -tf x.tar",
	} {
		cases = append(cases, commandtest.Case{Run: prepare + run, Tree: tree, Env: identity, NoFiles: true})
	}
	for _, run := range []string{"git archive nope", "git archive", "git archive --format=foo HEAD", "git archive HEAD nope", "git archive -o no/x.tar HEAD"} {
		cases = append(cases, commandtest.Case{Run: prepare + run, Tree: tree, Env: identity, NoFiles: true, Loose: true})
	}
	commandtest.Compare(t, cases)
}

// TestArchiveIsCharged checks that an archive of many files stays within the sandbox's memory, and frees it.
func TestArchiveIsCharged(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.Env = append(s.Env, identity...)
	for i := range 300 {
		s.WriteFile("f"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+string(rune('a'+i/26)), strings.Repeat("line\n", i))
	}
	s.Exec("", "git", "init", "-q")
	s.Exec("", "git", "add", ".")
	s.Exec("", "git", "commit", "-q", "-m", "one")
	for _, format := range []string{"tar", "tgz", "zip"} {
		if o := s.Exec("", "git", "archive", "--format="+format, "-o", "/w/x", "HEAD"); o.Code != 0 {
			t.Errorf("%s: %+v", format, o)
		}
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}
