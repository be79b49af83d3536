package shell

import (
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/syntax"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Results of a condition.
const (
	condTrue  = 0
	condFalse = 1
	condError = 2
)

// cond compiles the expression of [[ ]]. Its status is 0, 1, or 2 after an
// error that was printed.
func (c *compiler) cond(x syntax.CondExpr) func(in *interp) int {
	f := c.condExpr(x, "")
	return func(in *interp) int { return f(in) }
}

// statusOf converts the result of a test to a status.
func statusOf(b bool) int {
	if b {
		return condTrue
	}
	return condFalse
}

// condExpr compiles an expression; not is the prefix that set -x prints.
func (c *compiler) condExpr(x syntax.CondExpr, not string) func(in *interp) int {
	switch x := x.(type) {
	case *syntax.CondWord:
		f := c.scalar(x.X)
		return func(in *interp) int {
			s := f(in)
			in.traceCond(not + "-n " + condText(s))
			return statusOf(s != "")
		}
	case *syntax.CondUnary:
		return c.condUnary(x, not)
	case *syntax.CondBinary:
		return c.condBinary(x, not)
	case *syntax.CondParen:
		return c.condExpr(x.X, "")
	case *syntax.CondNot:
		f := c.condExpr(x.X, "! ")
		return func(in *interp) int {
			switch r := f(in); r {
			case condTrue:
				return condFalse
			case condFalse:
				return condTrue
			default:
				return r
			}
		}
	case *syntax.CondLogic:
		a, b, stop := c.condExpr(x.X, ""), c.condExpr(x.Y, ""), condFalse
		if x.Or {
			stop = condTrue
		}
		return func(in *interp) int {
			if r := a(in); r == stop || r == condError {
				return r
			}
			return b(in)
		}
	}
	panic("shell: unknown condition in the tree")
}

// traceCond prints a test of [[ ]] for set -x.
func (in *interp) traceCond(text string) {
	if in.opts&optXtrace != 0 {
		in.printTrace("[[ " + text + " ]]")
	}
}

// condText returns an operand as set -x prints it.
func condText(s string) string {
	if s == "" {
		return "''"
	}
	return s
}

func (c *compiler) condUnary(x *syntax.CondUnary, not string) func(in *interp) int {
	f, op := c.scalar(x.X), x.Op
	return func(in *interp) int {
		s := f(in)
		in.traceCond(not + op + " " + condText(s))
		return statusOf(in.unaryTest(op, s))
	}
}

func (c *compiler) condBinary(x *syntax.CondBinary, not string) func(in *interp) int {
	left, op := c.scalar(x.X), x.Op
	switch op {
	case "==", "=", "!=":
		pat, shown := c.patternWith(x.Y, patExt), c.condPattern(x.Y)
		return func(in *interp) int {
			s := left(in)
			if in.opts&optXtrace != 0 {
				in.traceCond(not + condText(s) + " " + op + " " + condText(shown(in)))
			}
			return statusOf(pat(in).matchAll(in, s) == (op != "!="))
		}
	case "=~":
		return c.condRegex(x, left, not)
	}
	right := c.scalar(x.Y)
	return func(in *interp) int {
		a, b := left(in), right(in)
		in.traceCond(not + condText(a) + " " + op + " " + condText(b))
		if test := intTest(op); test != nil {
			m, ok := in.tryArith(func(in *interp) int64 { return in.evalText(a) }, "[[")
			if !ok {
				return condFalse
			}
			n, ok := in.tryArith(func(in *interp) int64 { return in.evalText(b) }, "[[")
			return statusOf(ok && test(m, n))
		}
		return statusOf(in.compare(op, a, b))
	}
}

// condPattern compiles the right side of == as set -x prints it: with a
// backslash before every quoted character.
func (c *compiler) condPattern(w *syntax.Word) text {
	list := wordItems(w.Parts, tildeNone)
	fs := make([]text, len(list))
	for i, it := range list {
		f := c.escapedPart(it)
		switch it.part.(type) {
		case *syntax.Quoted, *syntax.DblQuoted:
			plain := c.textOf(it)
			f = func(in *interp) string { return escapeAll(plain(in)) }
		}
		fs[i] = f
	}
	return joinTexts(fs)
}

func escapeAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteByte('\\')
		b.WriteRune(r)
	}
	return b.String()
}

func intTest(op string) func(a, b int64) bool {
	switch op {
	case "-eq":
		return func(a, b int64) bool { return a == b }
	case "-ne":
		return func(a, b int64) bool { return a != b }
	case "-lt":
		return func(a, b int64) bool { return a < b }
	case "-le":
		return func(a, b int64) bool { return a <= b }
	case "-gt":
		return func(a, b int64) bool { return a > b }
	case "-ge":
		return func(a, b int64) bool { return a >= b }
	}
	return nil
}

// compare performs the tests of two strings or two files.
func (in *interp) compare(op, a, b string) bool {
	switch op {
	case "=", "==":
		return a == b
	case "!=":
		return a != b
	case "<":
		return a < b
	case ">":
		return a > b
	}
	x, errX := in.p.Stat(a)
	y, errY := in.p.Stat(b)
	switch op {
	case "-nt":
		return errX == nil && (errY != nil || x.ModTime().After(y.ModTime()))
	case "-ot":
		return errY == nil && (errX != nil || x.ModTime().Before(y.ModTime()))
	case "-ef":
		return errX == nil && errY == nil && x.Ino() == y.Ino()
	}
	return false
}

