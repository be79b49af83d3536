package search_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestRg checks that rg prints what ripgrep prints to a pipe: names, no line
// numbers, files in order.
func TestRg(t *testing.T) {
	s := commandtest.New(t, "/work")
	for name, text := range map[string]string{
		"a.go": "package a\n\nfunc Foo() {}\n", "b.py": "def foo():\n    return Foo\n", "sub/c.go": "func bar() { Foo() }\nvar x = 1\n", ".hidden": "foo\n", "sub/.gitignore": "*.log\n!keep.log\n/build/\n", "sub/x.log": "foo\n", "sub/keep.log": "foo kept\n",
		"sub/build/out.go": "foo\n", "sub/deep/build/in.go": "foo deep\n", ".ignore": "skipped\n", "skipped/f": "foo\n", "bin": "foo\x00bar\n", "sub/.git/config": "foo\n",
	} {
		dir := s.Path(name[:strings.LastIndexByte("/"+name, '/')])
		s.Must(s.FS.MkdirAll(dir, 0o755))
		s.WriteFile(name, text)
	}
	s.Must(s.FS.Symlink("/dev/null", s.Path("null")))
	for _, c := range []struct {
		run, stdin, out string
		code            int
	}{
		{"rg -i foo .", "", "./a.go:func Foo() {}\n./b.py:def foo():\n./b.py:    return Foo\n./sub/c.go:func bar() { Foo() }\n./sub/deep/build/in.go:foo deep\n./sub/keep.log:foo kept\n", 0},
		{"rg Foo a.go", "", "func Foo() {}\n", 0},
		{"rg -n Foo a.go b.py", "", "a.go:3:func Foo() {}\nb.py:2:    return Foo\n", 0},
		{"rg -l foo .", "", "./b.py\n./sub/deep/build/in.go\n./sub/keep.log\n", 0},
		{"rg -c Foo .", "", "./a.go:1\n./b.py:1\n./sub/c.go:1\n", 0},
		{"rg -S foo b.py", "", "def foo():\n    return Foo\n", 0},
		{"rg -S Foo b.py", "", "    return Foo\n", 0},
		{"rg -tgo -l . .", "", "./a.go\n./sub/c.go\n./sub/deep/build/in.go\n", 0},
		{"rg -Tgo -l . .", "", "./b.py\n./sub/keep.log\n", 0},
		{"rg -g *.py -l . .", "", "./b.py\n", 0},
		{"rg -g !*.py -g !sub -l . .", "", "./a.go\n", 0},
		{"rg -g sub/** -l Foo .", "", "./sub/c.go\n", 0},
		{"rg -g *.{go,py} -l Foo .", "", "./a.go\n./b.py\n./sub/c.go\n", 0},
		{"rg --files .", "", "./a.go\n./b.py\n./bin\n./sub/c.go\n./sub/deep/build/in.go\n./sub/keep.log\n", 0},
		{"rg --hidden -l foo .", "", "./.hidden\n./b.py\n./sub/deep/build/in.go\n./sub/keep.log\n", 0},
		{"rg -u -l foo .", "", "./b.py\n./skipped/f\n./sub/build/out.go\n./sub/deep/build/in.go\n./sub/keep.log\n./sub/x.log\n", 0},
		{"rg -d 1 -l Foo .", "", "./a.go\n./b.py\n", 0},
		{"rg -o F.. a.go", "", "Foo\n", 0},
		{"rg -o -r $1-$$ (F)oo a.go", "", "F-$\n", 0},
		{"rg -r <$0> F.o a.go", "", "func <Foo>() {}\n", 0},
		{"rg -r ${n}! (?P<n>F)oo a.go", "", "func F!() {}\n", 0},
		{"rg -e Foo -e package a.go", "", "package a\nfunc Foo() {}\n", 0},
		{"rg -F () a.go", "", "func Foo() {}\n", 0},
		{"rg -A1 package a.go", "", "package a\n\n", 0},
		{"rg nothing .", "", "", 1},
		{"rg -l Foo", "", "a.go\nb.py\nsub/c.go\n", 0},
		{"rg -q foo .", "", "", 0},
		{"rg foo nope", "", "", 2},
		{"rg ( a.go", "", "", 2},
		{"rg b", "abc\nxyz\n", "abc\n", 0},
		{"rg -v b -", "abc\nxyz\n", "xyz\n", 0},
		{"rg -w foo b.py", "", "def foo():\n", 0},
		{"rg --color=always Foo a.go", "", "func \x1b[01;31m\x1b[KFoo\x1b[m\x1b[K() {}\n", 0},
	} {
		o := s.Exec(c.stdin, strings.Fields(c.run)...)
		if o.Stdout != c.out || o.Code != c.code {
			t.Errorf("%s: code %d\n got %q\nwant %q\n%s", c.run, o.Code, o.Stdout, c.out, o.Stderr)
		}
	}
}
