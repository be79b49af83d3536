package search_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// numbers returns the lines from 1 to 20, some of them replaced.
func numbers(change map[int]string) string {
	var b strings.Builder
	for i := 1; i <= 20; i++ {
		line := map[bool]string{true: string(rune('0' + i/10)), false: ""}[i >= 10] + string(rune('0'+i%10)) + "\n"
		if c, ok := change[i]; ok {
			line = c
		}
		b.WriteString(line)
	}
	return b.String()
}

const (
	unifiedPatch = "--- a\t2024-01-02 03:04:05.000000000 +0000\n+++ b\t2024-01-02 03:04:06.000000000 +0000\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+5x\n 6\n 7\n 8\n@@ -12,7 +12,6 @@ function()\n 12\n 13\n 14\n-15\n 16\n 17\n 18\n"
	contextPatch = "*** a\t2024-01-02 03:04:05.000000000 +0000\n--- b\t2024-01-02 03:04:06.000000000 +0000\n***************\n*** 2,8 ****\n  2\n  3\n  4\n! 5\n  6\n  7\n  8\n--- 2,8 ----\n  2\n  3\n  4\n! 5x\n  6\n  7\n  8\n***************\n*** 12,18 ****\n  12\n  13\n  14\n- 15\n  16\n  17\n  18\n--- 12,17 ----\n"
	normalPatch  = "5c5\n< 5\n---\n> 5x\n15d14\n< 15\n20a20,21\n> 21\n> 22\n"
	gitPatch     = "diff --git a/f b/f\nindex 123..456 100644\n--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n 1\n+one and half\n 2\n 3\ndiff --git a/new.txt b/new.txt\nnew file mode 100755\nindex 000..111\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+hello\n+world\ndiff --git a/gone b/gone\ndeleted file mode 100644\nindex 111..000\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\ndiff --git a/old b/renamed\nsimilarity index 50%\nrename from old\nrename to renamed\n--- a/old\n+++ b/renamed\n@@ -1,2 +1,2 @@\n x\n-y\n+z\ndiff --git a/dir/deep b/dir/deep\nnew file mode 100644\n--- /dev/null\n+++ b/dir/deep\n@@ -0,0 +1 @@\n+deep\n\\ No newline at end of file\n"
)

