package regex

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// listOffsets lists the matches of every line as grep -bo does.
func listOffsets(r *Regexp, text string) string {
	var out strings.Builder
	caps := make([]int, 2)
	base := 0
	for line := range strings.Lines(text) {
		src := []byte(strings.TrimSuffix(line, "\n"))
		for at := 0; at <= len(src) && r.Match(src, at, caps, nil); {
			if caps[0] == caps[1] {
				at = caps[1] + 1
				continue
			}
			fmt.Fprintf(&out, "%d:%s\n", base+caps[0], src[caps[0]:caps[1]])
			at = caps[1]
		}
		base += len(line)
	}
	return out.String()
}

// runGrep returns the output of GNU grep, or its error message.
func runGrep(t *testing.T, grep, text string, args ...string) (out, message string) {
	t.Helper()
	cmd := exec.Command(grep, append([]string{"-abo"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	cmd.Stdin = strings.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() > 1 {
		return "", strings.TrimPrefix(strings.TrimSpace(stderr.String()), grep+": ")
	}
	return string(b), ""
}

// TestPatternsAgreeWithGrep compares matches with GNU grep, including patterns that sed treats
// differently.
func TestPatternsAgreeWithGrep(t *testing.T) {
	grep := needTool(t, "grep")
	text := strings.Join(gnuLines, "\n") + "\n"
	for _, c := range []struct {
		flag    string
		o       Options
		pattern string
	}{
		{"-E", Options{Syntax: ERE}, `*a`},
		{"-E", Options{Syntax: ERE}, `(*a)`},
		{"-E", Options{Syntax: ERE}, `a|*b`},
		{"-E", Options{Syntax: ERE}, `+a`},
		{"-E", Options{Syntax: ERE}, `a{1`},
		{"-E", Options{Syntax: ERE}, `a{,`},
		{"-E", Options{Syntax: ERE}, `a{,2}`},
		{"-E", Options{Syntax: ERE}, `a{2,1}`},
		{"-E", Options{Syntax: ERE}, `a)`},
		{"-E", Options{Syntax: ERE}, `(a`},
		{"-E", Options{Syntax: ERE}, `[:space:]`},
		{"-E", Options{Syntax: ERE}, `(a)\2`},
		{"-E", Options{Syntax: ERE}, `a{40000}`},
		{"-E", Options{Syntax: ERE}, "foo\nbar"},
		{"-E", Options{Syntax: ERE}, `^*`},
		{"-E", Options{Syntax: ERE}, `(foo|fo)(o|bar)*`},
		{"-E", Options{Syntax: ERE}, `(a)\1`},
		{"-G", Options{}, `a**`},
		{"-G", Options{}, `\{1`},
		{"-G", Options{}, `*a`},
		{"-G", Options{}, `a\{1`},
		{"-G", Options{}, `\(a\|b\)\1`},
		{"-G", Options{}, "foo\nbar"},
		{"-G", Options{}, `a\{x\}`},
		{"-w", Options{Word: true}, `foo`},
		{"-w", Options{Word: true}, `a`},
		{"-w", Options{Word: true}, `fo*`},
		{"-w", Options{Word: true}, `[a-z]*`},
		{"-w", Options{Word: true}, `b.*o`},
		{"-w", Options{Word: true}, `\.`},
		{"-x", Options{Whole: true}, `a`},
		{"-x", Options{Whole: true}, `a*`},
		{"-x", Options{Whole: true}, `a\|ab`},
		{"-i", Options{IgnoreCase: true}, `hello`},
		{"-i", Options{IgnoreCase: true}, `É`},
		{"-i", Options{IgnoreCase: true}, `[x-z]`},
		{"-i", Options{IgnoreCase: true}, `[[:upper:]]`},
		{"-i", Options{IgnoreCase: true}, `\(A\)\1`},
		{"-i", Options{IgnoreCase: true}, `[^a-f]`},
		{"-F", Options{Syntax: Fixed}, `a*`},
		{"-F", Options{Syntax: Fixed}, "foo\nfoobar"},
		{"-F", Options{Syntax: Fixed}, `é`},
		{"-F", Options{Syntax: Fixed}, "a\nb\nc\nd\ne\nf\ng\nfoobar\nab\nabc"},
		{"-P", Options{Syntax: Perl}, `\d+`},
		{"-P", Options{Syntax: Perl}, `a|ab`},
		{"-P", Options{Syntax: Perl}, `a+?`},
		{"-P", Options{Syntax: Perl}, `a{2,}?`},
		{"-P", Options{Syntax: Perl}, `(?<=o)b`},
		{"-P", Options{Syntax: Perl}, `(?<!o)b`},
		{"-P", Options{Syntax: Perl}, `o(?=b)`},
		{"-P", Options{Syntax: Perl}, `o(?!b)`},
		{"-P", Options{Syntax: Perl}, `foo\Kb`},
		{"-P", Options{Syntax: Perl}, `(?i)HELLO`},
		{"-P", Options{Syntax: Perl}, `(?<x>a)\k<x>`},
		{"-P", Options{Syntax: Perl}, `(?P<x>.)(?P=x)`},
		{"-P", Options{Syntax: Perl}, `(?>a+)b`},
		{"-P", Options{Syntax: Perl}, `a++b`},
		{"-P", Options{Syntax: Perl}, `a++a`},
		{"-P", Options{Syntax: Perl}, `\Qa*\Eb`},
		{"-P", Options{Syntax: Perl}, `\x61`},
		{"-P", Options{Syntax: Perl}, `\x{e9}`},
		{"-P", Options{Syntax: Perl}, `\bfoo\b`},
		{"-P", Options{Syntax: Perl}, `^[^,]+`},
		{"-P", Options{Syntax: Perl}, `\w+$`},
		{"-P", Options{Syntax: Perl}, `(?:ab)+`},
		{"-P", Options{Syntax: Perl}, `(a)(?:b)\1`},
		{"-P", Options{Syntax: Perl}, `(?x) a b # comment`},
		{"-P", Options{Syntax: Perl}, `[\d.]+`},
		{"-P", Options{Syntax: Perl}, `[[:alpha:]]+`},
		{"-P", Options{Syntax: Perl}, `\p{L}+`},
		{"-P", Options{Syntax: Perl}, `\p{Lu}`},
		{"-P", Options{Syntax: Perl}, `\h`},
		{"-P", Options{Syntax: Perl}, `(a|b)*?c`},
		{"-P", Options{Syntax: Perl}, `((a)|b)+`},
		{"-P", Options{Syntax: Perl}, `(?=.*\d)\w+`},
		{"-P", Options{Syntax: Perl}, `\w+\s\w+`},
		{"-P", Options{Syntax: Perl}, `a{,2}`},
		{"-P", Options{Syntax: Perl}, `\N+`},
	} {
		c.o.Dialect = Grep
		want, message := runGrep(t, grep, text, c.flag, "-e", c.pattern)
		r, err := Compile(c.pattern, c.o)
		switch {
		case (message != "") != (err != nil), err != nil && message != err.Error():
			t.Errorf("grep %s %q: error %v, grep says %q", c.flag, c.pattern, err, message)
		case err == nil:
			if got := listOffsets(r, text); got != want {
				t.Errorf("grep %s %q:\n got %q\nwant %q", c.flag, c.pattern, got, want)
			}
		}
	}
}

// TestScanFindsTheLinesThatMatch compares the scan of a whole buffer with a match of every line.
func TestScanFindsTheLinesThatMatch(t *testing.T) {
	text := []byte(strings.Join(gnuLines, "\n") + "\nno newline at the end")
	for _, c := range gnuPatterns {
		r, err := Compile(c.pattern, Options{Syntax: c.syntax, Dialect: Grep, Lines: true})
		if err != nil {
			continue
		}
		single, err := Compile(c.pattern, Options{Syntax: c.syntax, Dialect: Grep})
		if err != nil {
			t.Fatalf("%q: %v", c.pattern, err)
		}
		for at := 0; at <= len(text); {
			end := at + len(text[at:])
			if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
				end = at + i
			}
			want := single.Match(text[at:end], 0, nil, nil)
			hit := r.Scan(text, at, nil)
			if got := hit >= at && hit <= end; got != want {
				t.Errorf("%q: line %q found %v, want %v", c.pattern, text[at:end], got, want)
			}
			at = end + 1
		}
	}
}
