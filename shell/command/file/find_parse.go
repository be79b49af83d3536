package file

import (
	"strconv"
	"strings"
)

// findParser compiles the words of an expression to tests.
type findParser struct {
	f        *finder
	args     []string
	at       int
	acts     bool   // an action replaces the default -print
	from     string // of -files0-from
	dayStart bool
	regex    string // -regextype
	tested   string // the first test, for the warning about global options
	quiet    bool   // no warnings: unless -warn is given
	depth    int    // of parentheses
	deletes  bool
	prunes   bool
	failed   bool
}

// reportError reports an error in the expression.
func (q *findParser) reportError(format string, a ...any) findTest {
	if !q.failed {
		q.f.p.Errorf(format, a...)
	}
	q.failed = true
	return nil
}

// parse compiles the whole expression to q.f.test.
func (q *findParser) parse() bool {
	test := findTest(func(*findEntry) bool { return true })
	if len(q.args) > 0 {
		test = q.parseComma()
		switch {
		case q.failed:
			return false
		case q.at < len(q.args) && q.peekWord() == ")":
			q.reportError("you have too many ')'")
			return false
		}
	}
	if q.deletes && q.prunes && !q.f.depthFirst {
		q.reportError("The -delete action automatically turns on -depth, but -prune does nothing when -depth is in effect.  If you want to carry on anyway, just explicitly use the -depth option.")
		return false
	}
	q.f.depthFirst = q.f.depthFirst || q.deletes
	if !q.acts {
		inner := test
		print := q.f.newPrinter(nil, "\n")
		test = func(e *findEntry) bool { return inner(e) && !q.f.quit && print(e) }
	}
	q.f.test = test
	return true
}

func (q *findParser) peekWord() string {
	if q.at < len(q.args) {
		return q.args[q.at]
	}
	return ""
}

func (q *findParser) parseComma() findTest {
	left := q.parseOr()
	for !q.failed && q.peekWord() == "," && q.at < len(q.args) {
		q.at++
		a, b := left, q.parseOperand(",", q.parseOr)
		left = func(e *findEntry) bool { a(e); return !q.f.quit && b(e) }
	}
	return left
}

func (q *findParser) parseOr() findTest {
	left := q.parseAnd()
	for !q.failed && (q.peekWord() == "-o" || q.peekWord() == "-or") {
		word := q.peekWord()
		q.at++
		a, b := left, q.parseOperand(word, q.parseAnd)
		left = func(e *findEntry) bool { return a(e) || !q.f.quit && b(e) }
	}
	return left
}

// parseOperand parses the operand after an operator.
func (q *findParser) parseOperand(word string, next func() findTest) findTest {
	if q.at == len(q.args) || q.peekWord() == ")" {
		return q.reportError("expected an expression after '%s'", word)
	}
	return next()
}

func (q *findParser) parseAnd() findTest {
	left := q.parseNot()
	for !q.failed && q.at < len(q.args) {
		word := q.peekWord()
		switch word {
		case ")", ",", "-o", "-or":
			return left
		case "-a", "-and":
			q.at++
			if q.at == len(q.args) || q.peekWord() == ")" {
				return q.reportError("expected an expression after '%s'", word)
			}
		}
		a, b := left, q.parseNot()
		left = func(e *findEntry) bool { return a(e) && !q.f.quit && b(e) }
	}
	return left
}

func (q *findParser) parseNot() findTest {
	negate := false
	for q.peekWord() == "!" || q.peekWord() == "-not" {
		word := q.peekWord()
		q.at++
		negate = !negate
		if q.at == len(q.args) {
			return q.reportError("expected an expression after '%s'", word)
		}
	}
	test := q.parsePrimary()
	if !negate || q.failed {
		return test
	}
	return func(e *findEntry) bool { return !test(e) }
}

// maxFindDepth is the deepest nesting of parentheses.
const maxFindDepth = 1000

