package syntax

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPrintedTextParsesToTheSameText: what is printed is a script, and
// printing that again changes nothing.
func TestPrintedTextParsesToTheSameText(t *testing.T) {
	for _, s := range scripts(t) {
		f, err := Parse(s, Options{})
		if err != nil {
			continue
		}
		once := Print(f)
		g, err := Parse(once, Options{})
		if err != nil {
			t.Errorf("%s\nprinted as\n%s\n%v", s, once, err)
			continue
		}
		if twice := Print(g); twice != once {
			t.Errorf("%s\nprinted as\n%s\nthen as\n%s", s, once, twice)
		}
	}
}

// TestFunctionsPrintAsBashPrintsThem wraps each script into a function and
// compares with declare -f.
func TestFunctionsPrintAsBashPrintsThem(t *testing.T) {
	needBash(t)
	differ := map[string]string{ // what bash prints for these means something else
		"coproc a b c":                 "the name it adds becomes the command",
		"! ! true":                     "it counts",
		"case x in (esac) echo;; esac": "the pattern ends the command",
		"a << -E\nb\n-E":               "the delimiter becomes part of the operator",
		"> x if":                       "the argument becomes a reserved word",
	}
	for _, s := range scripts(t) {
		if _, skip := differ[strings.TrimSpace(s)]; skip || strings.Contains(s, "shopt") {
			continue
		}
		src := "testee() {\n" + s + "\n}\n"
		f, err := Parse(src, Options{})
		if err != nil || len(f.Stmts) != 1 {
			continue
		}
		c := exec.Command("bash", "-c", src+"declare -f testee")
		want, err := c.Output()
		if err != nil {
			continue
		}
		got := Print(f.Stmts[0].First.Cmds[0].Body) + "\n"
		if got != string(want) {
			t.Errorf("%s\n--- got\n%s--- bash\n%s", s, got, want)
		}
	}
}
