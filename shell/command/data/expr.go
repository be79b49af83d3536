package data

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
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

// maxExprDepth limits the nesting of parentheses, maxExprDigits the size of numbers: Linux passes no
// longer argument to a program, and a calculation with two of them takes a part of a second.
const (
	maxExprDepth  = 1000
	maxExprDigits = 1 << 17
)

// exprParser evaluates an expression while it parses it. Skipped operands are parsed without being
// evaluated.
type exprParser struct {
	p     *kernel.Proc
	args  []string
	at    int
	depth int
	code  int    // of the first error, 0 for none
	msg   string // of that error
}

func runExpr(p *kernel.Proc) int {
	args := p.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		p.Errorf("missing operand")
		option.SuggestHelp(p)
		return 2
	}
	e := &exprParser{p: p, args: args}
	v := e.parseOr(true)
	if e.code == 0 && e.at < len(args) {
		e.setError(2, "syntax error: unexpected argument "+quoting.QuoteWord(args[e.at]))
	}
	if e.code != 0 {
		p.Errorf("%s", e.msg)
		return e.code
	}
	_, _ = p.Out().WriteString(v + "\n") // Flush reports the error
	if isNull(v) {
		return 1
	}
	return 0
}

// setError records the first error and moves to the end of the arguments, so that nothing else is
// parsed. It returns "0".
func (e *exprParser) setError(code int, msg string) string {
	if e.code == 0 {
		e.code, e.msg = code, msg
		e.at = len(e.args)
	}
	return "0"
}

// isNull reports whether a value is false: empty or zero.
func isNull(v string) bool {
	d := strings.TrimPrefix(v, "-")
	return v == "" || d != "" && strings.Trim(d, "0") == ""
}

// next moves past the current argument and returns it if words contains it. Otherwise it returns "".
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

func (e *exprParser) parseOr(live bool) string {
	l := e.parseAnd(live)
	for e.next("|") != "" {
		null := isNull(l)
		r := e.parseAnd(live && null)
		if null {
			if l = r; isNull(l) {
				l = "0"
			}
		}
	}
	return l
}

func (e *exprParser) parseAnd(live bool) string {
	l := e.parseComparison(live)
	for e.next("&") != "" {
		null := isNull(l)
		r := e.parseComparison(live && !null)
		if null || isNull(r) {
			l = "0"
		}
	}
	return l
}

func (e *exprParser) parseComparison(live bool) string {
	l := e.parseSum(live)
	for {
		op := e.next("<", "<=", "=", "==", "!=", ">=", ">")
		if op == "" {
			return l
		}
		r := e.parseSum(live)
		if !live {
			continue
		}
		c := strings.Compare(l, r)
		if x, y, ok := parseExprInts(l, r); ok {
			c = x.Cmp(y)
		}
		truth := map[string]bool{"<": c < 0, "<=": c <= 0, "=": c == 0, "==": c == 0, "!=": c != 0, ">=": c >= 0, ">": c > 0}[op]
		l = "0"
		if truth {
			l = "1"
		}
	}
}

// isExprInt reports whether an operand is an integer.
func isExprInt(s string) bool {
	d := strings.TrimPrefix(s, "-")
	return d != "" && strings.Trim(d, "0123456789") == ""
}

// parseExprInt parses an integer operand of at most maxExprDigits digits.
func parseExprInt(s string) (*big.Int, bool) {
	if len(s) > maxExprDigits || !isExprInt(s) {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}

func parseExprInts(a, b string) (x, y *big.Int, ok bool) {
	x, ok = parseExprInt(a)
	if !ok {
		return nil, nil, false
	}
	y, ok = parseExprInt(b)
	return x, y, ok
}

func (e *exprParser) parseSum(live bool) string {
	l := e.parseProduct(live)
	for {
		op := e.next("+", "-")
		if op == "" {
			return l
		}
		l = e.calculate(op, l, e.parseProduct(live), live)
	}
}

func (e *exprParser) parseProduct(live bool) string {
	l := e.parseMatch(live)
	for {
		op := e.next("*", "/", "%")
		if op == "" {
			return l
		}
		l = e.calculate(op, l, e.parseMatch(live), live)
	}
}

// calculate applies an arithmetic operator.
func (e *exprParser) calculate(op, l, r string, live bool) string {
	if !live || e.code != 0 {
		return l
	}
	x, y, ok := parseExprInts(l, r)
	if !ok {
		if isExprInt(l) && isExprInt(r) {
			return e.setError(3, "number of more than "+strconv.Itoa(maxExprDigits)+" digits")
		}
		return e.setError(2, "non-integer argument")
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
			return e.setError(2, "division by zero")
		}
		if op == "/" {
			x.Quo(x, y)
		} else {
			x.Rem(x, y)
		}
	}
	return x.String()
}

