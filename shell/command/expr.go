package command

import (
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/internal/regex"
)

const exprUsage = `Usage: expr EXPRESSION
  or:  expr OPTION

      --help     display this help and exit

Print the value of EXPRESSION to standard output.  A blank line below
separates increasing precedence groups.  EXPRESSION may be:

  ARG1 | ARG2       ARG1 if it is neither null nor 0, otherwise ARG2

  ARG1 & ARG2       ARG1 if neither argument is null or 0, otherwise 0

  ARG1 < ARG2       ARG1 is less than ARG2
  ARG1 <= ARG2      ARG1 is less than or equal to ARG2
  ARG1 = ARG2       ARG1 is equal to ARG2
  ARG1 != ARG2      ARG1 is unequal to ARG2
  ARG1 >= ARG2      ARG1 is greater than or equal to ARG2
  ARG1 > ARG2       ARG1 is greater than ARG2

  ARG1 + ARG2       arithmetic sum of ARG1 and ARG2
  ARG1 - ARG2       arithmetic difference of ARG1 and ARG2

  ARG1 * ARG2       arithmetic product of ARG1 and ARG2
  ARG1 / ARG2       arithmetic quotient of ARG1 divided by ARG2
  ARG1 % ARG2       arithmetic remainder of ARG1 divided by ARG2

  STRING : REGEXP   anchored pattern match of REGEXP in STRING

  match STRING REGEXP        same as STRING : REGEXP
  substr STRING POS LENGTH   substring of STRING, POS counted from 1
  index STRING CHARS         index in STRING where any CHARS is found, or 0
  length STRING              length of STRING
  + TOKEN                    interpret TOKEN as a string, even if it is a
                               keyword like 'match' or an operator like '/'

  ( EXPRESSION )             value of EXPRESSION

Exit status is 0 if EXPRESSION is neither null nor 0, 1 if EXPRESSION is null
or 0, 2 if EXPRESSION is syntactically invalid, and 3 if an error occurred.
`

// maxExprDepth bounds the parentheses, maxExprBits the numbers.
const (
	maxExprDepth = 1000
	maxExprBits  = 1 << 22
)

// exprParser evaluates while it parses. A skipped operand is parsed without
// being evaluated.
type exprParser struct {
	p     *kernel.Proc
	args  []string
	at    int
	depth int
	code  int    // of the first error, 0 for none
	msg   string // of that error
}

func expr(p *kernel.Proc) int {
	args := p.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		p.Errorf("missing operand")
		tryHelp(p)
		return 2
	}
	e := &exprParser{p: p, args: args}
	v := e.or(true)
	if e.code == 0 && e.at < len(args) {
		e.fail(2, "syntax error: unexpected argument "+cite(args[e.at]))
	}
	if e.code != 0 {
		p.Errorf("%s", e.msg)
		return e.code
	}
	_, _ = p.Out().WriteString(v + "\n") // shows at the flush
	if exprNull(v) {
		return 1
	}
	return 0
}

// fail notes the first error. Nothing is read after it.
func (e *exprParser) fail(code int, msg string) string {
	if e.code == 0 {
		e.code, e.msg = code, msg
		e.at = len(e.args)
	}
	return "0"
}

// exprNull reports whether a value counts as false: empty or zero.
func exprNull(v string) bool {
	d := strings.TrimPrefix(v, "-")
	return v == "" || d != "" && strings.Trim(d, "0") == ""
}

func (e *exprParser) next(words ...string) string {
	if e.at < len(e.args) {
		for _, w := range words {
			if e.args[e.at] == w {
				e.at++
				e.p.Tick(1)
				return w
			}
		}
	}
	return ""
}

func (e *exprParser) or(live bool) string {
	l := e.and(live)
	for e.next("|") != "" {
		null := exprNull(l)
		r := e.and(live && null)
		if null {
			if l = r; exprNull(l) {
				l = "0"
			}
		}
	}
	return l
}

func (e *exprParser) and(live bool) string {
	l := e.compare(live)
	for e.next("&") != "" {
		null := exprNull(l)
		r := e.compare(live && !null)
		if null || exprNull(r) {
			l = "0"
		}
	}
	return l
}

func (e *exprParser) compare(live bool) string {
	l := e.sum(live)
	for {
		op := e.next("<", "<=", "=", "==", "!=", ">=", ">")
		if op == "" {
			return l
		}
		r := e.sum(live)
		if !live {
			continue
		}
		c := strings.Compare(l, r)
		if x, y, ok := exprInts(l, r); ok {
			c = x.Cmp(y)
		}
		truth := map[string]bool{"<": c < 0, "<=": c <= 0, "=": c == 0, "==": c == 0, "!=": c != 0, ">=": c >= 0, ">": c > 0}[op]
		l = "0"
		if truth {
			l = "1"
		}
	}
}

