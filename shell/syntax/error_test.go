package syntax

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// errorText returns an error as bash -c prints it, without the prefix.
func errorText(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return ""
	}
	lines := []string{e.Error()}
	prefix, _, _ := strings.Cut(e.Error(), ":")
	if e.Detail != "" {
		lines = append(lines, prefix+": "+e.Detail)
	}
	if e.Source != "" {
		lines = append(lines, prefix+": `"+e.Source+"'")
	}
	return strings.Join(lines, "\n")
}

// TestErrorsMatchBash compares every error message with bash's.
func TestErrorsMatchBash(t *testing.T) {
	needBash(t)
	differ := map[string]string{
		"echo \"${x:-'}\"\n": "another of two open quotes is named",
		"echo $((1+2)\n":     "the line of the end, not of the beginning",
		"((1+2)\n":           "read as nested subshells",
		"[[ x =~ (a\n":       "one message, not two",
		"x=([a=b)\n":         "one message, not two",
	}
	for _, s := range scripts(t) {
		_, err := Parse(s, Options{})
		if _, ok := differ[s]; ok || err == nil {
			continue
		}
		var stderr strings.Builder
		c := exec.Command("bash", "-nc", s)
		c.Stderr = &stderr
		if c.Run() == nil {
			continue
		}
		want := strings.TrimSpace(strings.ReplaceAll(stderr.String(), "bash: -c: ", ""))
		if got := errorText(err); got != want {
			t.Errorf("%q\n got %s\nbash %s", s, got, want)
		}
	}
}

// TestLimitsAreErrors: what nests too deeply or is too long fails at once with
// an error about the limit.
func TestLimitsAreErrors(t *testing.T) {
	const n = 1 << 20
	for _, unit := range []string{
		"(", "((", "$((", "$(", "{ ", "${x:-", "\"${x:-", "`", "\"$(", "<(", "$[", "if ", "while ",
		"case x in x) ", "[[ ( ", "[[ ! ", "a[", "a=(", "x=([", "$((x[", "f() { ", "f() (", "coproc ", "((1+", "$((-",
		"! ", "time ", "a|", "a&&", "a\n", "for x in ", "for ((", "for x do ", "select x do ", "'", "\"", "\\",
		"$'", "$\"", "cat <<E\n", "cat <<E\n$(", "${", "${x#", "${x/", "${x:", "${!", "${x@", "${x[", "@(", "$(( ( ",
		"$((a?", "$((a**", "$((a=", "if a;then b;elif ", "((a) ((", "$(( `", "${x[$((", "\"`", "{", "function f { ", "a=$((", "a;(", "x[$(", "`\\", "${x[${y ",
	} {
		src := strings.Repeat(unit, n/len(unit))
		f, err := Parse(src, Options{ExtGlob: func() bool { return true }})
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("%q…: %v", unit, err)
		}
		if f != nil {
			Print(f)
		}
	}
	_, err := Parse(strings.Repeat("a", n+1), Options{})
	if !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("too long: %v", err)
	}
	_, err = Parse(strings.Repeat("(", 600), Options{})
	if err == nil {
		t.Error("600 parentheses are accepted")
	}
	_, err = Parse(strings.Repeat("( ", 600), Options{})
	if !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("600 subshells: %v", err)
	}
}
