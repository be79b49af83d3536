package text_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// randomSed returns a script that ends.
func randomSed(r *rand.Rand, depth int) string {
	address := func() string {
		one := func() string {
			return commandtest.Pick(r, "1", "2", "3", "$", "/a/", "/b$/", "/^$/", "2~2", "/x/I")
		}
		switch r.IntN(6) {
		case 0, 1:
			return one()
		case 2:
			return one() + "," + commandtest.Pick(r, "3", "4", "$", "/c/", "+1", "~2")
		case 3:
			return one() + "!"
		}
		return ""
	}
	var b strings.Builder
	for i := range 1 + r.IntN(4) {
		if i > 0 {
			b.WriteString(commandtest.Pick(r, ";", "\n", " ; "))
		}
		b.WriteString(address())
		switch n := r.IntN(12); {
		case n < 5:
			b.WriteString("s/" + commandtest.Pick(r, "a", "b*", "\\(a\\)\\(b\\)*", "[^a]", "^", "$", ".", "x\\|c", "\\n", "") + "/" + commandtest.Pick(r, "X", "[&]", "\\n", "<\\1>", "\\U&\\E", "\\u&y", "") + "/" + commandtest.Pick(r, "", "g", "2", "p", "gI", "2g"))
		case n == 5 && depth > 0:
			b.WriteString("{" + randomSed(r, depth-1) + "\n}")
		case n == 6:
			b.WriteString(commandtest.Pick(r, "a", "i", "c") + " text" + fmt.Sprint(i) + "\n")
		case n == 7:
			b.WriteString("y/abc/bcA/")
		case n == 8:
			b.WriteString(commandtest.Pick(r, "t", "T", "b", "q", "Q", "q3"))
		default:
			b.WriteString(commandtest.Pick(r, "p", "d", "n", "N", "P", "D", "g", "G", "h", "H", "x", "=", "l", "l 7", "z", "F"))
		}
	}
	return b.String()
}

// TestRandomSedScriptsAreGNUs compares random scripts.
func TestRandomSedScriptsAreGNUs(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 37))
	var cases []commandtest.Case
	for i := range 300 {
		var in strings.Builder
		for range r.IntN(7) {
			in.WriteString(commandtest.Pick(r, "a", "ab", "", "abc b", "xyz", "aXa", "b", "c c c") + "\n")
		}
		text := in.String() + commandtest.Pick(r, "", "", "end", "a")
		script := randomSed(r, 2)
		if strings.Contains(script, "D") && strings.ContainsAny(script, "GHN\\") {
			continue // may loop forever
		}
		flags := commandtest.Pick(r, "", " -n", " -s", " -z")
		quoted := "$'" + strings.NewReplacer(`\`, `\\`, "\n", `\n`, `'`, `\'`).Replace(script) + "'"
		cases = append(cases, commandtest.Case{Name: fmt.Sprintf("%d%s %q", i, flags, script), Tree: []string{"f=" + text, "g=one\ntwo\n"}, Run: "sed" + flags + " " + quoted + " f" + commandtest.Pick(r, "", " g"), Loose: true})
	}
	commandtest.Compare(t, cases)
}
