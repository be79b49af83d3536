package awk

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// compileList compiles a list of statements.
func (c *compiler) compileList(list []stmt) stmtFn {
	in := c.in
	fs := make([]stmtFn, 0, len(list))
	for _, s := range list {
		fs = append(fs, c.compileStmt(s))
	}
	switch len(fs) {
	case 0:
		return func() ctl { return goOn }
	case 1:
		f := fs[0]
		return func() ctl {
			r := f()
			if in.temp > in.tempBase {
				in.freeTemp(in.tempBase)
			}
			return r
		}
	}
	return func() ctl {
		for _, f := range fs {
			r := f()
			if in.temp > in.tempBase {
				in.freeTemp(in.tempBase)
			}
			if r != goOn {
				return r
			}
		}
		return goOn
	}
}

// compileStmt compiles one statement.
func (c *compiler) compileStmt(s stmt) stmtFn {
	c.enterNesting()
	defer c.leaveNesting()
	switch s := s.(type) {
	case *lineStmt:
		c.line = s.line
		return c.compileStmt(s.s)
	case *exprStmt:
		return c.compileEffect(s.e)
	case *blockStmt:
		return c.compileList(s.list)
	case *printStmt:
		if s.printf {
			return c.compilePrintf(s)
		}
		return c.compilePrint(s)
	case *ifStmt:
		return c.compileIf(s)
	case *whileStmt:
		return c.compileWhile(s)
	case *forStmt:
		return c.compileFor(s)
	case *forInStmt:
		return c.compileForIn(s)
	case *switchStmt:
		return c.compileSwitch(s)
	case *jumpStmt:
		return c.compileJump(s)
	case *exitStmt:
		return c.compileExit(s)
	case *returnStmt:
		return c.compileReturn(s)
	case *deleteStmt:
		return c.compileDelete(s)
	}
	c.in.fatal(c.line, "statement of unknown kind %T", s)
	return nil
}

// compileEffect compiles an expression whose value isn't used.
func (c *compiler) compileEffect(e expr) stmtFn {
	switch typeOf(e) {
	case number:
		f := c.compileNum(e)
		return func() ctl { f(); return goOn }
	case str:
		f := c.compileStr(e)
		return func() ctl { f(); return goOn }
	}
	if a, ok := e.(*assignExpr); ok && typeOf(a.r) == number {
		f := c.compileNum(e)
		return func() ctl { f(); return goOn }
	}
	f := c.compileValue(e)
	return func() ctl { f(); return goOn }
}

// compileIf compiles if.
func (c *compiler) compileIf(s *ifStmt) stmtFn {
	cond, then := c.compileCond(s.c), c.compileList(s.then)
	if s.else_ == nil {
		return func() ctl {
			if cond() {
				return then()
			}
			return goOn
		}
	}
	other := c.compileList(s.else_)
	return func() ctl {
		if cond() {
			return then()
		}
		return other()
	}
}

// countTurn counts the work of a loop's round.
func (in *interp) countTurn() {
	in.steps--
	if in.steps < 0 {
		in.flushTicks()
	}
	if in.temp > in.tempBase {
		in.freeTemp(in.tempBase)
	}
}

// compileWhile compiles while and do.
func (c *compiler) compileWhile(s *whileStmt) stmtFn {
	in := c.in
	cond, body := c.compileCond(s.c), c.compileList(s.body)
	do := s.do
	return func() ctl {
		for first := do; first || cond(); first = false {
			in.countTurn()
			switch r := body(); r {
			case goOn, doContinue:
			case doBreak:
				return goOn
			default:
				return r
			}
		}
		return goOn
	}
}

// compileFor compiles for (init; cond; post).
func (c *compiler) compileFor(s *forStmt) stmtFn {
	in := c.in
	nothing := func() ctl { return goOn }
	init, post := nothing, nothing
	cond := func() bool { return true }
	if s.init != nil {
		init = c.compileStmt(s.init)
	}
	if s.c != nil {
		cond = c.compileCond(s.c)
	}
	if s.post != nil {
		post = c.compileStmt(s.post)
	}
	body := c.compileList(s.body)
	return func() ctl {
		init()
		for cond() {
			in.countTurn()
			switch r := body(); r {
			case goOn, doContinue:
			case doBreak:
				return goOn
			default:
				return r
			}
			post()
		}
		return goOn
	}
}

