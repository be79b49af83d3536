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

// mangle changes some lines of a text.
func mangle(r *rand.Rand, lines []string, rate int) []string {
	var out []string
	for _, line := range lines {
		switch r.IntN(rate) {
		case 0:
		case 1:
			out = append(out, line, fmt.Sprintf("new %d", r.IntN(9)))
		case 2:
			out = append(out, fmt.Sprintf("changed %d", r.IntN(9)))
		default:
			out = append(out, line)
		}
	}
	return out
}

// TestRandomPatchesAreGNUs applies patches to files that have changed meanwhile.
func TestRandomPatchesAreGNUs(t *testing.T) {
	requireTool(t, "diff")
	r := rand.New(rand.NewPCG(23, 29))
	var cases []deed
	for i := range 120 {
		lines := make([]string, 5+r.IntN(60))
		for k := range lines {
			lines[k] = fmt.Sprintf("line %d", r.IntN(5+k))
		}
		fresh := mangle(r, lines, 12)
		meanwhile := mangle(r, lines, 8+r.IntN(60))
		s := newSandbox(t, "/work")
		s.write("f", strings.Join(lines, "\n")+"\n")
		s.write("g", strings.Join(fresh, "\n")+"\n")
		text := s.exec("", "diff", pick(r, "-u", "-c", "-u1", "-U5", "-C1"), "--label", "f", "--label", "f", "f", "g").Stdout
		run := "patch -i p" + pick(r, "", " -F0", " -F3", " -b", " --no-backup-if-mismatch", " -N", " -f", " -t") + " f"
		cases = append(cases, deed{name: fmt.Sprintf("%d %s", i, run), tree: []string{"f=" + strings.Join(meanwhile, "\n") + "\n", "p=" + text}, run: run})
	}
	compare(t, cases)
}
