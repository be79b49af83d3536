package awk

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// list compiles statements in a row.
func (c *compiler) list(list []stmt) stmtFn {
	in := c.in
	fs := make([]stmtFn, 0, len(list))
	for _, s := range list {
		fs = append(fs, c.stmt(s))
	}
	switch len(fs) {
	case 0:
		return func() ctl { return goOn }
	case 1:
		f := fs[0]
		return func() ctl {
			r := f()
			if in.temp > in.tempBase {
				in.settleTemp(in.tempBase)
			}
			return r
		}
	}
	return func() ctl {
		for _, f := range fs {
			r := f()
			if in.temp > in.tempBase {
				in.settleTemp(in.tempBase)
			}
			if r != goOn {
				return r
			}
		}
		return goOn
	}
}

func (c *compiler) stmt(s stmt) stmtFn {
	c.enter()
	defer c.leave()
	switch s := s.(type) {
	case *lineStmt:
		c.line = s.line
		return c.stmt(s.s)
	case *exprStmt:
		return c.effect(s.e)
	case *blockStmt:
		return c.list(s.list)
	case *printStmt:
		if s.printf {
			return c.printf(s)
		}
		return c.print(s)
	case *ifStmt:
		return c.ifStmt(s)
	case *whileStmt:
		return c.while(s)
	case *forStmt:
		return c.loop(s)
	case *forInStmt:
		return c.forIn(s)
	case *switchStmt:
		return c.switchStmt(s)
	case *jumpStmt:
		return c.jump(s)
	case *exitStmt:
		return c.exit(s)
	case *returnStmt:
		return c.returnStmt(s)
	case *deleteStmt:
		return c.deleteStmt(s)
	}
	c.in.fatal(c.line, "statement of unknown kind %T", s)
	return nil
}

// effect compiles an expression whose value nobody wants.
func (c *compiler) effect(e expr) stmtFn {
	switch typeOf(e) {
	case number:
		f := c.num(e)
		return func() ctl { f(); return goOn }
	case str:
		f := c.str(e)
		return func() ctl { f(); return goOn }
	}
	if a, ok := e.(*assignExpr); ok && typeOf(a.r) == number {
		f := c.num(e)
		return func() ctl { f(); return goOn }
	}
	f := c.val(e)
	return func() ctl { f(); return goOn }
}

func (c *compiler) ifStmt(s *ifStmt) stmtFn {
	cond, then := c.cond(s.c), c.list(s.then)
	if s.else_ == nil {
		return func() ctl {
			if cond() {
				return then()
			}
			return goOn
		}
	}
	other := c.list(s.else_)
	return func() ctl {
		if cond() {
			return then()
		}
		return other()
	}
}

// turn counts a turn of a loop.
func (in *interp) turn() {
	in.steps--
	if in.steps < 0 {
		in.tock()
	}
	if in.temp > in.tempBase {
		in.settleTemp(in.tempBase)
	}
}

