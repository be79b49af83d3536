package shell

import (
	"fmt"
	"strconv"
	"strings"
)

// bTest implements test and [.
func bTest(in *interp, args []string) int {
	name := args[0]
	args = args[1:]
	if name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			in.errorf("[: missing `]'")
			return condError
		}
		args = args[:len(args)-1]
	}
	if len(args) == 3 { // fast path for the most common case
		if f := intTest(args[1]); f != nil {
			a, ok := plainInt(args[0])
			b, ok2 := plainInt(args[2])
			if ok && ok2 && args[0] != "" && args[2] != "" {
				return statusOf(f(a, b))
			}
		}
	}
	t := &tester{in: in, name: name, args: args}
	ok := t.evaluate()
	if t.failed {
		return condError
	}
	return statusOf(ok)
}

// tester evaluates the arguments of test as POSIX requires: by their number,
// and for more than four by a grammar.
type tester struct {
	in     *interp
	name   string
	args   []string
	pos    int
	depth  int
	failed bool
}

func (t *tester) failTest(format string, a ...any) bool {
	if !t.failed {
		t.failed = true
		t.in.errorf("%s: %s", t.name, fmt.Sprintf(format, a...))
	}
	return false
}

func (t *tester) evaluate() bool {
	a := t.args
	switch len(a) {
	case 0:
		return false
	case 1:
		return a[0] != ""
	case 2:
		return t.twoArgs(a)
	case 3:
		return t.threeArgs(a)
	case 4:
		if a[0] == "!" {
			return !t.threeArgs(a[1:])
		}
		if a[0] == "(" && a[3] == ")" {
			return t.twoArgs(a[1:3])
		}
	}
	v := t.or()
	if t.pos < len(t.args) {
		t.failTest("too many arguments")
	}
	return v
}

func (t *tester) twoArgs(a []string) bool {
	switch {
	case a[0] == "!":
		return a[1] == ""
	case isUnary(a[0]):
		return t.unaryTest(a[0], a[1])
	}
	return t.failTest("%s: unary operator expected", a[0])
}

func (t *tester) threeArgs(a []string) bool {
	switch {
	case isBinary(a[1]):
		return t.binaryTest(a[0], a[1], a[2])
	case a[1] == "-a":
		return a[0] != "" && a[2] != ""
	case a[1] == "-o":
		return a[0] != "" || a[2] != ""
	case a[0] == "!":
		return !t.twoArgs(a[1:])
	case a[0] == "(" && a[2] == ")":
		return a[1] != ""
	}
	return t.failTest("%s: binary operator expected", a[1])
}

func isBinary(op string) bool {
	switch op {
	case "=", "==", "!=", "<", ">", "-nt", "-ot", "-ef":
		return true
	}
	return intTest(op) != nil
}

func (t *tester) unaryTest(op, s string) bool {
	if op == "-t" {
		if _, err := strconv.Atoi(strings.TrimSpace(s)); err != nil {
			return false
		}
	}
	return t.in.unaryTest(op, s)
}

func (t *tester) binaryTest(a, op, b string) bool {
	f := intTest(op)
	if f == nil {
		return t.in.compare(op, a, b)
	}
	m, ok := t.parseInteger(a)
	if !ok {
		return false
	}
	n, ok := t.parseInteger(b)
	return ok && f(m, n)
}

func (t *tester) parseInteger(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.Trim(s, " \t\n"), 10, 64)
	if err != nil || strings.Contains(s, "_") {
		return 0, t.failTest("%s: integer expression expected", s)
	}
	return n, true
}

func (t *tester) or() bool {
	v := t.and()
	for !t.failed && t.pos < len(t.args) && t.args[t.pos] == "-o" {
		t.pos++
		w := t.and()
		v = v || w
	}
	return v
}

func (t *tester) and() bool {
	v := t.term()
	for !t.failed && t.pos < len(t.args) && t.args[t.pos] == "-a" {
		t.pos++
		w := t.term()
		v = v && w
	}
	return v
}

const maxTestDepth = 1000

func (t *tester) term() bool {
	t.in.chargeWork(1)
	left := len(t.args) - t.pos
	if left == 0 {
		return t.failTest("argument expected")
	}
	a := t.args[t.pos:]
	switch {
	case a[0] == "!":
		t.pos++
		if t.depth++; t.depth > maxTestDepth {
			return t.failTest("too many arguments")
		}
		defer func() { t.depth-- }()
		return !t.term()
	case a[0] == "(":
		return t.paren()
	case left >= 3 && isBinary(a[1]):
		t.pos += 3
		return t.binaryTest(a[0], a[1], a[2])
	case left >= 2 && isUnary(a[0]):
		t.pos += 2
		return t.unaryTest(a[0], a[1])
	case left >= 2 && len(a[0]) > 1 && a[0][0] == '-' && len(a[0]) == 2 && a[1] != "-a" && a[1] != "-o" && a[1] != ")":
		return t.failTest("%s: unary operator expected", a[0])
	}
	t.pos++
	return a[0] != ""
}

func (t *tester) paren() bool {
	if t.depth++; t.depth > maxTestDepth {
		return t.failTest("too many arguments")
	}
	defer func() { t.depth-- }()
	t.pos++
	v := t.or()
	if t.pos >= len(t.args) {
		return t.failTest("`)' expected")
	}
	if t.args[t.pos] != ")" {
		return t.failTest("`)' expected, found %s", t.args[t.pos])
	}
	t.pos++
	return v
}