func (e *exprParser) parseMatch(live bool) string {
	l := e.parseOperand(live)
	for e.next(":") != "" {
		r := e.parseOperand(live)
		if live {
			l = e.applyPattern(l, r)
		}
	}
	return l
}

func (e *exprParser) parseOperand(live bool) string {
	if e.code != 0 {
		return "0"
	}
	if e.at == len(e.args) {
		return e.setError(2, "syntax error: missing argument after "+quoting.QuoteWord(e.args[e.at-1]))
	}
	e.depth++
	defer func() { e.depth-- }()
	if e.depth > maxExprDepth {
		return e.setError(2, "syntax error: nested too deeply")
	}
	switch e.next("+", "(", ")", "length", "match", "index", "substr") {
	case "+":
		if e.at == len(e.args) {
			return e.setError(2, "syntax error: missing argument after '+'")
		}
	case "(":
		v := e.parseOr(live)
		if e.code == 0 && e.next(")") == "" {
			if e.at == len(e.args) {
				return e.setError(2, "syntax error: expecting ')' after "+quoting.QuoteWord(e.args[e.at-1]))
			}
			return e.setError(2, "syntax error: expecting ')' instead of "+quoting.QuoteWord(e.args[e.at]))
		}
		return v
	case ")":
		return e.setError(2, "syntax error: unexpected ')'")
	case "length":
		return strconv.Itoa(utf8.RuneCountInString(e.parseOperand(live)))
	case "match":
		s := e.parseOperand(live)
		r := e.parseOperand(live)
		if !live || e.code != 0 {
			return "0"
		}
		return e.applyPattern(s, r)
	case "index":
		s := e.parseOperand(live)
		chars := e.parseOperand(live)
		if i := strings.IndexAny(s, chars); i >= 0 {
			return strconv.Itoa(utf8.RuneCountInString(s[:i]) + 1)
		}
		return "0"
	case "substr":
		s := e.parseOperand(live)
		from := e.parseOperand(live)
		return e.cutSubstring(s, from, e.parseOperand(live))
	}
	e.at++
	return e.args[e.at-1]
}

// cutSubstring returns count characters of s from a position, counted from 1.
func (e *exprParser) cutSubstring(s, from, count string) string {
	x, y, ok := parseExprInts(from, count)
	if !ok || x.Sign() <= 0 || y.Sign() <= 0 || x.Cmp(big.NewInt(int64(len(s)))) > 0 {
		return ""
	}
	e.p.Alloc(5 * int64(len(s)))
	defer e.p.Free(5 * int64(len(s)))
	runes := []rune(s)
	i := min(int(x.Int64())-1, len(runes))
	n := len(runes) - i
	if y.IsInt64() {
		n = int(min(int64(n), y.Int64()))
	}
	return string(runes[i : i+n])
}

// applyPattern matches s with an anchored pattern. It returns the text of the first group, or the
// length of the match if the pattern has no group.
func (e *exprParser) applyPattern(s, pattern string) string {
	re, err := regex.Compile(pattern, regex.Options{Syntax: regex.BRE, Dialect: regex.Posix, Budget: e.p})
	if err != nil {
		return e.setError(2, err.Error())
	}
	defer re.Release(e.p)
	caps := make([]int, 2+2*re.Groups())
	e.p.Alloc(int64(len(s)))
	defer e.p.Free(int64(len(s)))
	text := []byte(s)
	ok := re.Match(text, 0, caps, e.p)
	if ok && caps[0] != 0 { // anchored: only a match at the beginning counts
		e.p.Alloc(int64(len(pattern)))
		defer e.p.Free(int64(len(pattern)))
		anchored, err := regex.Compile(`^\(`+pattern+`\)`, regex.Options{Syntax: regex.BRE, Dialect: regex.Posix, Budget: e.p})
		if err != nil {
			return e.setError(2, err.Error())
		}
		defer anchored.Release(e.p)
		all := make([]int, 2+2*anchored.Groups())
		ok = anchored.Match(text, 0, all, e.p)
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
	return strconv.Itoa(utf8.RuneCountInString(s[:caps[1]]))
}
