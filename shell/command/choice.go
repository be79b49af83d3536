package command

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// choice is a word that an option takes, and what it means.
type choice struct {
	word  string
	value int
}

// choose finds the choice that a word names or begins, and complains as GNU
// does when there is none or more than one.
func choose(p *kernel.Proc, opt, word string, list []choice) (int, bool) {
	hit, n := choice{}, 0
	for _, c := range list {
		if c.word == word {
			return c.value, true
		}
		if strings.HasPrefix(c.word, word) && (n == 0 || c.value != hit.value) {
			hit, n = c, n+1
		}
	}
	if n == 1 {
		return hit.value, true
	}
	kind := "invalid"
	if n > 1 {
		kind = "ambiguous"
	}
	text := kind + " argument " + cite(word) + " for " + cite(opt) + "\nValid arguments are:"
	last := -1 << 31
	for _, c := range list {
		if c.value == last {
			text += ", " + cite(c.word)
			continue
		}
		text += "\n  - " + cite(c.word)
		last = c.value
	}
	p.Errorf("%s", text)
	tryHelp(p)
	return 0, false
}