// exprInt reads an operand that is an integer.
func exprInt(s string) (*big.Int, bool) {
	d := strings.TrimPrefix(s, "-")
	if d == "" || len(d) > maxExprBits/4 || strings.Trim(d, "0123456789") != "" {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}

func exprInts(a, b string) (x, y *big.Int, ok bool) {
	x, ok = exprInt(a)
	if !ok {
		return nil, nil, false
	}
	y, ok = exprInt(b)
	return x, y, ok
}

func (e *exprParser) sum(live bool) string {
	l := e.product(live)
	for {
		op := e.next("+", "-")
		if op == "" {
			return l
		}
		l = e.arith(op, l, e.product(live), live)
	}
}

func (e *exprParser) product(live bool) string {
	l := e.match(live)
	for {
		op := e.next("*", "/", "%")
		if op == "" {
			return l
		}
		l = e.arith(op, l, e.match(live), live)
	}
}

func (e *exprParser) arith(op, l, r string, live bool) string {
	if !live || e.code != 0 {
		return l
	}
	x, y, ok := exprInts(l, r)
	if !ok {
		return e.fail(2, "non-integer argument")
	}
	e.p.Tick(1 + len(l)*len(r)/4096)
	switch op {
	case "+":
		x.Add(x, y)
	case "-":
		x.Sub(x, y)
	case "*":
		x.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return e.fail(2, "division by zero")
		}
		if op == "/" {
			x.Quo(x, y)
		} else {
			x.Rem(x, y)
		}
	}
	return x.String()
}

func (e *exprParser) match(live bool) string {
	l := e.operand(live)
	for e.next(":") != "" {
		r := e.operand(live)
		if live {
			l = e.matched(l, r)
		}
	}
	return l
}

func (e *exprParser) operand(live bool) string {
	if e.code != 0 {
		return "0"
	}
	if e.at == len(e.args) {
		return e.fail(2, "syntax error: missing argument after "+cite(e.args[e.at-1]))
	}
	e.depth++
	defer func() { e.depth-- }()
	if e.depth > maxExprDepth {
		return e.fail(2, "syntax error: nested too deeply")
	}
	switch e.next("+", "(", ")", "length", "match", "index", "substr") {
	case "+":
		if e.at == len(e.args) {
			return e.fail(2, "syntax error: missing argument after '+'")
		}
	case "(":
		v := e.or(live)
		if e.code == 0 && e.next(")") == "" {
			if e.at == len(e.args) {
				return e.fail(2, "syntax error: expecting ')' after "+cite(e.args[e.at-1]))
			}
			return e.fail(2, "syntax error: expecting ')' instead of "+cite(e.args[e.at]))
		}
		return v
	case ")":
		return e.fail(2, "syntax error: unexpected ')'")
	case "length":
		return itoa(utf8.RuneCountInString(e.operand(live)))
	case "match":
		s := e.operand(live)
		r := e.operand(live)
		if !live || e.code != 0 {
			return "0"
		}
		return e.matched(s, r)
	case "index":
		s := e.operand(live)
		chars := e.operand(live)
		if i := strings.IndexAny(s, chars); i >= 0 {
			return itoa(utf8.RuneCountInString(s[:i]) + 1)
		}
		return "0"
	case "substr":
		s := e.operand(live)
		from := e.operand(live)
		return exprSubstr(s, from, e.operand(live))
	}
	e.at++
	return e.args[e.at-1]
}

func exprSubstr(s, from, count string) string {
	x, y, ok := exprInts(from, count)
	if !ok || x.Sign() <= 0 || y.Sign() <= 0 || x.Cmp(big.NewInt(int64(len(s)))) > 0 {
		return ""
	}
	runes := []rune(s)
	i := min(int(x.Int64())-1, len(runes))
	n := len(runes) - i
	if y.IsInt64() {
		n = int(min(int64(n), y.Int64()))
	}
	return string(runes[i : i+n])
}

// matched applies an anchored pattern. With a group the value is what it
// matched, else the length of the match.
func (e *exprParser) matched(s, pattern string) string {
	re, err := regex.Compile(pattern, regex.Options{Syntax: regex.BRE, Dialect: regex.Posix, Budget: e.p})
	if err != nil {
		return e.fail(2, err.Error())
	}
	defer re.Release(e.p)
	caps := make([]int, 2+2*re.Groups())
	ok := re.Match([]byte(s), 0, caps, e.p)
	if ok && caps[0] != 0 { // anchored: only a match at the beginning counts
		anchored, err := regex.Compile(`^\(`+pattern+`\)`, regex.Options{Syntax: regex.BRE, Dialect: regex.Posix, Budget: e.p})
		if err != nil {
			return e.fail(2, err.Error())
		}
		defer anchored.Release(e.p)
		all := make([]int, 2+2*anchored.Groups())
		ok = anchored.Match([]byte(s), 0, all, e.p)
		copy(caps, all[2:])
	}
	switch {
	case re.Groups() > 0 && (!ok || caps[2] < 0):
		return ""
	case re.Groups() > 0:
		return s[caps[2]:caps[3]]
	case !ok:
		return "0"
	}
	return itoa(utf8.RuneCountInString(s[:caps[1]]))
}
