package project

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const reviewedDiff = `diff --git a/a.go b/a.go
index 1..2 100644
--- a/a.go
+++ b/a.go
@@ -3,3 +3,4 @@ func main
 context
-old
+new
+++ a line that looks like a header
@@ -20 +21 @@
-x
+# vim: set modeline:
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-bye
`

// TestParseBuffer checks that each comment belongs to the line of the diff above it.
func TestParseBuffer(t *testing.T) {
	buffer := formatBuffer("fix", "web", reviewedDiff)
	if got := parseBuffer(buffer); got != nil {
		t.Fatalf("an unchanged buffer has comments: %v", got)
	}
	insert := func(after, text string) {
		t.Helper()
		if !strings.Contains(buffer, after+"\n") {
			t.Fatalf("no line %q", after)
		}
		buffer = strings.Replace(buffer, after+"\n", after+"\n"+text+"\n", 1)
	}
	insert("# Without comments, nothing is sent.\n#", "in general\n")
	insert("> +new", "why?\n# not sent\n\nreally")
	insert("> -old", "it was needed")
	insert("> +++ a line that looks like a header", "a plus")
	insert("> +# vim: set modeline:", "no modelines")
	insert("> -bye", "keep it\r")
	want := []comment{
		{Text: "in general"},
		{File: "a.go", Code: "old", Text: "it was needed"},
		{File: "a.go", Line: 4, Code: "new", Text: "why?\n\nreally"},
		{File: "a.go", Line: 5, Code: "++ a line that looks like a header", Text: "a plus"},
		{File: "a.go", Line: 21, Code: "# vim: set modeline:", Text: "no modelines"},
		{File: "gone", Code: "bye", Text: "keep it"},
	}
	if diff := cmp.Diff(want, parseBuffer(buffer)); diff != "" {
		t.Error(diff)
	}
}

// TestBufferIsHarmless checks that no line of the sandbox is among the first and last five, in which editors look for
// settings, and that none can steer a terminal or pass for a comment.
func TestBufferIsHarmless(t *testing.T) {
	buffer := formatBuffer("fix", "web", "+a\x1b[2J\u202e\n# vim: set exrc:\nplain\n\ttab\n")
	lines := strings.Split(strings.TrimSuffix(buffer, "\n"), "\n")
	for i, line := range lines {
		if of := strings.HasPrefix(line, diffMark); of && (i < 5 || i >= len(lines)-5) {
			t.Errorf("line %d of %d is of the sandbox: %q", i+1, len(lines), line)
		}
	}
	if strings.ContainsAny(buffer, "\x1b\u202e") || !strings.Contains(buffer, "\ttab") {
		t.Errorf("buffer: %q", buffer)
	}
	if got := parseBuffer(buffer); got != nil {
		t.Errorf("comments of the sandbox: %v", got)
	}
}

func TestParseComment(t *testing.T) {
	for in, want := range map[string]comment{
		"a b/c.go:12: text\nmore ": {File: "a b/c.go", Line: 12, Text: "text\nmore"},
		"note: 3: no line":         {Text: "note: 3: no line"},
		" plain ":                  {Text: "plain"},
	} {
		if got, err := parseComment(in); err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", " \n", "a:0: x", "a:99999999999999999999: x"} {
		if got, err := parseComment(in); err == nil {
			t.Errorf("%q: %+v", in, got)
		}
	}
}