// compileForIn compiles a loop over the subscripts that the array has when the loop begins.
func (c *compiler) compileForIn(s *forInStmt) stmtFn {
	in := c.in
	arr := c.compileArray(s.arr)
	set := c.compileSetter(s.v)
	body := c.compileList(s.body)
	return func() ctl {
		a := arr()
		list := in.sortedElems(a)
		cost := int64(cap(list)) * 8
		in.charge(cost)
		defer in.charge(-cost)
		for _, e := range list {
			in.countTurn()
			if e.isNum {
				set(inValue(e.subscript()))
			} else {
				set(strValue(e.key))
			}
			switch r := body(); r {
			case goOn, doContinue:
			case doBreak:
				return goOn
			default:
				return r
			}
		}
		return goOn
	}
}

// compileSetter compiles an assignment of any value to l.
func (c *compiler) compileSetter(l expr) func(value) {
	in := c.in
	ptr, after := c.compilePointer(l)
	if ptr == nil {
		modify := c.compileModify(l)
		return func(v value) { modify(func(value) value { return v }) }
	}
	return func(v value) {
		in.storeValue(ptr(), v)
		if after != nil {
			after()
		}
	}
}

// sortedElems returns the live elements in the order of PROCINFO["sorted_in"], by default in order
// of creation.
func (in *interp) sortedElems(a *array) []*elem {
	in.charge(int64(len(a.order)) * 8)
	in.flushCharges()
	list := make([]*elem, 0, a.len())
	for _, e := range a.order {
		if !e.dead {
			list = append(list, e)
		}
	}
	in.tick(len(list) / 16)
	in.charge(-int64(len(a.order)) * 8)
	if in.procinfo == nil {
		return list
	}
	if e := in.procinfo.strs["sorted_in"]; e != nil {
		in.sortElems(list, e.v.asString(in.convfmt))
	}
	return list
}

// compileSwitch compiles switch.
func (c *compiler) compileSwitch(s *switchStmt) stmtFn {
	in, line := c.in, c.line
	subject := c.compileValue(s.e)
	bodies := make([]stmtFn, len(s.cases))
	tests := make([]func(v *value) bool, len(s.cases))
	fallback := -1
	for i, k := range s.cases {
		bodies[i] = c.compileList(k.body)
		switch m := k.match.(type) {
		case nil:
			fallback = i
		case *regexLit:
			in.checkRegex(m.src, line)
			tests[i] = func(v *value) bool { return in.matchesIn(in.regexes.get(m.src, line), v.asString(in.convfmt)) }
		case *numLit:
			tests[i] = func(v *value) bool { return v.isNum() && v.asNumber() == m.v }
		case *strLit:
			tests[i] = func(v *value) bool { return !v.isNum() && v.s == m.s }
		}
	}
	return func() ctl {
		v := subject()
		v.resolveClass()
		at := slices.IndexFunc(tests, func(t func(*value) bool) bool { return t != nil && t(&v) })
		if at < 0 {
			at = fallback
		}
		if at < 0 {
			return goOn
		}
		for _, body := range bodies[at:] {
			switch r := body(); r {
			case goOn:
			case doBreak:
				return goOn
			default:
				return r
			}
		}
		return goOn
	}
}

// compileJump compiles break, continue, next and nextfile.
func (c *compiler) compileJump(s *jumpStmt) stmtFn {
	in := c.in
	r := map[kind]ctl{tBreak: doBreak, tContinue: doContinue, tNext: doNext, tNextFile: doNextFile}[s.op]
	if c.fn != nil && (r == doNext || r == doNextFile) {
		return func() ctl { in.abandonRecord(r); return goOn }
	}
	return func() ctl { return r }
}

// compileExit compiles exit.
func (c *compiler) compileExit(s *exitStmt) stmtFn {
	in := c.in
	if s.e == nil {
		return func() ctl { in.exitNow = true; in.exitProgram(); return goOn }
	}
	f := c.compileNum(s.e)
	return func() ctl {
		in.status = int(int64(f()))
		in.exitNow = true
		in.exitProgram()
		return goOn
	}
}

