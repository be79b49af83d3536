package syntax

import "strings"

// nextToken reads the next token of an expression.
func (x *arithParser) nextToken() {
	if x.err != nil {
		return
	}
	last := x.kind
	for x.i < len(x.text) && isArithBlank(x.text[x.i]) {
		x.i++
	}
	x.node = nil
	if x.i >= len(x.text) {
		x.kind = arithEnd
		return
	}
	x.start = x.i
	c := x.text[x.i]
	switch {
	case c == placeholder && x.nsub < len(x.subs):
		x.i++
		x.kind = arithOperand
		x.node = &ArithDollar{N: len(x.dollars)}
		x.dollars = append(x.dollars, x.subs[x.nsub])
		x.nsub++
	case isDigit(c):
		x.lexNumber()
	case isNameStart(c):
		x.lexVariable()
	default:
		x.lexOperator(c, last)
	}
}

func isArithBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// lexVariable reads a name and its subscript.
func (x *arithParser) lexVariable() {
	from := x.i
	for x.i < len(x.text) && isName(x.text[x.i]) {
		x.i++
	}
	v := &ArithVar{Name: x.text[from:x.i]}
	x.kind, x.node = arithOperand, v
	if x.i >= len(x.text) || x.text[x.i] != '[' {
		return
	}
	end := x.subscriptEnd()
	if end < 0 {
		x.kind = arithOperand
		x.setError("bad array subscript")
		return
	}
	raw := x.restoreExpansions(x.text[x.i+1 : end])
	x.i = end + 1
	v.Index = x.p.indexOf(raw, x.line)
	if v.Index == nil {
		x.setError("bad array subscript")
	}
}

// subscriptEnd returns the offset of the bracket that closes the one at the
// current position, or -1.
func (x *arithParser) subscriptEnd() int {
	open := 0
	for j := x.i; j < len(x.text); j++ {
		switch x.text[j] {
		case '[':
			open++
		case ']':
			open--
			if open == 0 {
				return j
			}
		case '\\':
			j++
		case '"', '\'':
			n := strings.IndexByte(x.text[j+1:], x.text[j])
			if n < 0 {
				return -1
			}
			j += n + 1
		}
	}
	return -1
}

// restoreExpansions replaces placeholders by the source of their expansions.
func (x *arithParser) restoreExpansions(s string) string {
	if len(x.subs) == 0 || strings.IndexByte(s, placeholder) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != placeholder || x.nsub >= len(x.subs) {
			b.WriteByte(s[i])
			continue
		}
		switch part := x.subs[x.nsub].(type) {
		case *ParamExp:
			b.WriteString(part.Raw)
		case *CmdSubst:
			b.WriteString(part.Raw)
		case *ArithExp:
			b.WriteString("$((" + part.X.Raw + "))")
		}
		x.nsub++
	}
	return b.String()
}

// indexOf parses the text between the brackets of a subscript.
func (p *parser) indexOf(text string, line int32) *Index {
	if !p.enterLevel() {
		return nil
	}
	defer p.leaveLevel()
	switch text {
	case "@":
		return &Index{Kind: IndexAt}
	case "*":
		return &Index{Kind: IndexStar}
	}
	c := p.newChild(text, line)
	w := c.parseWord(ctxIndex)
	if c.err == nil && c.i < len(c.src) {
		c.failAt(c.i, "bad array subscript")
	}
	var idx *Index
	if c.err == nil {
		idx = &Index{Word: w, Arith: c.arithOf(0, len(text), w.Parts)}
	}
	p.adoptCosts(c)
	return idx
}

// lexNumber reads a constant: decimal, 0octal, 0xhex or base#digits.
func (x *arithParser) lexNumber() {
	from := x.i
	for x.i < len(x.text) && isNumberByte(x.text[x.i]) {
		x.i++
	}
	v, msg := parseConstant(x.text[from:x.i])
	if msg != "" {
		x.setError(msg)
		return
	}
	x.kind, x.val = arithNumber, v
}

func isNumberByte(c byte) bool { return isName(c) || c == '#' || c == '@' }

