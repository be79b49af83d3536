package option

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

// Choice is a valid argument of an option, and its value.
type Choice struct {
	Word  string
	Value int
}

// Choose returns the value of the choice that a word names or abbreviates. If there is none or more
// than one value, it reports an error in the words of GNU and returns false.
func Choose(p *kernel.Proc, opt, word string, list []Choice) (int, bool) {
	hit, n := Choice{}, 0
	for _, c := range list {
		if c.Word == word {
			return c.Value, true
		}
		if strings.HasPrefix(c.Word, word) && (n == 0 || c.Value != hit.Value) {
			hit, n = c, n+1
		}
	}
	if n == 1 {
		return hit.Value, true
	}
	kind := "invalid"
	if n > 1 {
		kind = "ambiguous"
	}
	text := kind + " argument " + quoting.QuoteWord(word) + " for " + quoting.QuoteWord(opt) + "\nValid arguments are:"
	last := -1 << 31
	for _, c := range list {
		if c.Value == last {
			text += ", " + quoting.QuoteWord(c.Word)
			continue
		}
		text += "\n  - " + quoting.QuoteWord(c.Word)
		last = c.Value
	}
	p.Errorf("%s", text)
	SuggestHelp(p)
	return 0, false
}

// QuotingStyles are the values of --quoting-style.
var QuotingStyles = []Choice{
	{"literal", int(quoting.Literal)},
	{"shell", int(quoting.Shell)},
	{"shell-always", int(quoting.ShellAlways)},
	{"shell-escape", int(quoting.ShellEscape)},
	{"shell-escape-always", int(quoting.ShellEscapeAlways)},
	{"c", int(quoting.C)},
	{"c-maybe", int(quoting.CMaybe)},
	{"escape", int(quoting.Escape)},
	{"locale", int(quoting.Locale)},
	{"clocale", int(quoting.CLocale)},
}