// compileReturn compiles return.
func (c *compiler) compileReturn(s *returnStmt) stmtFn {
	in := c.in
	if s.e == nil {
		return func() ctl { in.ret = value{}; return doReturn }
	}
	f := c.compileValue(s.e)
	return func() ctl {
		v := f()
		in.ret = v
		return doReturn
	}
}

// compileDelete compiles delete.
func (c *compiler) compileDelete(s *deleteStmt) stmtFn {
	in := c.in
	arr := c.compileArray(s.arr)
	if s.subs == nil {
		return func() ctl { in.deleteAll(arr()); return goOn }
	}
	key := c.compileSubscript(s.subs)
	return func() ctl {
		k := key()
		in.tick(1)
		in.deleteElem(arr(), k)
		return goOn
	}
}

// evalOperands evaluates fs onto the stack of operands. The caller must truncate the stack to base.
func (in *interp) evalOperands(fs []valFn) (list []value, base int) {
	base = len(in.operands)
	for _, f := range fs {
		v := f()
		in.operands = append(in.operands, v)
	}
	return in.operands[base:], base
}

// compileOutput compiles the destination of a print; nil is standard output.
func (c *compiler) compileOutput(s *printStmt) func() *stream {
	if s.redir == tEOF {
		return nil
	}
	in, line, op := c.in, c.line, s.redir
	dest := c.compileStr(s.dest)
	return func() *stream { return in.writerFor(op, dest(), line) }
}

// compilePrint compiles print.
func (c *compiler) compilePrint(s *printStmt) stmtFn {
	in, line := c.in, c.line
	dest := c.compileOutput(s)
	if len(s.args) == 0 {
		s.args = []expr{&fieldRef{&numLit{0}}}
	}
	if dest == nil && len(s.args) == 1 && typeOf(s.args[0]) != number {
		if _, isVar := s.args[0].(*fieldRef); isVar || typeOf(s.args[0]) == str {
			f := c.compileStr(s.args[0])
			return func() ctl { in.printLine(f(), line); return goOn }
		}
	}
	fs := make([]valFn, len(s.args))
	for i, a := range s.args {
		fs[i] = c.compileValue(a)
	}
	return func() ctl {
		list, base := in.evalOperands(fs)
		var st *stream
		if dest != nil {
			st = dest()
			list = in.operands[base:]
		}
		in.printValues(st, list, line)
		in.operands = in.operands[:base]
		return goOn
	}
}

// printLine prints s and ORS to standard output.
func (in *interp) printLine(s string, line int) {
	in.tick(1)
	_, err := in.out.WriteString(s)
	if err == nil {
		_, err = in.out.WriteString(in.ors)
	}
	if err != nil {
		in.writeFailed(nil, err, line)
	}
}

// printValues prints values to st, or to standard output if st is nil.
func (in *interp) printValues(st *stream, list []value, line int) {
	w := in.out
	if st != nil {
		w = st.w
		if w == nil {
			in.fatal(line, "print to a closed pipe")
		}
	}
	in.tick(1 + len(list))
	for i := range list {
		if i > 0 {
			_, _ = w.WriteString(in.ofs) // the last write returns the error
		}
		switch v := &list[i]; {
		case v.k != number:
			_, _ = w.WriteString(v.s)
		case v.n == float64(int64(v.n)) && v.n > -1e15 && v.n < 1e15:
			_, _ = w.Write(strconv.AppendInt(w.AvailableBuffer(), int64(v.n), 10))
		default:
			_, _ = w.WriteString(formatNumber(v.n, in.ofmt))
		}
	}
	_, err := w.WriteString(in.ors)
	if err == nil && st != nil && st.direct {
		err = w.Flush()
	}
	if err != nil {
		in.writeFailed(st, err, line)
	}
}

