package search_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestRandomGrepsAreGNUs compares combinations of options.
func TestRandomGrepsAreGNUs(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 43))
	var cases []commandtest.Case
	for i := range 300 {
		var in strings.Builder
		for range r.IntN(30) {
			in.WriteString(commandtest.Pick(r, "a", "ab", "", "abc b", "xyz", "aXa", "b", "c c c", "é", "a_b", "foo bar", "bar.foo") + "\n")
		}
		text := in.String() + commandtest.Pick(r, "", "", "end", "a")
		args := "grep"
		for range r.IntN(4) {
			args += " " + commandtest.Pick(r, "-n", "-v", "-i", "-w", "-x", "-c", "-o", "-b", "-H", "-h", "-l", "-L", "-q", "-m1", "-m2", "-A1", "-B1", "-C1", "-A2", "-B3", "-s", "-Z", "--color=always", "-z", "-a", "--no-group-separator")
		}
		args += " " + commandtest.Pick(r, "-e", "-Ee", "-Fe", "-Ge") + " " + commandtest.Pick(r, "a", "b", "^a", "b$", "a.", "'a*'", "'[a-c]+'", "'(a|b)c'", "'\\(a\\|b\\)'", "foo", ".", "'^$'", "é", "'\\ba'", "'b\\>'", "'x*'", "''")
		cases = append(cases, commandtest.Case{Name: fmt.Sprintf("%d %s", i, args), Tree: []string{"f=" + text, "g=one\nab\n"}, Run: args + " f" + commandtest.Pick(r, "", " g", " nope")})
	}
	commandtest.Compare(t, cases)
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
	r := rand.New(rand.NewPCG(23, 29))
	var cases []commandtest.Case
	for i := range 120 {
		lines := make([]string, 5+r.IntN(60))
		for k := range lines {
			lines[k] = fmt.Sprintf("line %d", r.IntN(5+k))
		}
		fresh := mangle(r, lines, 12)
		meanwhile := mangle(r, lines, 8+r.IntN(60))
		s := commandtest.New(t, "/work")
		s.WriteFile("f", strings.Join(lines, "\n")+"\n")
		s.WriteFile("g", strings.Join(fresh, "\n")+"\n")
		text := s.Exec("", "diff", commandtest.Pick(r, "-u", "-c", "-u1", "-U5", "-C1"), "--label", "f", "--label", "f", "f", "g").Stdout
		run := "patch -i p" + commandtest.Pick(r, "", " -F0", " -F3", " -b", " --no-backup-if-mismatch", " -N", " -f", " -t") + " f"
		cases = append(cases, commandtest.Case{Name: fmt.Sprintf("%d %s", i, run), Tree: []string{"f=" + strings.Join(meanwhile, "\n") + "\n", "p=" + text}, Run: run})
	}
	commandtest.Compare(t, cases)
}
