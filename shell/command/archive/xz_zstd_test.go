package archive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestCodecsAgreeWithTheRealOnes compares everything except the compressed bytes.
func TestCodecsAgreeWithTheRealOnes(t *testing.T) {
	tree := []string{"a=hello\n", "b=" + strings.Repeat("some text of a file\n", 5000), "empty=", "junk.xz=not packed\n", "junk.zst=not packed\n", "d/x=deep\n"}
	var cases []commandtest.Case
	for _, run := range []string{
		"xz a\nunxz a.xz", "xz -k b\nxz -dc b.xz\nrm b.xz", "xz -9 b\nxz -t b.xz\nxz -d b.xz", "xz empty\nunxz empty.xz", "xz nofile", "unxz junk.xz", "xz -0k a\nxzcat a.xz\nrm a.xz", "unxz a", "xz d",
		"xz -k a\nxz a\nrm a.xz", "xz -f a\nxz -df a.xz", "zstd -q a\nrm a\nzstd -dq a.zst\nrm a.zst", "zstd -q --rm b\nunzstd -q --rm b.zst", "zstd -q -19 b -o c\nzstdcat c\nrm c", "zstd -dq junk.zst", "zstd -q nofile",
		"tar cJf t.tar.xz a d\ntar tf t.tar.xz\nrm t.tar.xz", "tar --zstd -cf t.tar.zst a d\ntar xOf t.tar.zst\nrm t.tar.zst", "tar caf t.txz d\ntar xJOf t.txz\nrm t.txz", "tar xJf a",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true})
	}
	commandtest.Compare(t, cases)
}

// TestCodecsReadRealStreams reads streams of the real programs: filters before LZMA2, checks, frames.
func TestCodecsReadRealStreams(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("a.xz", commandtest.HelloXz)
	s.WriteFile("a.zst", commandtest.HelloZstd)
	for _, line := range []string{"xzcat a.xz", "zstdcat a.zst"} {
		if o := s.Exec("", strings.Fields(line)...); o.Stdout != "hello\n" || o.Code != 0 {
			t.Errorf("%s: %d %q %q", line, o.Code, o.Stdout, o.Stderr)
		}
	}
	for n := range len(commandtest.HelloXz) {
		s.WriteFile("cut.xz", commandtest.HelloXz[:n])
		s.WriteFile("cut.zst", commandtest.HelloZstd[:min(n, len(commandtest.HelloZstd)-1)])
		for _, line := range []string{"xzcat cut.xz", "zstdcat cut.zst"} {
			if o := s.Exec("", strings.Fields(line)...); o.Code != 1 {
				t.Errorf("%s, %d bytes: %d %q %q", line, n, o.Code, o.Stdout, o.Stderr)
			}
		}
	}
}

// TestWindowsAreRefused checks that a stream that names a large window does not get the memory.
func TestWindowsAreRefused(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("big.xz", commandtest.XzOfDictionary(40))
	s.WriteFile("big.zst", "\x28\xb5\x2f\xfd\x00\xf8")
	for _, line := range []string{"xzcat big.xz", "zstdcat big.zst"} {
		if o := s.Exec("", strings.Fields(line)...); o.Code != 1 || !strings.Contains(o.Stderr, "window of more than 64 MiB") {
			t.Errorf("%s: %d %q", line, o.Code, o.Stderr)
		}
	}
	s.WriteFile("some.xz", commandtest.XzOfDictionary(28))
	if o, _ := s.RunBounded(20*time.Second, nil, nil, "xzcat", "some.xz"); o.Code != 137 && !strings.Contains(o.Stderr, "Unexpected end of input") {
		t.Errorf("64 MiB: %d %q", o.Code, o.Stderr)
	}
}