// compilePrintf compiles printf.
func (c *compiler) compilePrintf(s *printStmt) stmtFn {
	in, line := c.in, c.line
	dest := c.compileOutput(s)
	format := c.compileStr(s.args[0])
	fs := make([]valFn, len(s.args)-1)
	for i, a := range s.args[1:] {
		fs[i] = c.compileValue(a)
	}
	var buf []byte
	return func() ctl {
		f := format()
		list, base := in.evalOperands(fs)
		st := &stream{w: in.out}
		if dest != nil {
			st = dest()
			list = in.operands[base:]
			if st.w == nil {
				in.fatal(line, "printf to a closed pipe")
			}
		}
		buf = in.appendFormat(buf[:0], f, list, line)
		in.operands = in.operands[:base]
		in.write(st, buf, line)
		if cap(buf) > 64<<10 {
			buf = nil
		}
		return goOn
	}
}

// compileRule compiles a rule.
func (c *compiler) compileRule(r *rule) stmtFn {
	c.line = r.line
	body := c.compileList(r.body)
	if r.none {
		line := r.line
		in := c.in
		body = func() ctl { in.printLine(in.recordText(), line); return goOn }
	}
	switch {
	case r.pattern == nil:
		return body
	case r.to == nil:
		cond := c.compileCond(r.pattern)
		return func() ctl {
			if cond() {
				return body()
			}
			return goOn
		}
	}
	from, to := c.compileCond(r.pattern), c.compileCond(r.to)
	inside := false
	return func() ctl {
		if !inside && !from() {
			return goOn
		}
		inside = !to()
		return body()
	}
}

// sortElems sorts elements by a value of PROCINFO["sorted_in"] or of asort's third argument.
func (in *interp) sortElems(list []*elem, how string) {
	less := in.comparisonFor(how)
	if less == nil {
		return
	}
	in.tick(len(list))
	slices.SortStableFunc(list, func(a, b *elem) int {
		in.tick(1)
		return less(a, b)
	})
}

// comparisonFor returns the comparison with that name, or nil if the order doesn't matter.
func (in *interp) comparisonFor(how string) func(a, b *elem) int {
	var f func(a, b *elem) int
	switch strings.TrimSuffix(strings.TrimSuffix(how, "_asc"), "_desc") {
	case "@ind_num":
		f = func(a, b *elem) int {
			if d := cmp.Compare(toNumber(a.subscript()), toNumber(b.subscript())); d != 0 {
				return d
			}
			return strings.Compare(a.subscript(), b.subscript())
		}
	case "@ind_str":
		f = func(a, b *elem) int { return in.compareText(a.subscript(), b.subscript()) }
	case "@val_num":
		f = func(a, b *elem) int {
			if d := cmp.Compare(a.v.asNumber(), b.v.asNumber()); d != 0 {
				return d
			}
			return in.compareText(a.v.asString(in.convfmt), b.v.asString(in.convfmt))
		}
	case "@val_str":
		f = func(a, b *elem) int {
			if d := in.compareText(a.v.asString(in.convfmt), b.v.asString(in.convfmt)); d != 0 {
				return d
			}
			return strings.Compare(a.subscript(), b.subscript())
		}
	case "@val_type":
		f = in.compareTypes
	case "@unsorted", "":
		return nil
	default:
		return in.userOrder(how)
	}
	if strings.HasSuffix(how, "_desc") {
		return func(a, b *elem) int { return f(b, a) }
	}
	return f
}

// compareText compares strings; IGNORECASE applies.
func (in *interp) compareText(a, b string) int {
	if in.ignoreCase {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	}
	return strings.Compare(a, b)
}

// compareTypes orders numbers before strings before arrays.
func (in *interp) compareTypes(a, b *elem) int {
	rank := func(e *elem) int {
		e.v.resolveClass()
		switch {
		case e.sub != nil:
			return 2
		case e.v.isNum() && e.v.k != uninit:
			return 0
		}
		return 1
	}
	x, y := rank(a), rank(b)
	switch {
	case x != y:
		return x - y
	case x == 0:
		if d := cmp.Compare(a.v.asNumber(), b.v.asNumber()); d != 0 {
			return d
		}
	case x == 1:
		if d := in.compareText(a.v.s, b.v.s); d != 0 {
			return d
		}
	}
	return strings.Compare(a.subscript(), b.subscript())
}