func TestPatch(t *testing.T) {
	prefixed := strings.NewReplacer("--- a\t", "--- x/y/f\t", "+++ b\t", "+++ x/y/f\t").Replace(unifiedPatch)
	tree := []string{
		"f=" + numbers(nil), "done=" + numbers(map[int]string{5: "5x\n", 15: ""}), "moved=zero\n" + numbers(nil), "far=100\n101\n102\n103\n104\n" + numbers(map[int]string{2: "two\n"}), "fuzz1=" + numbers(map[int]string{2: "two\n"}), "fuzz2=" + numbers(map[int]string{2: "two\n", 3: "three\n"}), "other=" + numbers(map[int]string{5: "five\n"}),
		"u.p=" + unifiedPatch, "c.p=" + contextPatch, "n.p=" + normalPatch, "g.p=" + gitPatch, "d.p=" + prefixed, "gone=bye\n", "old=x\ny\n", "empty.p=", "junk.p=garbage\nmore\n", "x/y/f=" + numbers(nil), "crlf.p=" + strings.ReplaceAll("--- f\n+++ f\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n", "\n", "\r\n"),
		"short.p=--- f\n+++ f\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n", "bad.p=--- f\n+++ f\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\nzzz\n", "mail.p=Some text\nfoo\n--- f\n+++ f\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n\ntrailing garbage\n", "nonl=a", "nonl.p=--- nonl\n+++ nonl\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "addnonl.p=--- f\n+++ f\n@@ -18,3 +18,4 @@\n 18\n 19\n 20\n+end\n\\ No newline at end of file\n",
		"sp=a  b\nc\nd\n", "sp.p=--- sp\n+++ sp\n@@ -1,3 +1,3 @@\n a b\n-c\n+C\n d\n", "two.p=--- f\n+++ f\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n--- other\n+++ other\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n", "evil.p=--- ../../x\n+++ ../../x\n@@ -0,0 +1 @@\n+x\n", "start.p=--- f\n+++ f\n@@ -0,0 +1 @@\n+zero\n", "index.p=Index: f\n===\n--- nope.orig\n+++ nope.new\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n", "create.p=--- /dev/null\n+++ made/file\n@@ -0,0 +1 @@\n+new\n", "remove.p=--- gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n",
		"insert.p=--- f\n+++ f\n@@ -3,0 +4,2 @@\n+x\n+y\n", "delete.p=--- f\n+++ f\n@@ -3,2 +2,0 @@\n-3\n-4\n", "many.p=--- f\n+++ f\n@@ -1,2 +1,3 @@\n 1\n+a\n 2\n@@ -9,2 +10,3 @@\n 9\n+b\n 10\n@@ -19,2 +21,3 @@\n 19\n+c\n 20\n", "mode.p=diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "ren.p=diff --git a/old b/dir/new\nsimilarity index 100%\nrename from old\nrename to dir/new\n", "copy.p=diff --git a/old b/cp\nsimilarity index 100%\ncopy from old\ncopy to cp\n", "a b=1\n2\n", "quoted.p=--- \"a b\"\n+++ \"a b\"\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n", "t.p=--- f\t2024-03-01 12:30:15.123456789 +0000\n+++ f\t2024-03-02 01:02:03.000000000 +0000\n@@ -1,3 +1,3 @@\n-1\n+one\n 2\n 3\n", "ctxadd.p=*** f\n--- f\n***************\n*** 1,2 ****\n--- 1,3 ----\n  1\n+ new\n  2\n",
	}
	var cases []commandtest.Case
	for _, run := range []string{
		"patch f u.p", "patch f c.p", "patch f n.p", "patch -R f u.p", "patch -R done u.p", "patch -R done c.p", "patch done u.p", "patch -N done u.p", "patch -f done u.p", "patch -t done u.p", "patch moved u.p", "patch far u.p", "patch -F0 far u.p", "patch -F 0 fuzz1 u.p", "patch fuzz1 u.p", "patch fuzz2 u.p", "patch -F1 fuzz2 u.p", "patch other u.p", "patch other c.p", "patch -r my.rej other u.p", "patch -r - other u.p", "patch --reject-format=context other u.p", "patch --reject-format=unified other c.p",
		"patch --dry-run f u.p", "patch --dry-run other u.p", "patch -b f u.p", "patch -b -z .bak f u.p", "patch -b -V numbered f u.p", "patch -b -B pre/ f u.p", "patch -b -Y pre. f u.p", "patch --no-backup-if-mismatch moved u.p", "patch -o out f u.p", "patch -s f u.p", "patch -s other u.p", "patch -i u.p f", "patch f -i u.p", "patch -p2 -i d.p", "patch -p1 -i d.p", "patch -i d.p", "patch -p0 -i d.p", "patch -p3 -i d.p", "patch -p9 -i d.p", "patch -d x -p1 -i ../d.p", "patch -d x/y -i ../../d.p", "patch -d nope -i d.p",
		"patch -p1 -i g.p", "patch -p0 -i g.p", "patch -p1 -i g.p\npatch -R -p1 -i g.p", "patch -p1 -i g.p\npatch -p1 -i g.p", "patch -p1 -N -i g.p\npatch -p1 -N -i g.p", "patch --dry-run -p1 -i g.p", "patch -i empty.p", "patch -i junk.p", "patch f empty.p", "patch -i short.p", "patch -i bad.p", "patch -i mail.p", "patch -i nonl.p", "patch -i nonl.p\npatch -R -i nonl.p", "patch -i addnonl.p", "patch -i sp.p", "patch -l -i sp.p", "patch -i two.p", "patch -i evil.p", "patch -p0 -i evil.p", "patch -i start.p", "patch -i index.p", "patch -i create.p", "patch -p0 -i create.p", "patch -p0 -i create.p\npatch -p0 -R -i create.p", "patch -p0 -i create.p\npatch -p0 -i create.p", "patch -i remove.p", "patch -R -i remove.p",
		"patch -i insert.p", "patch -i delete.p", "patch -i many.p", "patch -i many.p\npatch -R -i many.p", "patch -i many.p\npatch -i many.p", "patch -p1 -i mode.p", "patch -p1 -i ren.p", "patch -p1 -R -i ren.p", "patch -p1 -i copy.p", "patch -i quoted.p", "patch -i ctxadd.p", "patch -i nope.p", "patch a b c", "patch -p x f u.p", "patch -u f u.p", "patch -c f u.p", "patch -E -i remove.p", "patch f", "patch --binary f u.p", "patch -Z f u.p", "patch -Z -f f u.p", "patch -Z -f moved u.p", "patch -T -i t.p", "patch -i u.p -o - f",
	} {
		cases = append(cases, commandtest.Case{Tree: tree, Run: run, Stdin: unifiedPatch, Times: strings.HasPrefix(run, "patch -T -i") || strings.HasPrefix(run, "patch -Z -f f")})
	}
	commandtest.Compare(t, cases)
}

func FuzzPatch(f *testing.F) {
	for _, p := range []string{unifiedPatch, contextPatch, normalPatch, gitPatch} {
		f.Add(p, numbers(nil))
	}
	s := commandtest.New(f, "/work")
	f.Fuzz(func(t *testing.T, text, file string) {
		if len(text) > 2000 || len(file) > 1000 {
			return
		}
		s.TB = t
		s.WriteFile("f", file)
		for _, args := range [][]string{{"patch", "f"}, {"patch", "-p1"}, {"patch", "-R", "--dry-run", "f"}} {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			o, err := s.Run(ctx, strings.NewReader(text), nil, args...)
			cancel()
			if o.Code == 134 || err != nil {
				t.Fatalf("%q: %v %s", text, err, o.Stderr)
			}
		}
	})
}