// lastRegex caches the last regular expression of a condition. It is empty
// while the expression is in use.
type lastRegex struct{ p atomic.Pointer[compiledRegex] }

type compiledRegex struct {
	src   string
	flags patFlags
	re    *regex.Regexp
}

func (c *compiler) condRegex(x *syntax.CondBinary, left text, not string) func(in *interp) int {
	pat := c.regexText(x.Y)
	last := &lastRegex{}
	return func(in *interp) int {
		s, src := left(in), pat(in)
		in.traceCond(not + condText(s) + " =~ " + src)
		return in.matchRegex(last, s, src)
	}
}

func (in *interp) matchRegex(last *lastRegex, s, src string) int {
	flags := in.patFlags() &^ patExt
	m := last.p.Swap(nil)
	if m == nil || m.src != src || m.flags != flags {
		re, err := regex.Compile(src, regex.Options{
			Syntax: regex.ERE, IgnoreCase: flags&patFold != 0, Bytes: in.bytes, Budget: in.p,
		})
		if err != nil {
			return condError
		}
		m = &compiledRegex{src, flags, re}
	}
	caps := make([]int, 2*(m.re.Groups()+1))
	ok := m.re.Match([]byte(s), 0, caps, in.p)
	m.re.Release(in.p)
	if len(src) < 1024 {
		last.p.Store(m)
	}
	var groups []string
	for i := 0; ok && i < len(caps); i += 2 {
		g := ""
		if caps[i] >= 0 {
			g = cutOut(s, caps[i], caps[i+1])
		}
		groups = append(groups, g)
	}
	in.setArray("BASH_REMATCH", groups)
	return statusOf(ok)
}

// regexText compiles the right side of =~: quoted text is literal.
func (c *compiler) regexText(w *syntax.Word) text {
	list := wordItems(w.Parts, tildeStart)
	fs := make([]text, len(list))
	for i, it := range list {
		f := c.textOf(it)
		switch it.part.(type) {
		case *syntax.Lit, *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithExp:
			fs[i] = f
		default:
			fs[i] = func(in *interp) string { return quoteRegex(f(in)) }
		}
	}
	return joinTexts(fs)
}

func quoteRegex(s string) string {
	if !strings.ContainsAny(s, `\.[]()*+?{}|^$`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.IndexByte(`\.[]()*+?{}|^$`, s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isUnary reports whether op is a test of one operand.
func isUnary(op string) bool {
	return len(op) == 2 && op[0] == '-' && strings.IndexByte("abcdefghknoprstuvwxzGLNORS", op[1]) >= 0
}

// unaryTest performs the tests of one operand.
func (in *interp) unaryTest(op, s string) bool {
	in.chargeReading(s)
	switch op[1] {
	case 'n':
		return s != ""
	case 'z':
		return s == ""
	case 'v':
		return in.isSet(s)
	case 'R':
		v := in.lookupVar(s)
		return s != "" && v != nil && v.attrs&attrNameref != 0 && v.set
	case 'o':
		return in.namedOptionOn(s)
	case 't':
		n, err := strconv.Atoi(strings.TrimSpace(s))
		return err == nil && in.p.FD(n) != nil && in.p.Handle(n).IsTerminal()
	case 'h', 'L':
		info, err := in.p.Lstat(s)
		return err == nil && info.Mode()&fs.ModeSymlink != 0
	}
	info, err := in.p.Stat(s)
	return err == nil && fileTest(op[1], info)
}

func fileTest(op byte, info vfs.Info) bool {
	m := info.Mode()
	switch op {
	case 'f':
		return m.IsRegular()
	case 'd':
		return m.IsDir()
	case 'b':
		return m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
	case 'c':
		return m&fs.ModeCharDevice != 0
	case 'p':
		return m&fs.ModeNamedPipe != 0
	case 'S':
		return m&fs.ModeSocket != 0
	case 's':
		return info.Size() > 0
	case 'g':
		return m&fs.ModeSetgid != 0
	case 'u':
		return m&fs.ModeSetuid != 0
	case 'k':
		return m&fs.ModeSticky != 0
	case 'x':
		return m.IsDir() || m.Perm()&0o111 != 0
	case 'w':
		return !info.ReadOnly()
	case 'O':
		return info.Uid() == 0
	case 'G':
		return info.Gid() == 0
	case 'N':
		return info.ModTime().After(info.Atime())
	}
	return true // -a and -e; the user is root, so -r is true too
}

// isSet implements -v: it reports whether a variable, an array element or a
// parameter is set.
func (in *interp) isSet(s string) bool {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return n <= len(in.params)
	}
	r, ok := in.parseRef(s)
	if !ok {
		return false
	}
	if r.sub == nil {
		_, ok := in.get(r.name)
		return ok
	}
	v, r, ok := in.find(r)
	if !ok || v == nil {
		return false
	}
	if r.sub.all != 0 {
		if v.attrs&attrAssoc != 0 {
			_, ok := v.assoc.get(string([]byte{r.sub.all}))
			return ok || in.countElements(v) > 0
		}
		return in.countElements(v) > 0
	}
	_, ok = in.elementOf(v, r)
	return ok
}

// namedOptionOn reports whether an option of set -o is on.
func (in *interp) namedOptionOn(name string) bool {
	for on := range strings.SplitSeq(in.shellOptsValue(), ":") {
		if on == name {
			return name != ""
		}
	}
	return false
}