func (c *compiler) while(s *whileStmt) stmtFn {
	in := c.in
	cond, body := c.cond(s.c), c.list(s.body)
	do := s.do
	return func() ctl {
		for first := do; first || cond(); first = false {
			in.turn()
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

func (c *compiler) loop(s *forStmt) stmtFn {
	in := c.in
	nothing := func() ctl { return goOn }
	init, post := nothing, nothing
	cond := func() bool { return true }
	if s.init != nil {
		init = c.stmt(s.init)
	}
	if s.c != nil {
		cond = c.cond(s.c)
	}
	if s.post != nil {
		post = c.stmt(s.post)
	}
	body := c.list(s.body)
	return func() ctl {
		init()
		for cond() {
			in.turn()
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

// forIn loops over the subscripts that the array has when the loop begins.
func (c *compiler) forIn(s *forInStmt) stmtFn {
	in := c.in
	arr := c.array(s.arr)
	set := c.setter(s.v)
	body := c.list(s.body)
	return func() ctl {
		a := arr()
		list := in.sorted(a)
		cost := int64(cap(list)) * 8
		in.charge(cost)
		defer in.charge(-cost)
		for _, e := range list {
			in.turn()
			if e.isNum {
				set(inValue(e.name()))
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

// setter compiles an assignment of any value to l.
func (c *compiler) setter(l expr) func(value) {
	in := c.in
	ptr, after := c.pointer(l)
	if ptr == nil {
		modify := c.modify(l)
		return func(v value) { modify(func(value) value { return v }) }
	}
	return func(v value) {
		in.store(ptr(), v)
		if after != nil {
			after()
		}
	}
}

// sorted returns the live elements in the order that PROCINFO["sorted_in"]
// asks for, by default that of their making.
func (in *interp) sorted(a *array) []*elem {
	in.charge(int64(len(a.order)) * 8)
	in.settle()
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
		in.sort(list, e.v.str(in.convfmt))
	}
	return list
}

func (c *compiler) switchStmt(s *switchStmt) stmtFn {
	in, line := c.in, c.line
	subject := c.val(s.e)
	bodies := make([]stmtFn, len(s.cases))
	tests := make([]func(v *value) bool, len(s.cases))
	fallback := -1
	for i, k := range s.cases {
		bodies[i] = c.list(k.body)
		switch m := k.match.(type) {
		case nil:
			fallback = i
		case *regexLit:
			in.checkRegex(m.src, line)
			tests[i] = func(v *value) bool { return in.matches(in.regexes.get(m.src, line), v.str(in.convfmt)) }
		case *numLit:
			tests[i] = func(v *value) bool { return v.isNum() && v.num() == m.v }
		case *strLit:
			tests[i] = func(v *value) bool { return !v.isNum() && v.s == m.s }
		}
	}
	return func() ctl {
		v := subject()
		v.resolve()
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

func (c *compiler) jump(s *jumpStmt) stmtFn {
	in := c.in
	r := map[kind]ctl{tBreak: doBreak, tContinue: doContinue, tNext: doNext, tNextFile: doNextFile}[s.op]
	if c.fn != nil && (r == doNext || r == doNextFile) {
		return func() ctl { in.leave(r); return goOn }
	}
	return func() ctl { return r }
}

func (c *compiler) exit(s *exitStmt) stmtFn {
	in := c.in
	if s.e == nil {
		return func() ctl { in.exitNow = true; in.exit(); return goOn }
	}
	f := c.num(s.e)
	return func() ctl {
		in.status = int(int64(f()))
		in.exitNow = true
		in.exit()
		return goOn
	}
}

func (c *compiler) returnStmt(s *returnStmt) stmtFn {
	in := c.in
	if s.e == nil {
		return func() ctl { in.ret = value{}; return doReturn }
	}
	f := c.val(s.e)
	return func() ctl {
		v := f()
		in.ret = v
		return doReturn
	}
}

func (c *compiler) deleteStmt(s *deleteStmt) stmtFn {
	in := c.in
	arr := c.array(s.arr)
	if s.subs == nil {
		return func() ctl { in.empty(arr()); return goOn }
	}
	key := c.subscript(s.subs)
	return func() ctl {
		k := key()
		in.tick(1)
		in.remove(arr(), k)
		return goOn
	}
}

// operandsOf evaluates fs onto a stack that print and calls share.
func (in *interp) operandsOf(fs []valFn) (list []value, base int) {
	base = len(in.operands)
	for _, f := range fs {
		v := f()
		in.operands = append(in.operands, v)
	}
	return in.operands[base:], base
}

// output compiles where a print writes; nil is standard output.
func (c *compiler) output(s *printStmt) func() *stream {
	if s.redir == tEOF {
		return nil
	}
	in, line, op := c.in, c.line, s.redir
	dest := c.str(s.dest)
	return func() *stream { return in.writerFor(op, dest(), line) }
}

func (c *compiler) print(s *printStmt) stmtFn {
	in, line := c.in, c.line
	dest := c.output(s)
	if len(s.args) == 0 {
		s.args = []expr{&fieldRef{&numLit{0}}}
	}
	if dest == nil && len(s.args) == 1 && typeOf(s.args[0]) != number {
		if _, isVar := s.args[0].(*fieldRef); isVar || typeOf(s.args[0]) == str {
			f := c.str(s.args[0])
			return func() ctl { in.printLine(f(), line); return goOn }
		}
	}
	fs := make([]valFn, len(s.args))
	for i, a := range s.args {
		fs[i] = c.val(a)
	}
	return func() ctl {
		list, base := in.operandsOf(fs)
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
			_, _ = w.WriteString(in.ofs) // the error comes back from the last write
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

func (c *compiler) printf(s *printStmt) stmtFn {
	in, line := c.in, c.line
	dest := c.output(s)
	format := c.str(s.args[0])
	fs := make([]valFn, len(s.args)-1)
	for i, a := range s.args[1:] {
		fs[i] = c.val(a)
	}
	var buf []byte
	return func() ctl {
		f := format()
		list, base := in.operandsOf(fs)
		st := &stream{w: in.out}
		if dest != nil {
			st = dest()
			list = in.operands[base:]
			if st.w == nil {
				in.fatal(line, "printf to a closed pipe")
			}
		}
		buf = in.sprintf(buf[:0], f, list, line)
		in.operands = in.operands[:base]
		in.write(st, buf, line)
		if cap(buf) > 64<<10 {
			buf = nil
		}
		return goOn
	}
}

// rule compiles a rule of the main loop.
func (c *compiler) rule(r *rule) stmtFn {
	c.line = r.line
	body := c.list(r.body)
	if r.none {
		line := r.line
		in := c.in
		body = func() ctl { in.printLine(in.text(), line); return goOn }
	}
	switch {
	case r.pattern == nil:
		return body
	case r.to == nil:
		cond := c.cond(r.pattern)
		return func() ctl {
			if cond() {
				return body()
			}
			return goOn
		}
	}
	from, to := c.cond(r.pattern), c.cond(r.to)
	inside := false
	return func() ctl {
		if !inside && !from() {
			return goOn
		}
		inside = !to()
		return body()
	}
}

// sort orders elements as PROCINFO["sorted_in"] or asort say.
func (in *interp) sort(list []*elem, how string) {
	less := in.order(how)
	if less == nil {
		return
	}
	in.tick(len(list))
	slices.SortStableFunc(list, func(a, b *elem) int {
		in.tick(1)
		return less(a, b)
	})
}

// order returns the comparison with that name, nil for none.
func (in *interp) order(how string) func(a, b *elem) int {
	var f func(a, b *elem) int
	switch strings.TrimSuffix(strings.TrimSuffix(how, "_asc"), "_desc") {
	case "@ind_num":
		f = func(a, b *elem) int {
			if d := cmp.Compare(toNumber(a.name()), toNumber(b.name())); d != 0 {
				return d
			}
			return strings.Compare(a.name(), b.name())
		}
	case "@ind_str":
		f = func(a, b *elem) int { return in.compareText(a.name(), b.name()) }
	case "@val_num":
		f = func(a, b *elem) int {
			if d := cmp.Compare(a.v.num(), b.v.num()); d != 0 {
				return d
			}
			return in.compareText(a.v.str(in.convfmt), b.v.str(in.convfmt))
		}
	case "@val_str":
		f = func(a, b *elem) int {
			if d := in.compareText(a.v.str(in.convfmt), b.v.str(in.convfmt)); d != 0 {
				return d
			}
			return strings.Compare(a.name(), b.name())
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

func (in *interp) compareText(a, b string) int {
	if in.ignoreCase {
		return strings.Compare(strings.ToLower(a), strings.ToLower(b))
	}
	return strings.Compare(a, b)
}

// compareTypes puts numbers before strings before arrays.
func (in *interp) compareTypes(a, b *elem) int {
	rank := func(e *elem) int {
		e.v.resolve()
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
		if d := cmp.Compare(a.v.num(), b.v.num()); d != 0 {
			return d
		}
	case x == 1:
		if d := in.compareText(a.v.s, b.v.s); d != 0 {
			return d
		}
	}
	return strings.Compare(a.name(), b.name())
}
