package command

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// pick returns one of the choices.
func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }

// randomSed writes a script of commands that end.
func randomSed(r *rand.Rand, depth int) string {
	address := func() string {
		one := func() string {
			return pick(r, "1", "2", "3", "$", "/a/", "/b$/", "/^$/", "2~2", "/x/I")
		}
		switch r.IntN(6) {
		case 0, 1:
			return one()
		case 2:
			return one() + "," + pick(r, "3", "4", "$", "/c/", "+1", "~2")
		case 3:
			return one() + "!"
		}
		return ""
	}
	var b strings.Builder
	for i := range 1 + r.IntN(4) {
		if i > 0 {
			b.WriteString(pick(r, ";", "\n", " ; "))
		}
		b.WriteString(address())
		switch n := r.IntN(12); {
		case n < 5:
			b.WriteString("s/" + pick(r, "a", "b*", "\\(a\\)\\(b\\)*", "[^a]", "^", "$", ".", "x\\|c", "\\n", "") + "/" + pick(r, "X", "[&]", "\\n", "<\\1>", "\\U&\\E", "\\u&y", "") + "/" + pick(r, "", "g", "2", "p", "gI", "2g"))
		case n == 5 && depth > 0:
			b.WriteString("{" + randomSed(r, depth-1) + "\n}")
		case n == 6:
			b.WriteString(pick(r, "a", "i", "c") + " text" + fmt.Sprint(i) + "\n")
		case n == 7:
			b.WriteString("y/abc/bcA/")
		case n == 8:
			b.WriteString(pick(r, "t", "T", "b", "q", "Q", "q3"))
		default:
			b.WriteString(pick(r, "p", "d", "n", "N", "P", "D", "g", "G", "h", "H", "x", "=", "l", "l 7", "z", "F"))
		}
	}
	return b.String()
}

// TestRandomSedScriptsAreGNUs compares scripts that nobody thought of.
func TestRandomSedScriptsAreGNUs(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 37))
	var cases []deed
	for i := range 300 {
		var in strings.Builder
		for range r.IntN(7) {
			in.WriteString(pick(r, "a", "ab", "", "abc b", "xyz", "aXa", "b", "c c c") + "\n")
		}
		text := in.String() + pick(r, "", "", "end", "a")
		script := randomSed(r, 2)
		if strings.Contains(script, "D") && strings.ContainsAny(script, "GHN\\") {
			continue // may go round for ever
		}
		flags := pick(r, "", " -n", " -s", " -z")
		quoted := "$'" + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `'`, `\'`).Replace(script) + "'"
		cases = append(cases, deed{name: fmt.Sprintf("%d%s %q", i, flags, script), tree: []string{"f=" + text, "g=one\ntwo\n"}, run: "sed" + flags + " " + quoted + " f" + pick(r, "", " g"), loose: true})
	}
	compare(t, cases)
}

// TestRandomGrepsAreGNUs compares combinations of options.
func TestRandomGrepsAreGNUs(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 43))
	var cases []deed
	for i := range 300 {
		var in strings.Builder
		for range r.IntN(30) {
			in.WriteString(pick(r, "a", "ab", "", "abc b", "xyz", "aXa", "b", "c c c", "é", "a_b", "foo bar", "bar.foo") + "\n")
		}
		text := in.String() + pick(r, "", "", "end", "a")
		args := "grep"
		for range r.IntN(4) {
			args += " " + pick(r, "-n", "-v", "-i", "-w", "-x", "-c", "-o", "-b", "-H", "-h", "-l", "-L", "-q", "-m1", "-m2", "-A1", "-B1", "-C1", "-A2", "-B3", "-s", "-Z", "--color=always", "-z", "-a", "--no-group-separator")
		}
		args += " " + pick(r, "-e", "-Ee", "-Fe", "-Ge") + " " + pick(r, "a", "b", "^a", "b$", "a.", "'a*'", "'[a-c]+'", "'(a|b)c'", "'\\(a\\|b\\)'", "foo", ".", "'^$'", "é", "'\\ba'", "'b\\>'", "'x*'", "''")
		cases = append(cases, deed{name: fmt.Sprintf("%d %s", i, args), tree: []string{"f=" + text, "g=one\nab\n"}, run: args + " f" + pick(r, "", " g", " nope")})
	}
	compare(t, cases)
}