func (q *findParser) parsePrimary() findTest {
	q.f.p.Tick(4)
	word := q.peekWord()
	q.at++
	switch {
	case word == "(":
		return q.parseGroup()
	case word == ")":
		if q.depth > 0 {
			return q.reportError("invalid expression; empty parentheses are not allowed.")
		}
		return q.reportError("invalid expression; you have too many ')'")
	case word == "-a" || word == "-o" || word == "-and" || word == "-or" || word == ",":
		return q.reportError("invalid expression; you have used a binary operator '%s' with nothing before it.", word)
	case !strings.HasPrefix(word, "-") || word == "-":
		return q.reportMisplaced(word)
	}
	if make := findPrimaries[word]; make != nil {
		if test := make(q, word); test != nil || q.failed {
			if !q.f.isGlobal(word) && q.tested == "" {
				q.tested = word
			}
			return test
		}
	}
	if strings.HasPrefix(word, "-newer") && len(word) == 8 {
		return q.newerXY(word)
	}
	return q.reportError("unknown predicate `%s'", word)
}

func (q *findParser) reportMisplaced(word string) findTest {
	q.reportError("paths must precede expression: `%s'", word)
	if q.at > 2 {
		prev := ""
		for i := q.at - 2; i >= 0; i-- {
			if strings.HasPrefix(q.args[i], "-") {
				prev = q.args[i]
				break
			}
		}
		if _, err := q.f.p.Lstat(word); err == nil && prev != "" {
			q.f.p.Errorf("possible unquoted pattern after predicate `%s'?", prev)
		}
	}
	return nil
}

func (q *findParser) parseGroup() findTest {
	if q.depth++; q.depth > maxFindDepth {
		return q.reportError("expression nested too deeply")
	}
	if q.at == len(q.args) {
		return q.reportError("invalid expression; expected to find a ')' but didn't see one. Perhaps you need an extra predicate after '('")
	}
	test := q.parseComma()
	if q.failed {
		return nil
	}
	if q.peekWord() != ")" {
		return q.reportError("invalid expression; I was expecting to find a ')' somewhere but did not see one.")
	}
	q.at++
	q.depth--
	return test
}

// nextArgument returns the argument of a primary.
func (q *findParser) nextArgument(word string) (string, bool) {
	if q.at == len(q.args) {
		q.reportError("missing argument to `%s'", word)
		return "", false
	}
	q.at++
	return q.args[q.at-1], true
}

// isGlobal reports whether a word is an option that applies everywhere.
func (f *finder) isGlobal(word string) bool {
	switch word {
	case "-maxdepth", "-mindepth", "-depth", "-d", "-mount", "-xdev", "-noleaf", "-ignore_readdir_race", "-noignore_readdir_race", "-files0-from",
		"-daystart", "-follow", "-warn", "-nowarn", "-regextype":
		return true
	}
	return false
}

// warnGlobal warns of a global option after a test.
func (q *findParser) warnGlobal(word string) {
	if q.tested == "" || q.quiet {
		return
	}
	q.f.p.Errorf("warning: you have specified the global option %[1]s after the argument %[2]s, but global options are not positional, i.e., %[1]s affects tests specified before it as well as those specified after it.  Please specify global options before other arguments.", word, q.tested)
}

func alwaysTrue(*findEntry) bool { return true }

// findComp is how a number is compared: -1 less, 0 equal, 1 more.
type findComp struct {
	sign int
	n    int64
}

func (c findComp) holdsFor(v int64) bool {
	switch c.sign {
	case 1:
		return v > c.n
	case -1:
		return v < c.n
	}
	return v == c.n
}

// splitSign splits the sign from a number.
func splitSign(s string) (int, string) {
	switch {
	case strings.HasPrefix(s, "+"):
		return 1, s[1:]
	case strings.HasPrefix(s, "-"):
		return -1, s[1:]
	}
	return 0, s
}

func parseComp(s string) (findComp, bool) {
	sign, num := splitSign(s)
	n, err := strconv.ParseInt(num, 10, 64)
	return findComp{sign, n}, err == nil && n >= 0
}