// parseConstant returns the value of a constant, or an error message.
func parseConstant(s string) (v int64, msg string) {
	base := uint64(10)
	if s[0] == '0' {
		if len(s) == 1 {
			return 0, ""
		}
		base = 8
		s = s[1:]
		if s[0] == 'x' || s[0] == 'X' {
			base = 16
			s = s[1:]
		}
	}
	var n uint64
	explicit := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '#' {
			switch {
			case explicit || base == 16 || i == 0:
				return 0, "invalid number"
			case n < 2 || n > 64:
				return 0, "invalid arithmetic base"
			case i+1 == len(s):
				return 0, "invalid integer constant"
			}
			base, n, explicit = n, 0, true
			continue
		}
		d := constantDigit(c, base)
		if d >= base {
			return 0, "value too great for base"
		}
		n = n*base + d
	}
	return int64(n), ""
}

func constantDigit(c byte, base uint64) uint64 {
	switch {
	case isDigit(c):
		return uint64(c - '0')
	case c >= 'a' && c <= 'z':
		return uint64(c-'a') + 10
	case c >= 'A' && c <= 'Z' && base <= 36:
		return uint64(c-'A') + 10
	case c >= 'A' && c <= 'Z':
		return uint64(c-'A') + 36
	case c == '@':
		return 62
	case c == '_':
		return 63
	}
	return 99
}

var arithOps = []struct {
	text string
	op   ArithOp
	kind arithToken
}{
	{"<<=", ArithShl, arithAssign},
	{">>=", ArithShr, arithAssign},
	{"**", ArithPow, arithOp},
	{"==", ArithEq, arithOp},
	{"!=", ArithNe, arithOp},
	{"<=", ArithLe, arithOp},
	{">=", ArithGe, arithOp},
	{"<<", ArithShl, arithOp},
	{">>", ArithShr, arithOp},
	{"&&", ArithLAnd, arithOp},
	{"||", ArithLOr, arithOp},
	{"*=", ArithMul, arithAssign},
	{"/=", ArithDiv, arithAssign},
	{"%=", ArithRem, arithAssign},
	{"+=", ArithAdd, arithAssign},
	{"-=", ArithSub, arithAssign},
	{"&=", ArithAnd, arithAssign},
	{"^=", ArithXor, arithAssign},
	{"|=", ArithOr, arithAssign},
	{"=", ArithNone, arithAssign},
	{"+", ArithAdd, arithOp},
	{"-", ArithSub, arithOp},
	{"*", ArithMul, arithOp},
	{"/", ArithDiv, arithOp},
	{"%", ArithRem, arithOp},
	{"<", ArithLt, arithOp},
	{">", ArithGt, arithOp},
	{"&", ArithAnd, arithOp},
	{"|", ArithOr, arithOp},
	{"^", ArithXor, arithOp},
	{"~", ArithNot, arithOp},
	{"!", ArithLNot, arithOp},
	{",", ArithComma, arithOp},
	{"(", 0, arithOpen},
	{")", 0, arithClose},
	{"?", 0, arithQuestion},
	{":", 0, arithColon},
}

func (x *arithParser) lexOperator(c byte, last arithToken) {
	rest := x.text[x.i:]
	if len(rest) > 1 && rest[1] == c && (c == '+' || c == '-') && x.isIncDec(last) {
		x.i += 2
		x.kind = arithInc
		if c == '-' {
			x.kind = arithDec
		}
		return
	}
	for _, o := range arithOps {
		if strings.HasPrefix(rest, o.text) {
			x.i += len(o.text)
			x.kind, x.op = o.kind, o.op
			return
		}
	}
	if last == arithNumber || last == arithOperand {
		x.setError("syntax error: invalid arithmetic operator")
		return
	}
	x.setError("syntax error: operand expected")
}

// isIncDec reports whether ++ or -- at the current position is an increment or
// decrement: after or before a variable. Otherwise it is two signs.
func (x *arithParser) isIncDec(last arithToken) bool {
	if last == arithOperand {
		return true
	}
	j := x.i + 2
	for j < len(x.text) && isArithBlank(x.text[j]) {
		j++
	}
	return j < len(x.text) && isNameStart(x.text[j])
}
